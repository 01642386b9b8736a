/* Code options of slices for Switchpath in C: the complete kit for guests in slices, in one header without a library.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Write three functions and a description, and include this file once:
 *
 *     #define SP_BYTES 64                    // bytes of each packet that it sees, without its outer headers; default 0, at most 2048
 *     #define SP_NEEDS SP_EDITS              // default 0
 *     #define SP_ROOM 16                     // bytes that format may add in front of a packet; default 0, at most 128, in steps of 8
 *     #include "switchpath_slice.h"
 *
 *     SP_DESCRIPTION("summary The code option in one sentence.\n"
 *                    "memory 64\n"
 *                    "option ttl count 2 2 255 The smallest time to live.\n")
 *
 *     const char *slice_start(void)                              reads its options; returns NULL, or an error message
 *     uint16_t slice_parse(struct sp_packet *p, uint8_t *bytes)  writes p->key and returns SP_NEXT, or another verdict
 *     uint16_t slice_format(struct sp_packet *p, uint8_t *bytes) rewrites the packet and returns SP_NEXT, or another verdict
 *
 * State that must survive a new build lies in the memory of the slice: sp_load, sp_store, sp_add. A call has up to 64 packets and may take about
 * 100 us. There is one thread, 1 MiB of memory, and no C library. docs/operate/guest-slices.md has more. `switchpath guest check` tests it.
 */
#ifndef SWITCHPATH_SLICE_H
#define SWITCHPATH_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef SP_BYTES
#define SP_BYTES 0
#endif
#ifndef SP_NEEDS
#define SP_NEEDS 0
#endif
#ifndef SP_ROOM
#define SP_ROOM 0
#endif
_Static_assert(SP_BYTES >= 0 && SP_BYTES <= 2048, "a code option sees 0 to 2048 bytes of a packet");
_Static_assert(SP_ROOM >= 0 && SP_ROOM <= 128 && SP_ROOM % 8 == 0, "there are 0 to 128 bytes in front of a packet, in steps of 8");

/* For SP_NEEDS. */
enum {
    SP_EDITS = 1,  /* slice_format changes packets */
    SP_PASSES = 2, /* slice_format is never called: packets are sent as they are */
};

/* Verdicts. SP_AGAIN is for slice_format: the filters are searched once more, by p->key. */
enum { SP_NEXT = 0, SP_MALFORMED = 1, SP_POLICY = 2, SP_AGAIN = 64 };
/* The verdict that the packet goes to the slow path, with one of these codes. It goes there as it was. */
#define SP_EXCEPTION(code) ((uint16_t)(3 + (code)))
enum { SP_TTL = 1, SP_OPTIONS = 2, SP_LOCAL = 3, SP_MULTI_MATCH = 4, SP_SOFT_HEADER = 5, SP_MTU = 6 };
/* A code of the slice's own, 0 to 15. */
#define SP_OWN(n) (8 + (n))

/* The router's record of a packet. */
struct sp_packet {
    uint32_t length;       /* in bytes; slice_format may shorten it */
    uint16_t shown;        /* bytes that the code option sees */
    uint16_t interface;    /* the meta-interface by which it arrived */
    uint16_t queue;        /* slice_format: the number of the slice's queue */
    uint16_t out_interface; /* slice_format: the meta-interface by which it leaves */
    uint16_t verdict;
    int16_t front;         /* slice_format: bytes removed from its front; negative: added. See sp_move_front */
    uint8_t key[14];       /* slice_parse writes it; zero before */
    uint8_t reserved[2];
    uint8_t data[32];      /* slice_format: the data of the filter */
};

/* The description: lines that begin with `summary`, `version`, `memory`, or `option` and then name, unit (count, rate, time, size, part, switch),
 * default, minimum, maximum ('-': no bound) and a sentence. */
#define SP_DESCRIPTION(text) const char sp_description[] = text;
extern const char sp_description[];

/* Your functions. */
const char *slice_start(void);
uint16_t slice_parse(struct sp_packet *packet, uint8_t *bytes);
uint16_t slice_format(struct sp_packet *packet, uint8_t *bytes);

#define SP_IMPORT(name) __attribute__((import_module("switchpath"), import_name(name)))
#define SP_EXPORT(name) __attribute__((export_name(name)))

