/* @NAME@: forwards packets by labels, in the format of MPLS (RFC 3032).
 *
 * The key is the number of the meta-interface in byte 0, and the label in the first 20 bits behind it. The first byte of a filter's data is 0 for a
 * new label, which the next 20 bits have, and 1 to remove the label. The first word of the slice's memory counts packets that are sent.
 *
 *     switchpath guest build          builds @NAME@.wasm and checks it
 *
 * To change it, see the functions in switchpath_slice.h.
 */
#define SP_BYTES 4
#define SP_NEEDS SP_EDITS
#include "switchpath_slice.h"

SP_DESCRIPTION("summary Forwards packets by labels.\n"
               "memory 8\n"
               "option ttl count 2 2 255 The smallest time to live of a packet that is forwarded.\n")

enum { TTL };       /* the options, in the order of the description */
enum { LABEL = 4 }; /* the bytes of a label, with its time to live */
enum { SENT = 0 };  /* the words of the slice's memory */

static uint64_t least;

const char *slice_start(void) {
    least = sp_option(TTL);
    return NULL;
}

uint16_t slice_parse(struct sp_packet *packet, uint8_t *bytes) {
    if (packet->shown < LABEL) return SP_MALFORMED;
    if (bytes[3] < least) return SP_EXCEPTION(SP_TTL);
    packet->key[0] = (uint8_t)packet->interface;
    packet->key[1] = bytes[0];
    packet->key[2] = bytes[1];
    packet->key[3] = bytes[2] & 0xf0;
    return SP_NEXT;
}

uint16_t slice_format(struct sp_packet *packet, uint8_t *bytes) {
    sp_add(packet, SENT, 1);
    if (packet->data[0] == 1) {
        sp_move_front(packet, LABEL);
    } else if (packet->shown >= LABEL) {
        bytes[0] = packet->data[1];
        bytes[1] = packet->data[2];
        bytes[2] = (packet->data[3] & 0xf0) | (bytes[2] & 0x0f); /* the traffic class and the mark of the last label stay */
        bytes[3]--;
    }
    return SP_NEXT;
}
