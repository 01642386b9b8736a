/* Ephemeral state for end systems: instructions that packets carry and routers execute, and rounds in which a group of hosts finds
 * something out together. docs/ephemeral-state.md of Switchpath tells what instructions do.
 *
 * Nothing here sends, receives, waits or reads a clock: the caller does, and asks what to send when. Times are nanoseconds by any
 * clock that only goes forward. Functions may be called from any thread, one object by one thread at a time. Objects come from
 * functions that end in _new and go by those that end in _free; NULL is taken by all of them and does nothing where nothing else is
 * said.
 *
 * cc program.c -lswitchpath_state
 */
#ifndef SWITCHPATH_STATE_H
#define SWITCHPATH_STATE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The UDP port that carries instructions, and the protocol of IP that does, where routers are not told otherwise. */
#define SWITCHPATH_PORT 5937
#define SWITCHPATH_PROTOCOL 253
/* Bytes of the longest part. */
#define SWITCHPATH_MOST 46
/* Bytes that stand between a part and what it is in front of. */
#define SWITCHPATH_TRAILER 2

enum switchpath_instruction {
    SWITCHPATH_NOP = 0,
    SWITCHPATH_COUNT = 1,
    SWITCHPATH_COMPARE = 2,
    SWITCHPATH_COLLECT = 3,
    SWITCHPATH_RCOLLECT = 4,
    SWITCHPATH_RCHLD = 5,
    SWITCHPATH_MARK = 6,
    SWITCHPATH_TEST = 7,
    SWITCHPATH_GET = 8,
    SWITCHPATH_PUT = 9,
    SWITCHPATH_SETFWD = 10
};

/* The first eight combine, the others compare. */
enum switchpath_operator {
    SWITCHPATH_ADD = 0,
    SWITCHPATH_MIN = 1,
    SWITCHPATH_MAX = 2,
    SWITCHPATH_AND = 3,
    SWITCHPATH_OR = 4,
    SWITCHPATH_XOR = 5,
    SWITCHPATH_FIRST = 6,
    SWITCHPATH_LAST = 7,
    SWITCHPATH_LT = 8,
    SWITCHPATH_LE = 9,
    SWITCHPATH_EQ = 10,
    SWITCHPATH_NE = 11,
    SWITCHPATH_GE = 12,
    SWITCHPATH_GT = 13
};

/* Where routers execute it: any of these together. */
enum switchpath_place { SWITCHPATH_INPUT = 1, SWITCHPATH_CENTRAL = 2, SWITCHPATH_OUTPUT = 4 };

/* A router could not execute it; data of somebody follows; its sender wants to be able to follow it. */
enum switchpath_flag { SWITCHPATH_ERROR = 1, SWITCHPATH_PIGGYBACKED = 2, SWITCHPATH_TRACE = 4 };

/* The part of a packet that routers execute. */
typedef struct switchpath_part {
    /* Drawn at random by whoever begins the computation. */
    uint64_t computation;
    /* In the order in which they are sent; those that the instruction does not have are 0. */
    uint64_t operands[4];
    uint8_t instruction;
    /* 0 where the instruction takes none. */
    uint8_t operation;
    uint8_t places;
    uint8_t flags;
} switchpath_part;

static inline switchpath_part switchpath_part_of(uint64_t computation, unsigned places, unsigned instruction, unsigned operation,
                                                 uint64_t first, uint64_t second, uint64_t third, uint64_t fourth) {
    switchpath_part part;
    memset(&part, 0, sizeof part);
    part.computation = computation;
    part.operands[0] = first;
    part.operands[1] = second;
    part.operands[2] = third;
    part.operands[3] = fourth;
    part.instruction = (uint8_t)instruction;
    part.operation = (uint8_t)operation;
    part.places = (uint8_t)places;
    return part;
}