SP_IMPORT("log") void sp_log_bytes(const char *text, uint32_t length);
/* A random number. The sequence is the same after each start. */
SP_IMPORT("random") uint64_t sp_random(void);
SP_IMPORT("load") uint64_t sp_load_of(uint32_t packet, uint32_t offset);
SP_IMPORT("store") void sp_store_of(uint32_t packet, uint32_t offset, uint64_t value);
SP_IMPORT("add") uint64_t sp_add_of(uint32_t packet, uint32_t offset, uint64_t value);

enum { SP_MOST = 64, SP_STRIDE = (SP_ROOM + SP_BYTES + 7) / 8 * 8 };

/* The memory block shared by guest and router. */
struct sp_block {
    uint64_t memory;
    uint32_t count, reserved, bytes, area, packets, flags, room, unused[7];
    uint64_t option[16];
    struct sp_packet packet[SP_MOST];
};
_Static_assert(sizeof(struct sp_packet) == 64 && sizeof(struct sp_block) == 4288, "the layout is the router's");

static struct sp_block sp_block;
static uint8_t sp_area[SP_MOST * SP_STRIDE + 8] __attribute__((aligned(8)));

/* The value of an option, in the order of the description: a number, bits per second, nanoseconds, bytes or millionths. */
static inline uint64_t sp_option(uint32_t place) { return place < 16 ? sp_block.option[place] : 0; }
/* The bytes of the slice's memory. */
static inline uint64_t sp_memory(void) { return sp_block.memory; }

static inline uint32_t sp_number(const struct sp_packet *packet) { return (uint32_t)(packet - sp_block.packet); }
/* The word of the slice's memory at an offset, a multiple of 8. Beyond the memory it is zero, and the packet is lost. */
static inline uint64_t sp_load(const struct sp_packet *packet, uint32_t offset) { return sp_load_of(sp_number(packet), offset); }
/* Writes the word at an offset. */
static inline void sp_store(const struct sp_packet *packet, uint32_t offset, uint64_t value) { sp_store_of(sp_number(packet), offset, value); }
/* Adds to the word at an offset, and returns the value before. No addition of another worker is lost. */
static inline uint64_t sp_add(const struct sp_packet *packet, uint32_t offset, uint64_t value) { return sp_add_of(sp_number(packet), offset, value); }

/* Removes bytes from the front of a packet, or adds -by bytes, which begin at bytes + packet->front then. False if there is no room. */
static inline bool sp_move_front(struct sp_packet *packet, int32_t by) {
    if (by > (int32_t)packet->length || packet->front + by < -SP_ROOM) return false;
    packet->front = (int16_t)(packet->front + by);
    packet->length -= (uint32_t)by;
    return true;
}

static inline uint16_t sp_get16(const uint8_t *at) { return (uint16_t)(at[0] << 8 | at[1]); }
static inline void sp_put16(uint8_t *at, uint16_t value) { at[0] = (uint8_t)(value >> 8); at[1] = (uint8_t)value; }

/* Logs one line, which is a part of the failure if the code option traps. */
static inline void sp_log(const char *text) {
    uint32_t length = 0;
    while (text[length]) length++;
    sp_log_bytes(text, length);
}

SP_EXPORT("switchpath_slice") int32_t switchpath_slice(void) { return 1; }
SP_EXPORT("switchpath_describe") const char *switchpath_describe(void) { return sp_description; }
SP_EXPORT("switchpath_block") struct sp_block *switchpath_block(void) { return &sp_block; }

SP_EXPORT("switchpath_start") int32_t switchpath_start(void) {
    sp_block.bytes = SP_BYTES;
    sp_block.area = (uint32_t)(uintptr_t)sp_area;
    sp_block.packets = SP_MOST;
    sp_block.flags = SP_NEEDS;
    sp_block.room = SP_ROOM;
    const char *error = slice_start();
    if (error) sp_log(error);
    return error != NULL;
}

SP_EXPORT("switchpath_parse") void switchpath_parse(void) {
    for (uint32_t i = 0; i < sp_block.count && i < SP_MOST; i++)
        sp_block.packet[i].verdict = slice_parse(&sp_block.packet[i], sp_area + i * SP_STRIDE + SP_ROOM);
}

SP_EXPORT("switchpath_format") void switchpath_format(void) {
    for (uint32_t i = 0; i < sp_block.count && i < SP_MOST; i++)
        sp_block.packet[i].verdict = slice_format(&sp_block.packet[i], sp_area + i * SP_STRIDE + SP_ROOM);
}

#endif
