/* Queueing schemes for Switchpath in C: the complete kit for guests, in one header without a library.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Write four functions and a description, and include this file once:
 *
 *     #define SP_QUEUES 2        // number of queues; default 1
 *     #define SP_PACKETS 2000    // maximum number of packets in all queues; default 16384
 *     #include "switchpath.h"
 *
 *     SP_DESCRIPTION("summary The scheme in one sentence.\n"
 *                    "option limit count 1000 1 2000 Packets that wait at most.\n")
 *
 *     const char *scheme_start(void)                    reads its options; returns NULL, or an error message
 *     void scheme_arrival(const struct sp_packet *p)    a packet arrives: enqueue it, or it is dropped
 *     void scheme_ready(void)                           the link is ready: send or drop one packet
 *     void scheme_recount(void)                         the router has changed the queues: update your own counts
 *
 * They may call the functions below. These record commands, which the router validates and executes after your function has
 * returned. Packet bytes are not accessible. There is one thread, 1 MiB of memory, and no C library.
 * docs/operate/guests.md has more. `switchpath guest check` runs the conformance tests.
 */
#ifndef SWITCHPATH_H
#define SWITCHPATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef SP_QUEUES
#define SP_QUEUES 1
#endif
#ifndef SP_PACKETS
#define SP_PACKETS 16384
#endif
_Static_assert(SP_QUEUES >= 1 && SP_QUEUES <= 32766, "a guest has 1 to 32766 queues");
_Static_assert(SP_PACKETS >= 1 && SP_PACKETS <= 16384, "all queues of a guest hold 1 to 16384 packets");

/* A packet's record. */
struct sp_packet {
    uint64_t timestamp;   /* arrival time at this router, in nanoseconds */
    uint32_t length;      /* on the link, in bytes */
    uint32_t flow_hash;   /* of its flow; of arriving packets, after sp_want(SP_FLOWS) */
    uint32_t source;      /* hash of its source address; after sp_want(SP_HOSTS) */
    uint32_t destination; /* hash of its destination address; after sp_want(SP_HOSTS) */
    uint16_t queue;       /* the queue chosen by its path */
    uint8_t class;        /* the class of its path */
    uint8_t dscp;         /* its code point (RFC 2474); after sp_want(SP_HOSTS) */
    uint8_t ecn;          /* its ECN bits (RFC 3168): 0 not capable, 1 and 2 capable, 3 congestion experienced */
    uint8_t reserved[3];
};

/* For sp_want: fields that the scheme reads, and its properties. */
enum {
    SP_FLOWS = 1,  /* it reads flow_hash */
    SP_HOSTS = 2,  /* it reads source, destination and dscp */
    SP_PASSES = 4, /* packets at an idle link may bypass it, because it would send them at once and unchanged */
    SP_RANKS = 8,  /* a higher class leaves before a lower one */
};

/* The description: lines that begin with `summary`, or with `option` and then name, unit (count, rate, time, size, part, switch),
 * default, minimum, maximum ('-': no bound) and a sentence. */
#define SP_DESCRIPTION(text) const char sp_description[] = text;
extern const char sp_description[];

/* Your functions. */
const char *scheme_start(void);
void scheme_arrival(const struct sp_packet *packet);
void scheme_ready(void);
void scheme_recount(void);

#define SP_IMPORT(name) __attribute__((import_module("switchpath"), import_name(name)))
#define SP_EXPORT(name) __attribute__((export_name(name)))

SP_IMPORT("log") void sp_log_bytes(const char *text, uint32_t length);
/* Adds to one of eight counters, 0 to 7. */
SP_IMPORT("counter") void sp_count(uint32_t which, uint64_t more);
/* A random number. The sequence is the same after each start. */
SP_IMPORT("random") uint64_t sp_random(void);

enum { SP_PLACES = 256, SP_COMMANDS = 512, SP_EVALUATIONS = 32, SP_NONE = 0xffff, SP_MARK = 0x8000 };
enum { SP_SEND = 1, SP_SEND_MARKED = 2, SP_DROP_FRONT = 3, SP_DROP_TAIL = 4 };

/* The memory block shared by guest and router. */
struct sp_block {
    uint64_t now, rate;
    uint32_t count, room;
    uint64_t next;
    uint32_t commands, queues, holds, flags, reserved[4];
    uint64_t option[16];
    uint32_t command[SP_COMMANDS];
    uint16_t verdict[SP_PLACES];
    struct sp_packet record[SP_PLACES];
};
_Static_assert(sizeof(struct sp_packet) == 32 && sizeof(struct sp_block) == 10944, "the layout is the router's");

/* A queued packet, and its neighbours in the queue. */
struct sp_place {
    uint64_t timestamp;
    uint32_t length;
    uint16_t before, behind, queue;
    uint8_t class, ecn;
};