/* Forwards. */
static inline switchpath_part switchpath_nop(uint64_t computation, unsigned places) {
    return switchpath_part_of(computation, places, SWITCHPATH_NOP, 0, 0, 0, 0, 0);
}
/* Counts at a tag; forwards while that is below a threshold. */
static inline switchpath_part switchpath_count(uint64_t computation, unsigned places, uint64_t tag, uint32_t below) {
    return switchpath_part_of(computation, places, SWITCHPATH_COUNT, SWITCHPATH_LT, tag, below, 0, 0);
}
/* Writes the value and forwards where nothing is there, or where the value compares so to what is. */
static inline switchpath_part switchpath_compare(uint64_t computation, unsigned places, uint64_t tag, unsigned relation, uint64_t value) {
    return switchpath_part_of(computation, places, SWITCHPATH_COMPARE, relation, tag, value, 0, 0);
}
/* Combines into a result and counts down; the last goes on with the result. */
static inline switchpath_part switchpath_collect(uint64_t computation, unsigned places, uint64_t counter, uint64_t result, unsigned combine,
                                                 uint64_t value) {
    return switchpath_part_of(computation, places, SWITCHPATH_COLLECT, combine, counter, result, value, 0);
}
/* The same, once for each child that has made itself known. */
static inline switchpath_part switchpath_rcollect(uint64_t computation, unsigned places, uint64_t counter, uint64_t result, uint64_t child,
                                                  unsigned combine, uint64_t value) {
    return switchpath_part_of(computation, places, SWITCHPATH_RCOLLECT, combine, counter, result, child, value);
}
/* Makes a child known. */
static inline switchpath_part switchpath_rchld(uint64_t computation, unsigned places, uint64_t counter, uint64_t child) {
    return switchpath_part_of(computation, places, SWITCHPATH_RCHLD, 0, counter, child, 0, 0);
}
/* Creates, if nothing is there. */
static inline switchpath_part switchpath_mark(uint64_t computation, unsigned places, uint64_t tag, uint64_t value) {
    return switchpath_part_of(computation, places, SWITCHPATH_MARK, 0, tag, value, 0, 0);
}
/* Forwards if something is there. */
static inline switchpath_part switchpath_test(uint64_t computation, unsigned places, uint64_t tag) {
    return switchpath_part_of(computation, places, SWITCHPATH_TEST, 0, tag, 0, 0, 0);
}
/* Takes the value along, as its second operand. */
static inline switchpath_part switchpath_get(uint64_t computation, unsigned places, uint64_t tag) {
    return switchpath_part_of(computation, places, SWITCHPATH_GET, 0, tag, 0, 0, 0);
}
/* Writes. */
static inline switchpath_part switchpath_put(uint64_t computation, unsigned places, uint64_t tag, uint64_t value) {
    return switchpath_part_of(computation, places, SWITCHPATH_PUT, 0, tag, value, 0, 0);
}
/* Forwards where what is there compares so to the value. */
static inline switchpath_part switchpath_setfwd(uint64_t computation, unsigned places, uint64_t tag, unsigned relation, uint64_t value) {
    return switchpath_part_of(computation, places, SWITCHPATH_SETFWD, relation, tag, value, 0, 0);
}

/* The bytes of a part: how many, or 0 where it is none (no such instruction, an operator that it does not take). */
size_t switchpath_write(const switchpath_part *part, uint8_t bytes[SWITCHPATH_MOST]);
/* The part at the start of some bytes: how many it takes, or 0 where there is none. Its error flag says that a router has failed. */
size_t switchpath_read(switchpath_part *part, const uint8_t *bytes, size_t length);

/* A datagram with a part in front of data: how many bytes of `into` it takes, or 0 where they are too few. */
size_t switchpath_before_data(const switchpath_part *part, const uint8_t *data, size_t length, uint8_t *into, size_t room);
/* What such a datagram holds: where in it the data begins, or 0 where it holds none. */
size_t switchpath_with_data(switchpath_part *part, const uint8_t *bytes, size_t length);

/* An IP packet with a part in front of what it carries: how many bytes of `into` it takes, or 0 where they are too few or it is no
 * whole IP packet. It may not be fragmented from then on. */
size_t switchpath_wrap(const switchpath_part *part, const uint8_t *packet, size_t length, uint8_t *into, size_t room);
/* The same among the options of an IPv4 header, which have room for every instruction but RCOLLECT: whoever knows nothing of it finds the packet as it was. */
size_t switchpath_wrap_option(const switchpath_part *part, const uint8_t *packet, size_t length, uint8_t *into, size_t room);
/* The IP packet as it was before, and its part: how many bytes of `into` it takes, or 0 where they are too few or it carries none. */
size_t switchpath_strip(switchpath_part *part, const uint8_t *packet, size_t length, uint8_t *into, size_t room);

/* The operator's key, where routers execute only what is sealed with it. */
typedef struct switchpath_key switchpath_key;
/* Bytes of the longest part with its seal. */
#define SWITCHPATH_MOST_SEALED 54
/* The key in the text of its file: 32 hexadecimal digits, and maybe a second line with another that is read, too. NULL where it is none. */
switchpath_key *switchpath_key_new(const char *text, size_t length);
void switchpath_key_free(switchpath_key *key);
/* What the functions without `_sealed` do, with parts that are sealed with a key: what is made has its seal, and nothing is read that has none, or
 * that of another key. A sealed part takes 8 bytes more. */
size_t switchpath_write_sealed(const switchpath_part *part, const switchpath_key *key, uint8_t bytes[SWITCHPATH_MOST_SEALED]);
size_t switchpath_read_sealed(switchpath_part *part, const switchpath_key *key, const uint8_t *bytes, size_t length);
size_t switchpath_before_data_sealed(const switchpath_part *part, const switchpath_key *key, const uint8_t *data, size_t length, uint8_t *into,
                                     size_t room);
