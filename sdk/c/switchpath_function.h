/* Packet functions for Switchpath in C: the complete kit for guests on a path, in one header without a library.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Write two functions and a description, and include this file once:
 *
 *     #define SP_BYTES 128                   // bytes of each packet that it sees, from the IP header on; default 0, at most 2048
 *     #define SP_NEEDS (SP_FIELDS | SP_FLOWS) // properties that it uses; default 0
 *     #include "switchpath_function.h"
 *
 *     SP_DESCRIPTION("summary The function in one sentence.\n"
 *                    "option rate rate 1mbit 1000 - The rate.\n"
 *                    "counter over the rate\n")
 *
 *     const char *function_start(void)                              reads its options; returns NULL, or an error message
 *     uint16_t function_packet(struct sp_record *r, uint8_t *bytes) decides on a packet: SP_PASS, SP_DROP, or SP_RULE(n)
 *
 * Optional state that survives the replacement of the function by a new build: SP_STATE(variable, version), plain data without pointers.
 * A call has up to 64 packets and may take about 100 us. There is one thread, 1 MiB of memory, and no C library.
 * docs/operate/guest-functions.md has more. `switchpath guest check` tests the function.
 */
#ifndef SWITCHPATH_FUNCTION_H
#define SWITCHPATH_FUNCTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef SP_BYTES
#define SP_BYTES 0
#endif
#ifndef SP_NEEDS
#define SP_NEEDS 0
#endif
_Static_assert(SP_BYTES >= 0 && SP_BYTES <= 2048, "a function sees 0 to 2048 bytes of a packet");

/* For SP_NEEDS. Each costs time for each packet. */
enum {
    SP_FLOWS = 1,  /* it reads flow */
    SP_FIELDS = 2, /* it reads transport, payload and protocol */
    SP_WRITES = 4, /* it changes bytes of packets */
    SP_WORDS = 8,  /* it changes word */
};

/* For sp_record.flags. */
enum {
    SP_IPV6 = 1,
    SP_PENDING = 2,   /* its checksum is not complete, or it is to be segmented: do not update the transport checksum */
    SP_GENERATED = 4, /* a function has made it */
};

/* The router's record of a packet. */
struct sp_record {
    uint64_t timestamp; /* the time of its arrival, in nanoseconds */
    uint32_t length;    /* from the IP header on, in bytes */
    uint32_t word;      /* set by an earlier function of the path; with SP_WORDS it may be changed for later ones */
    uint32_t flow;      /* the hash of its flow; with SP_FLOWS */
    uint16_t shown;     /* bytes that the function sees */
    uint16_t transport; /* the offset of its transport header, 0 for none; with SP_FIELDS */
    uint16_t payload;   /* the offset of its TCP or UDP payload, 0 for none; with SP_FIELDS */
    uint16_t in_port;   /* the number of its ingress port */
    uint8_t protocol;   /* its transport protocol; with SP_FIELDS */
    uint8_t flags;
    uint8_t class;      /* the class of its path */
    uint8_t reserved;
};

/* Verdicts. SP_RULE(n): rule n of the path's guest_rules applies. */
enum { SP_PASS = 0, SP_DROP = 1 };
#define SP_RULE(n) ((uint16_t)((n) + 2))

/* The description: lines that begin with `summary`, `counter` and a name, or `option` and then name, unit (count, rate, time, size, part, switch),
 * default, minimum, maximum ('-': no bound) and a sentence. */
#define SP_DESCRIPTION(text) const char sp_description[] = text;
extern const char sp_description[];

/* Your functions. */
const char *function_start(void);
uint16_t function_packet(struct sp_record *record, uint8_t *bytes);

#define SP_IMPORT(name) __attribute__((import_module("switchpath"), import_name(name)))
#define SP_EXPORT(name) __attribute__((export_name(name)))