struct sp_line {
    uint64_t bytes;
    uint32_t packets;
    uint16_t first, last;
};

static struct sp_block sp_block;
static struct sp_place sp_places[SP_PACKETS];
static struct sp_line sp_lines[SP_QUEUES];
/* The first slot of the free list, and the number of slots ever used; packets in all queues. */
static uint32_t sp_free = SP_NONE, sp_used, sp_waiting;
/* Of this call: room of the link, maximum number of commands, and the number of the arriving packet. */
static uint32_t sp_room, sp_left, sp_seen;
static bool sp_arriving, sp_sent;
static uint64_t sp_until;

/* The time of this call, in nanoseconds. It is constant within a call. */
static inline uint64_t sp_now(void) { return sp_block.now; }
/* The rate of the link, in bits per second. */
static inline uint64_t sp_link_rate(void) { return sp_block.rate; }
/* The value of an option, counted from 0: packets, bits per second, nanoseconds, bytes or millionths; a switch is 0 or 1. */
static inline uint64_t sp_option(uint32_t which) { return which < 16 ? sp_block.option[which] : 0; }
/* Packets in a queue, and their bytes. */
static inline uint32_t sp_packets(uint32_t queue) { return queue < SP_QUEUES ? sp_lines[queue].packets : 0; }
static inline uint64_t sp_bytes(uint32_t queue) { return queue < SP_QUEUES ? sp_lines[queue].bytes : 0; }
/* Packets in all queues. */
static inline uint32_t sp_backlog(void) { return sp_waiting; }

/* In scheme_start: fields that the scheme reads, and its properties: SP_FLOWS and the others. */
static inline void sp_want(uint32_t flags) { sp_block.flags |= flags; }

/* Logs one line for the operator. */
static inline void sp_log(const char *text) {
    uint32_t length = 0;
    while (text[length]) length++;
    sp_log_bytes(text, length);
}

static inline void sp_told(const struct sp_place *place, struct sp_packet *packet) {
    *packet = (struct sp_packet){ .timestamp = place->timestamp, .length = place->length, .queue = place->queue,
                                  .class = place->class, .ecn = place->ecn };
}

/* The record of the first packet of a queue, without hashes and code point. False if the queue is empty. */
static inline bool sp_head(uint32_t queue, struct sp_packet *packet) {
    if (sp_packets(queue) == 0) return false;
    sp_told(&sp_places[sp_lines[queue].first], packet);
    return true;
}

static inline bool sp_push(uint32_t queue, const struct sp_packet *packet) {
    if (queue >= SP_QUEUES) return false;
    uint32_t number = sp_free;
    if (number != SP_NONE) sp_free = sp_places[number].behind;
    else if (sp_used < SP_PACKETS) number = sp_used++;
    else return false;
    struct sp_line *line = &sp_lines[queue];
    sp_places[number] = (struct sp_place){ packet->timestamp, packet->length, line->last, SP_NONE, packet->queue,
                                           packet->class, packet->ecn };
    if (line->packets == 0) line->first = (uint16_t)number;
    else sp_places[line->last].behind = (uint16_t)number;
    line->last = (uint16_t)number;
    line->packets++;
    line->bytes += packet->length;
    sp_waiting++;
    return true;
}

static inline void sp_take(uint32_t queue, bool front) {
    struct sp_line *line = &sp_lines[queue];
    uint32_t number = front ? line->first : line->last;
    struct sp_place *place = &sp_places[number];
    line->bytes -= place->length;
    line->packets--;
    sp_waiting--;
    if (front) line->first = place->behind;
    else line->last = place->before;
    place->behind = (uint16_t)sp_free;
    sp_free = number;
}

static inline bool sp_command(uint32_t act, uint32_t queue) {
    if (sp_left == 0 || sp_packets(queue) == 0) return false;
    /* The command is executed before the verdict of the arriving packet, or after it if the verdict was already given. */
    uint32_t place = sp_arriving ? sp_seen - 1 : sp_seen;
    sp_block.command[sp_block.commands++] = act << 24 | place << 16 | queue;
    sp_left--;
    sp_sent = false;
    return true;
}

/* Enqueues the arriving packet. False if there is no room or no such queue; the packet is then dropped. */
static inline bool sp_enqueue(uint32_t queue) {
    if (!sp_arriving) return false;
    sp_arriving = false;
    bool fits = sp_push(queue, &sp_block.record[sp_seen - 1]);
    uint16_t *verdict = &sp_block.verdict[sp_seen - 1];
    *verdict = fits ? (uint16_t)(*verdict | (queue + 1)) : 0;
    return fits;
}