size_t switchpath_with_data_sealed(switchpath_part *part, const switchpath_key *key, const uint8_t *bytes, size_t length);
size_t switchpath_wrap_sealed(const switchpath_part *part, const switchpath_key *key, const uint8_t *packet, size_t length, uint8_t *into,
                              size_t room);
size_t switchpath_wrap_option_sealed(const switchpath_part *part, const switchpath_key *key, const uint8_t *packet, size_t length, uint8_t *into,
                                     size_t room);
size_t switchpath_strip_sealed(switchpath_part *part, const switchpath_key *key, const uint8_t *packet, size_t length, uint8_t *into,
                               size_t room);

/* A computation: its number, and tags that nobody has used. */
typedef struct switchpath_computation switchpath_computation;
/* A new one. Its numbers are drawn by the operating system where `randomness` is NULL; else they follow from those 128 bits, the same
 * again from the same. NULL where the system gives no randomness. */
switchpath_computation *switchpath_computation_new(const uint64_t randomness[2]);
/* Somebody else's, known by its number, with tags of one's own. */
switchpath_computation *switchpath_computation_joined_new(uint64_t number, const uint64_t randomness[2]);
uint64_t switchpath_computation_number(const switchpath_computation *computation);
uint64_t switchpath_computation_tag(switchpath_computation *computation);
void switchpath_computation_free(switchpath_computation *computation);

/* When what happens in a round: members make themselves known from `start` on, report from `collect` on, and it is over at `end`; what
 * is sent is sent again after `retry`. */
typedef struct switchpath_schedule {
    uint64_t start, collect, end, retry;
} switchpath_schedule;
/* Plans one for routers where entries live for `lifetime`. A packet takes `delay` from the farthest member to the root, clocks are
 * `skew` apart, in each phase everything is sent `tries` times. Answers 0, or how long a lifetime it would take. */
uint64_t switchpath_plan(switchpath_schedule *schedule, uint64_t start, uint64_t lifetime, uint64_t delay, uint64_t skew, uint32_t tries);

/* What to do next: send the part; nothing before `until`, unless something comes; it is over. */
enum switchpath_action { SWITCHPATH_SEND = 0, SWITCHPATH_WAIT = 1, SWITCHPATH_OVER = 2 };

/* A member of a group in one round. */
typedef struct switchpath_reporter switchpath_reporter;
/* The `attempt`th round of a computation; its router knows it as `child`, drawn at random. NULL where the operator does not combine. */
switchpath_reporter *switchpath_reporter_new(uint64_t computation, uint32_t attempt, unsigned combine, const switchpath_schedule *schedule,
                                             uint64_t child, uint64_t value);
/* Before it is asked first: it plays so many rounds, the next `every` nanoseconds after the one before or when that is over, the next attempt each
 * time. The root has to be told the same; nobody tells members that a round was complete. */
void switchpath_reporter_repeat(switchpath_reporter *reporter, uint16_t most, uint64_t every);
enum switchpath_action switchpath_reporter_poll(switchpath_reporter *reporter, uint64_t now, switchpath_part *part, uint64_t *until);
void switchpath_reporter_free(switchpath_reporter *reporter);

/* How a round ended: all have reported; some have not; a router could not execute what it was sent; nobody has made itself known. */
enum switchpath_ending { SWITCHPATH_COMPLETE = 0, SWITCHPATH_INCOMPLETE = 1, SWITCHPATH_FAILED = 2, SWITCHPATH_NOBODY = 3 };
typedef struct switchpath_outcome {
    /* Where `has_result` is 1: of those who have reported. */
    uint64_t result;
    uint64_t missing;
    /* Packets of the round that have come. */
    uint64_t packets;
    uint32_t ending;
    uint32_t has_result;
} switchpath_outcome;

/* The root in one round. */
typedef struct switchpath_controller switchpath_controller;
switchpath_controller *switchpath_controller_new(uint64_t computation, uint32_t attempt, unsigned combine,
                                                 const switchpath_schedule *schedule);
/* A part has come; those of other rounds are nothing to it. */
void switchpath_controller_received(switchpath_controller *controller, const switchpath_part *part);
/* The same for the root, which plays the next round where one is not complete. */
void switchpath_controller_repeat(switchpath_controller *controller, uint16_t most, uint64_t every);
/* Never SWITCHPATH_SEND. */
enum switchpath_action switchpath_controller_poll(switchpath_controller *controller, uint64_t now, switchpath_outcome *outcome,
                                                  uint64_t *until);
void switchpath_controller_free(switchpath_controller *controller);

#ifdef __cplusplus
}
#endif
#endif
