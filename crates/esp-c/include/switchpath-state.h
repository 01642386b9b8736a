/* Ephemeral state for end systems: instructions that packets carry and routers execute, and rounds in which a group of hosts
 * computes a value together. docs/operate/ephemeral-state.md of Switchpath describes the instructions.
 *
 * The library does no input or output and reads no clock. The caller polls it, sends the parts that it returns, and passes in the
 * parts received. Times are nanoseconds of any monotonic clock. Functions may be called from any thread, but each object by one
 * thread at a time. Functions that end in _new create objects, and those that end in _free delete them. All functions accept NULL,
 * and do nothing then unless the comment says otherwise.
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

/* The default UDP port and IP protocol of instructions. */
#define SWITCHPATH_PORT 5937
#define SWITCHPATH_PROTOCOL 253
/* The length of the longest part. */
#define SWITCHPATH_MOST 46
/* Bytes between a part and the data behind it. */
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

/* The first eight combine values, the others compare them. */
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

/* The locations at which routers execute a part: any combination. */
enum switchpath_place { SWITCHPATH_INPUT = 1, SWITCHPATH_CENTRAL = 2, SWITCHPATH_OUTPUT = 4 };

/* A router could not execute it; data follows; the sender asks for a trace. */
enum switchpath_flag { SWITCHPATH_ERROR = 1, SWITCHPATH_PIGGYBACKED = 2, SWITCHPATH_TRACE = 4 };

