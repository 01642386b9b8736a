/* @NAME@: first in, first out, but packets that have waited too long are dropped instead of sent.
 *
 * Good for voice and games: a late packet is useless, and only delays the packets behind it.
 *
 *     switchpath guest build          builds @NAME@.wasm and checks it
 *     switchpath guest bench @NAME@.wasm
 *
 * To change it, see the functions in switchpath.h.
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
    /* Packets at an idle link may bypass this scheme, because it would send them at once. */
    sp_want(SP_PASSES);
    return NULL;
}

/* A packet arrives. If it is not enqueued, it is dropped. */
void scheme_arrival(const struct sp_packet *packet) {
    (void)packet;
    if (sp_packets(QUEUE) < limit) sp_enqueue(QUEUE);
}

/* The link is ready: send or drop one packet. This is called again as long as it did something. */
void scheme_ready(void) {
    struct sp_packet first;
    if (!sp_head(QUEUE, &first)) return;
    if (sp_now() - first.timestamp > patience) {
        if (sp_drop_front(QUEUE)) sp_count(STALE, 1);
    } else {
        sp_send(QUEUE);
    }
}

/* The kit recounts its own queues, and this scheme has no other counts. */
void scheme_recount(void) {}