SP_IMPORT("log") void sp_log_bytes(const char *text, uint32_t length);
/* Adds to one of eight counters, 0 to 7, in the order of the description. */
SP_IMPORT("counter") void sp_count(uint32_t which, uint64_t more);
/* A random number. The sequence is the same after each start. */
SP_IMPORT("random") uint64_t sp_random(void);
/* The time of the call, in nanoseconds. */
SP_IMPORT("clock") uint64_t sp_now(void);
/* Writes the text of a rule of the path, at most `room` bytes without an end mark. Returns its whole length, or -1 if there is no such rule. */
SP_IMPORT("rule") int32_t sp_rule(uint32_t number, char *at, uint32_t room);
/* The number of the port to the next hop of an address of 4 or 16 bytes; -1 if there is none, -2 for an address of the router. */
SP_IMPORT("lookup") int32_t sp_lookup(const uint8_t *address, uint32_t length);
/* Makes an IP packet of these bytes, which is classified like a received one. Returns 1, or 0 if it is refused. */
SP_IMPORT("emit") int32_t sp_emit(const uint8_t *packet, uint32_t length);

enum { SP_MOST = 64, SP_STRIDE = (SP_BYTES + 7) / 8 * 8 };

/* The memory block shared by guest and router. */
struct sp_block {
    uint64_t now;
    uint32_t count, rules, bytes, area, packets, flags;
    uint64_t reserved[4], option[16];
    uint16_t verdict[SP_MOST];
    struct sp_record record[SP_MOST];
};
_Static_assert(sizeof(struct sp_record) == 32 && sizeof(struct sp_block) == 2368, "the layout is the router's");

static struct sp_block sp_block;
static uint8_t sp_area[SP_MOST * SP_STRIDE + 8] __attribute__((aligned(8)));

/* The value of an option, in the order of the description: a number, bits per second, nanoseconds, bytes or millionths. */
static inline uint64_t sp_option(uint32_t place) { return place < 15 ? sp_block.option[place] : 0; }
/* The number of rules of the path. */
static inline uint32_t sp_rules(void) { return sp_block.rules; }

static inline uint16_t sp_get16(const uint8_t *at) { return (uint16_t)(at[0] << 8 | at[1]); }
static inline void sp_put16(uint8_t *at, uint16_t value) { at[0] = (uint8_t)(value >> 8); at[1] = (uint8_t)value; }

/* The checksum after one of its words has changed (RFC 1624 3). */
static inline uint16_t sp_updated_checksum(uint16_t checksum, uint16_t old, uint16_t new) {
    uint32_t sum = (uint32_t)(uint16_t)~checksum + (uint16_t)~old + new;
    sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)~((sum & 0xffff) + (sum >> 16));
}

/* Logs one line for the operator. */
static inline void sp_log(const char *text) {
    uint32_t length = 0;
    while (text[length]) length++;
    sp_log_bytes(text, length);
}

SP_EXPORT("switchpath_function") int32_t switchpath_function(void) { return 1; }
SP_EXPORT("switchpath_describe") const char *switchpath_describe(void) { return sp_description; }
SP_EXPORT("switchpath_block") struct sp_block *switchpath_block(void) { return &sp_block; }

SP_EXPORT("switchpath_start") int32_t switchpath_start(void) {
    sp_block.bytes = SP_BYTES;
    sp_block.area = (uint32_t)(uintptr_t)sp_area;
    sp_block.packets = SP_MOST;
    sp_block.flags = SP_NEEDS;
    const char *error = function_start();
    if (error) sp_log(error);
    return error != NULL;
}

SP_EXPORT("switchpath_process") void switchpath_process(void) {
    for (uint32_t i = 0; i < sp_block.count && i < SP_MOST; i++)
        sp_block.verdict[i] = function_packet(&sp_block.record[i], sp_area + i * SP_STRIDE);
}

/* Keeps a variable when a new build of the function replaces this one. Count the version up if its meaning changes. */
#define SP_STATE(variable, version)                                                                             \
    SP_EXPORT("switchpath_state") const uint32_t *switchpath_state(void) {                                      \
        static uint32_t region[3];                                                                              \
        region[0] = (version);                                                                                  \
        region[1] = (uint32_t)(uintptr_t)&(variable);                                                           \
        region[2] = sizeof(variable);                                                                           \
        return region;                                                                                          \
    }

#endif
