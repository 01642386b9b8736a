/* @NAME@: first in, first out, but what has waited too long is dropped instead of sent.
 *
 * Good for voice and for games: what comes too late is of no use, and only delays what is behind it.
 *
 *     switchpath guest build          builds @NAME@.wasm and checks it
 *     switchpath guest bench @NAME@.wasm
 *
 * Make it yours: every function that you can call is in switchpath.h.
 */
#define SP_PACKETS 10000
#include "switchpath.h"

SP_DESCRIPTION("summary First in, first out; what has waited too long is dropped.\n"
               "option limit count 1000 1 10000 Packets that wait at most.\n"
               "option patience time 20ms 1000 - How long one may wait.\n")

enum { LIMIT, PATIENCE };   /* the options, in the order of the description */
enum { QUEUE };             /* the only queue */
enum { STALE };             /* a counter: packets that waited too long */

static uint64_t limit, patience;

const char *scheme_start(void) {
    limit = sp_option(LIMIT);
    patience = sp_option(PATIENCE);
    /* One that comes while nothing waits would leave at once: the router need not ask. */
    sp_want(SP_PASSES);
    return NULL;
}

/* A packet comes. One that is put on no queue is dropped. */
void scheme_arrival(const struct sp_packet *packet) {
    (void)packet;
    if (sp_packets(QUEUE) < limit) sp_enqueue(QUEUE);
}

/* The link is ready: one packet leaves, or one is dropped. This is called again as long as it did something. */
void scheme_ready(void) {
    struct sp_packet first;
    if (!sp_head(QUEUE, &first)) return;
    if (sp_now() - first.timestamp > patience) {
        if (sp_drop_front(QUEUE)) sp_count(STALE, 1);
    } else {
        sp_send(QUEUE);
    }
}

/* Nothing is counted here but what the kit counts. */
void scheme_recount(void) {}
