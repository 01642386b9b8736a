/* @NAME@: thins layered video on a path with less capacity: drops the RTP packets of enhancement layers, and keeps the base layer.
 *
 * A decoder does not need the dropped layers for those that it gets. H.264 SVC (RFC 6190 1.1.3) marks each packet with its temporal, spatial and
 * quality layer, VP8 (RFC 7741 4.2) with its temporal layer. Sequence numbers are not closed up: a receiver sees gaps, as after losses.
 */
#define SP_BYTES 128
#define SP_NEEDS SP_FIELDS
#include "switchpath_function.h"

SP_DESCRIPTION("summary Drops the enhancement layers of RTP video above a limit.\n"
               "option payload_type count 96 0 127 The RTP payload type of the video.\n"
               "option vp8 switch off - - The video is VP8, not H.264 SVC.\n"
               "option temporal count 0 0 7 The highest temporal layer that is kept.\n"
               "option quality count 0 0 127 The highest of spatial and quality layers that is kept: spatial * 16 + quality.\n"
               "counter packets of the base layer\n"
               "counter packets of enhancement layers kept\n"
               "counter packets of enhancement layers dropped\n")

enum { PAYLOAD_TYPE, VP8, TEMPORAL, QUALITY }; /* the options */
enum { BASE, KEPT, DROPPED };                  /* the counters */
enum { UDP = 17, RTP_HEADER = 12 };

/* Streams whose fragmented unit is being dropped, by the low bits of the source; the survivor of a new build. */
enum { STREAMS = 256 };
static struct { uint32_t source; uint32_t drops; } streams[STREAMS];
SP_STATE(streams, 1)

static uint32_t payload_type, temporal, quality;
static bool vp8;

const char *function_start(void) {
    payload_type = (uint32_t)sp_option(PAYLOAD_TYPE);
    vp8 = sp_option(VP8) != 0;
    temporal = (uint32_t)sp_option(TEMPORAL);
    quality = (uint32_t)sp_option(QUALITY);
    return NULL;
}

/* Counts a packet of the layer, and decides on it. */
static uint16_t layer(bool is_base, bool is_above) {
    sp_count(is_base ? BASE : is_above ? DROPPED : KEPT, 1);
    return is_above ? SP_DROP : SP_PASS;
}

/* The temporal layer of a VP8 payload: its descriptor has one to six bytes. */
static uint16_t thin_vp8(const uint8_t *at, uint32_t length) {
    uint32_t place = 2, id = 0;
    if (length >= 2 && at[0] & 0x80) {
        uint8_t parts = at[1];
        if (parts & 0x80) place += place < length && at[place] & 0x80 ? 2 : 1; /* picture number */
        if (parts & 0x40) place++;                                             /* TL0PICIDX */
        if (parts & 0x20 && place < length) id = at[place] >> 6;               /* TID */
    }
    return layer(id == 0, id > temporal);
}

/* The three bytes behind the header of an SVC unit: whether its layer is above the limits. */
static uint16_t thin_extension(const uint8_t *at, uint32_t length) {
    if (length < 3) return SP_PASS;
    uint32_t id = at[2] >> 5, spatial_quality = at[1] & 0x7f;
    return layer(id == 0 && spatial_quality == 0, id > temporal || spatial_quality > quality);
}

static uint16_t thin_svc(const uint8_t *at, uint32_t length, uint32_t source) {
    uint32_t type = length > 0 ? at[0] & 31 : 0;
    if (type == 14 || type == 20) return thin_extension(at + 1, length - 1);
    if (type != 28 || length < 2 || (at[1] & 31) != 20) return layer(true, false);
    /* A fragment: only the first one has the layer, the others follow it up to the last one. */
    uint32_t which = source % STREAMS;
    bool starts = at[1] & 0x80, ends = at[1] & 0x40, drops;
    if (starts) {
        drops = thin_extension(at + 2, length - 2) == SP_DROP;
        streams[which].source = source;
        streams[which].drops = drops;
    } else {
        drops = streams[which].source == source && streams[which].drops;
        sp_count(drops ? DROPPED : KEPT, 1);
    }
    if (ends && streams[which].source == source) streams[which].drops = false;
    return drops ? SP_DROP : SP_PASS;
}

uint16_t function_packet(struct sp_record *record, uint8_t *bytes) {
    if (record->protocol != UDP || record->payload == 0 || record->payload + RTP_HEADER > record->shown) return SP_PASS;
    const uint8_t *rtp = bytes + record->payload;
    uint32_t shown = record->shown - record->payload;
    /* Version 2 (RFC 3550 5.1), its contributing sources, and its header extension. */
    if (rtp[0] >> 6 != 2 || (rtp[1] & 0x7f) != payload_type) return SP_PASS;
    uint32_t header = RTP_HEADER + 4 * (rtp[0] & 15);
    if (rtp[0] & 0x10) {
        if (header + 4 > shown) return SP_PASS;
        header += 4 + 4 * (uint32_t)sp_get16(rtp + header + 2);
    }
    if (header >= shown) return SP_PASS;
    uint32_t source = (uint32_t)sp_get16(rtp + 8) << 16 | sp_get16(rtp + 10);
    const uint8_t *payload = rtp + header;
    return vp8 ? thin_vp8(payload, shown - header) : thin_svc(payload, shown - header, source);
}