/* The part of a packet that routers execute. */
typedef struct switchpath_part {
    /* A random number, chosen by the host that starts the computation. */
    uint64_t computation;
    /* In wire order; unused ones are 0. */
    uint64_t operands[4];
    uint8_t instruction;
    /* 0 if the instruction has no operator. */
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

/* NOP: forwards. */
static inline switchpath_part switchpath_nop(uint64_t computation, unsigned places) {
    return switchpath_part_of(computation, places, SWITCHPATH_NOP, 0, 0, 0, 0, 0);
}
/* COUNT: increments the count at a tag; forwards while it is below a threshold. */
static inline switchpath_part switchpath_count(uint64_t computation, unsigned places, uint64_t tag, uint32_t below) {
    return switchpath_part_of(computation, places, SWITCHPATH_COUNT, SWITCHPATH_LT, tag, below, 0, 0);
}
/* COMPARE: writes the value and forwards, if the tag is absent or `value relation stored` holds. */
static inline switchpath_part switchpath_compare(uint64_t computation, unsigned places, uint64_t tag, unsigned relation, uint64_t value) {
    return switchpath_part_of(computation, places, SWITCHPATH_COMPARE, relation, tag, value, 0, 0);
}
/* COLLECT: combines the value into a result and decrements a counter; at zero it forwards with the result. */
static inline switchpath_part switchpath_collect(uint64_t computation, unsigned places, uint64_t counter, uint64_t result, unsigned combine,
                                                 uint64_t value) {
    return switchpath_part_of(computation, places, SWITCHPATH_COLLECT, combine, counter, result, value, 0);
}
/* RCOLLECT: the same, once for each registered child. */
static inline switchpath_part switchpath_rcollect(uint64_t computation, unsigned places, uint64_t counter, uint64_t result, uint64_t child,
                                                  unsigned combine, uint64_t value) {
    return switchpath_part_of(computation, places, SWITCHPATH_RCOLLECT, combine, counter, result, child, value);
}
/* RCHLD: registers a child. */
static inline switchpath_part switchpath_rchld(uint64_t computation, unsigned places, uint64_t counter, uint64_t child) {
    return switchpath_part_of(computation, places, SWITCHPATH_RCHLD, 0, counter, child, 0, 0);
}
/* MARK: creates a value if the tag is absent; forwards. */
static inline switchpath_part switchpath_mark(uint64_t computation, unsigned places, uint64_t tag, uint64_t value) {
    return switchpath_part_of(computation, places, SWITCHPATH_MARK, 0, tag, value, 0, 0);
}
/* TEST: forwards if the tag exists. */
static inline switchpath_part switchpath_test(uint64_t computation, unsigned places, uint64_t tag) {
    return switchpath_part_of(computation, places, SWITCHPATH_TEST, 0, tag, 0, 0, 0);
}
/* GET: returns the value in its second operand. */
static inline switchpath_part switchpath_get(uint64_t computation, unsigned places, uint64_t tag) {
    return switchpath_part_of(computation, places, SWITCHPATH_GET, 0, tag, 0, 0, 0);
}
/* PUT: writes a value; forwards. */
static inline switchpath_part switchpath_put(uint64_t computation, unsigned places, uint64_t tag, uint64_t value) {
    return switchpath_part_of(computation, places, SWITCHPATH_PUT, 0, tag, value, 0, 0);
}
/* SETFWD: forwards if the tag exists and `stored relation value` holds. */
static inline switchpath_part switchpath_setfwd(uint64_t computation, unsigned places, uint64_t tag, unsigned relation, uint64_t value) {
    return switchpath_part_of(computation, places, SWITCHPATH_SETFWD, relation, tag, value, 0, 0);
}

/* Encodes a part. Returns its length, or 0 for an unknown instruction or an operator that it does not have. */
size_t switchpath_write(const switchpath_part *part, uint8_t bytes[SWITCHPATH_MOST]);
/* Decodes the part at the start of the bytes. Returns its length, or 0 if there is none. The error flag says that a router failed. */
size_t switchpath_read(switchpath_part *part, const uint8_t *bytes, size_t length);

/* Writes a datagram payload with a part in front of data. Returns its length, or 0 if there is no room. */
size_t switchpath_before_data(const switchpath_part *part, const uint8_t *data, size_t length, uint8_t *into, size_t room);
/* Decodes such a payload. Returns the offset of the data, or 0 if there is none. */
size_t switchpath_with_data(switchpath_part *part, const uint8_t *bytes, size_t length);

/* Inserts a part in front of an IP packet's payload, and sets don't-fragment. Returns the new length, or 0 if there is no room or
 * the IP packet is not complete. */
size_t switchpath_wrap(const switchpath_part *part, const uint8_t *packet, size_t length, uint8_t *into, size_t room);
/* The same with an option of the IPv4 header, which has room for every instruction except RCOLLECT. The payload stays in place. */
size_t switchpath_wrap_option(const switchpath_part *part, const uint8_t *packet, size_t length, uint8_t *into, size_t room);
/* Removes the part from an IP packet. Returns the length of the original packet, or 0 if there is no room or no part. */
size_t switchpath_strip(switchpath_part *part, const uint8_t *packet, size_t length, uint8_t *into, size_t room);

/* The operator's key, for routers that execute only sealed parts. */
typedef struct switchpath_key switchpath_key;
/* The length of the longest sealed part. */
#define SWITCHPATH_MOST_SEALED 54
/* Parses a key file: 32 hexadecimal digits, optionally a second line with another key to accept. NULL if it is no key. */
switchpath_key *switchpath_key_new(const char *text, size_t length);
void switchpath_key_free(switchpath_key *key);
/* Like the functions without `_sealed`, for sealed parts: parts are sealed when written, and rejected when read unless the key sealed
 * them. A sealed part is 8 bytes longer. */
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

/* A computation: its number, and new tags. */
typedef struct switchpath_computation switchpath_computation;
/* A new computation. Its numbers follow from the 128 bits of `randomness`, or are random if that is NULL. Returns NULL if the system
 * supplies no randomness. */
switchpath_computation *switchpath_computation_new(const uint64_t randomness[2]);
/* Joins the computation `number` of another host, with tags of its own. */
switchpath_computation *switchpath_computation_joined_new(uint64_t number, const uint64_t randomness[2]);
uint64_t switchpath_computation_number(const switchpath_computation *computation);
uint64_t switchpath_computation_tag(switchpath_computation *computation);
void switchpath_computation_free(switchpath_computation *computation);

/* The times of a round: members register from `start` on and report from `collect` on. The round is over at `end`. Everything is
 * retransmitted every `retry`. */
typedef struct switchpath_schedule {
    uint64_t start, collect, end, retry;
} switchpath_schedule;
/* Plans a round for routers whose entries live for `lifetime`. `delay` is the one-way delay from the farthest member to the root,
 * `skew` the largest difference between clocks, and each phase transmits `tries` times. Returns 0, or the lifetime that it needs. */
uint64_t switchpath_plan(switchpath_schedule *schedule, uint64_t start, uint64_t lifetime, uint64_t delay, uint64_t skew, uint32_t tries);

/* The next action: send the part; wait until `until` or a received part; the round is over. */
enum switchpath_action { SWITCHPATH_SEND = 0, SWITCHPATH_WAIT = 1, SWITCHPATH_OVER = 2 };

/* A member of a group in one round. */
typedef struct switchpath_reporter switchpath_reporter;
/* The `attempt`th round of a computation. `child` is a random number. Returns NULL if the operator does not combine. */
switchpath_reporter *switchpath_reporter_new(uint64_t computation, uint32_t attempt, unsigned combine, const switchpath_schedule *schedule,
                                             uint64_t child, uint64_t value);
/* Repeats the round at most `most` times; call it before the first poll. Rounds start `every` nanoseconds apart, or when the previous
 * one is over. Each has the next attempt number. The root needs the same values. Members do not learn whether a round was complete. */
void switchpath_reporter_repeat(switchpath_reporter *reporter, uint16_t most, uint64_t every);
enum switchpath_action switchpath_reporter_poll(switchpath_reporter *reporter, uint64_t now, switchpath_part *part, uint64_t *until);
void switchpath_reporter_free(switchpath_reporter *reporter);

/* The outcome: all members reported; some did not; a router could not execute a packet; no member registered. */
enum switchpath_ending { SWITCHPATH_COMPLETE = 0, SWITCHPATH_INCOMPLETE = 1, SWITCHPATH_FAILED = 2, SWITCHPATH_NOBODY = 3 };
typedef struct switchpath_outcome {
    /* The result of the members that reported, if `has_result` is 1. */
    uint64_t result;
    uint64_t missing;
    /* Packets received in the round. */
    uint64_t packets;
    uint32_t ending;
    uint32_t has_result;
} switchpath_outcome;

/* The root in one round. */
typedef struct switchpath_controller switchpath_controller;
switchpath_controller *switchpath_controller_new(uint64_t computation, uint32_t attempt, unsigned combine,
                                                 const switchpath_schedule *schedule);
/* Processes a received part. Ignores parts of other rounds. */
void switchpath_controller_received(switchpath_controller *controller, const switchpath_part *part);
/* Like switchpath_reporter_repeat. The root starts another round only if one was not complete. */
void switchpath_controller_repeat(switchpath_controller *controller, uint16_t most, uint64_t every);
/* Never returns SWITCHPATH_SEND. */
enum switchpath_action switchpath_controller_poll(switchpath_controller *controller, uint64_t now, switchpath_outcome *outcome,
                                                  uint64_t *until);
void switchpath_controller_free(switchpath_controller *controller);

#ifdef __cplusplus
}
#endif
#endif