/* Drops the first packet of a queue, or the last one. False if it is empty, or this call has no room for more commands. */
static inline bool sp_drop_front(uint32_t queue) {
    bool done = sp_command(SP_DROP_FRONT, queue);
    if (done) sp_take(queue, true);
    return done;
}
static inline bool sp_drop_tail(uint32_t queue) {
    bool done = sp_command(SP_DROP_TAIL, queue);
    if (done) sp_take(queue, false);
    return done;
}

/* Sends the first packet of a queue. False if it is empty, the link has no room, or this call has no room for more commands. */
static inline bool sp_send(uint32_t queue) {
    if (sp_room == 0) return false;
    bool done = sp_command(SP_SEND, queue);
    if (done) {
        /* It may be marked if its sender supports ECN. */
        sp_sent = sp_places[sp_lines[queue].first].ecn != 0;
        sp_take(queue, true);
        sp_room--;
    }
    return done;
}

/* Sets congestion experienced on the last packet sent in this call, or on the arriving one (before sp_enqueue).
 * False if its sender does not support ECN. */
static inline bool sp_mark(void) {
    if (sp_arriving && sp_block.record[sp_seen - 1].ecn != 0) {
        sp_block.verdict[sp_seen - 1] |= SP_MARK;
        sp_block.record[sp_seen - 1].ecn = 3;
        return true;
    }
    if (!sp_arriving && sp_sent) {
        uint32_t *command = &sp_block.command[sp_block.commands - 1];
        *command = (*command & 0x00ffffff) | (uint32_t)SP_SEND_MARKED << 24;
        return true;
    }
    return false;
}

/* In scheme_ready: packets are queued, but none may leave before that time. */
static inline void sp_wait_until(uint64_t time) { sp_until = time; }

static inline void sp_enter(uint32_t room, uint32_t left) {
    sp_room = room;
    sp_left = left;
    sp_seen = 0;
    sp_arriving = sp_sent = false;
    sp_until = 0;
    sp_block.commands = 0;
}

/* The time of the next call: never while the queues are empty; else the given time, or as soon as the link is ready. */
static inline void sp_leave(void) {
    sp_block.next = sp_waiting == 0 ? UINT64_MAX : sp_until == UINT64_MAX ? UINT64_MAX - 1 : sp_until;
}

SP_EXPORT("switchpath_version") int32_t switchpath_version(void) { return 1; }
SP_EXPORT("switchpath_describe") const char *switchpath_describe(void) { return sp_description; }
SP_EXPORT("switchpath_block") struct sp_block *switchpath_block(void) { return &sp_block; }

SP_EXPORT("switchpath_start") int32_t switchpath_start(void) {
    sp_block.queues = SP_QUEUES;
    sp_block.holds = SP_PACKETS;
    sp_block.flags = 0;
    for (uint32_t queue = 0; queue < SP_QUEUES; queue++) sp_lines[queue].first = sp_lines[queue].last = SP_NONE;
    const char *wrong = scheme_start();
    if (wrong) sp_log(wrong);
    return wrong != NULL;
}

SP_EXPORT("switchpath_arrive") void switchpath_arrive(void) {
    sp_enter(0, SP_COMMANDS);
    for (uint32_t count = sp_block.count; sp_seen < count;) {
        sp_block.verdict[sp_seen] = 0;
        sp_arriving = true;
        sp_seen++;
        scheme_arrival(&sp_block.record[sp_seen - 1]);
        sp_arriving = false;
    }
    /* Zero: as soon as the link is ready. Only scheme_ready decides whether a packet may leave. */
    sp_until = 0;
    sp_leave();
}

SP_EXPORT("switchpath_ready") void switchpath_ready(void) {
    sp_enter(sp_block.room, sp_block.count < SP_EVALUATIONS ? sp_block.count : SP_EVALUATIONS);
    while (sp_room > 0 && sp_left > 0) {
        uint32_t before = sp_block.commands;
        sp_until = 0;
        sp_sent = false;
        scheme_ready();
        if (sp_block.commands == before) break;
    }
    sp_leave();
}

SP_EXPORT("switchpath_recount") void switchpath_recount(void) {
    sp_enter(0, 0);
    if (sp_block.room & 1) {
        sp_free = SP_NONE;
        sp_used = sp_waiting = 0;
        for (uint32_t queue = 0; queue < SP_QUEUES; queue++) {
            sp_lines[queue] = (struct sp_line){ .first = SP_NONE, .last = SP_NONE };
        }
    }
    for (uint32_t which = 0; which < sp_block.count; which++) {
        sp_push(sp_block.record[which].queue, &sp_block.record[which]);
    }
    if (sp_block.room & 2) scheme_recount();
    sp_leave();
}

#endif
