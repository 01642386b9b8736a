/* @NAME@: drops packets longer than a limit, and counts the length of the longest one.
 *
 *     switchpath guest build          builds @NAME@.wasm and checks it
 *
 * To change it, see the functions in switchpath_function.h.
 */
#define SP_NEEDS 0
#include "switchpath_function.h"

SP_DESCRIPTION("summary Drops packets longer than a limit.\n"
               "option limit size 1400b 20 65535 The longest packet, from its IP header on.\n"
               "counter longest packet dropped\n")

enum { LIMIT };   /* the options, in the order of the description */
enum { LONGEST }; /* the counters, in the order of the description */

static uint64_t limit;

/* The longest packet so far. It survives a new build of this function. */
static struct { uint64_t bytes; } longest;
SP_STATE(longest, 1)

const char *function_start(void) {
    limit = sp_option(LIMIT);
    return NULL;
}

/* Decides on a packet. `bytes` is empty here: define SP_BYTES to see some. */
uint16_t function_packet(struct sp_record *record, uint8_t *bytes) {
    (void)bytes;
    if (record->length <= limit) return SP_PASS;
    if (record->length > longest.bytes) {
        sp_count(LONGEST, record->length - longest.bytes);
        longest.bytes = record->length;
    }
    return SP_DROP;
}
