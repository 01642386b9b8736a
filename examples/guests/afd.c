/* @NAME@: Approximate Fair Dropping. Flows get about the same share of one queue, whatever they send.
 *
 * Source: Pan, Breslau, Prabhakar and Shenker, "Approximate Fairness through Differential Dropping", ACM SIGCOMM Computer
 * Communication Review 33(2), 2003.
 *
 * One packet of `SAMPLING` is noted in a shadow buffer, in place of the one noted longest ago: so it has in it what each flow has sent
 * lately. m_i are the bytes of flow i there, and m_fair what a flow may have there. A packet is dropped with the probability
 * 1 - m_fair / m_i where its flow has more, and never where it has not. Every `INTERVAL` m_fair moves so that `target` bytes wait:
 *
 *     m_fair += 1.7 (q_before - target) - 1.8 (q - target)
 *
 * A packet that finds the queue empty comes in: to drop it would keep the link idle. Packets leave in the order they came. Flows whose
 * hashes end alike are one flow here.
 */
#define SP_PACKETS 16384
#include "switchpath.h"

SP_DESCRIPTION("summary Flows get about the same share of one queue.\n"
               "option limit count 1000 1 16384 Packets that wait at most.\n"
               "option target size 50kb 1500 1000000000 Bytes that are to wait.\n")

enum { LIMIT, TARGET };                 /* the options */
enum { QUEUE };                         /* the only queue */
enum { DIFFERENTIAL };                  /* a counter: packets that were dropped because their flow has too much */
enum { FLOWS = 4096, SHADOW = 512, SAMPLING = 4 };

static const uint64_t INTERVAL = 6250000;       /* of the paper: 160 times a second */
static const int64_t MOST = 10 * SHADOW * 1514; /* m_fair is no more than all flows together can have there, in tenths of bytes */

struct noted {
    uint16_t flow;
    uint16_t length;
};

static uint64_t limit, target;
static struct noted shadow[SHADOW];
static uint32_t oldest;          /* of the shadow buffer */
static uint32_t bytes_of[FLOWS]; /* of each flow in it */
static int64_t fair;             /* m_fair, in tenths of bytes */
static int64_t before;           /* bytes that waited at the last change */
static uint64_t changed;         /* when that was */
static bool begun;

const char *scheme_start(void) {
    limit = sp_option(LIMIT);
    target = sp_option(TARGET);
    fair = MOST;
    sp_want(SP_FLOWS);
    return NULL;
}

static void note(uint32_t flow, uint32_t length) {
    struct noted *place = &shadow[oldest];
    oldest = (oldest + 1) % SHADOW;
    bytes_of[place->flow] -= place->length;
    place->flow = (uint16_t)flow;
    place->length = (uint16_t)(length < UINT16_MAX ? length : UINT16_MAX);
    bytes_of[flow] += place->length;
}

/* Moves m_fair where that is due. */
static void move(void) {
    uint64_t now = sp_now();
    if (begun && now - changed < INTERVAL) return;
    int64_t waiting = (int64_t)sp_bytes(QUEUE), wanted = (int64_t)target;
    if (begun) {
        fair += 17 * (before - wanted) - 18 * (waiting - wanted);
        if (fair < 10) fair = 10;
        if (fair > MOST) fair = MOST;
    }
    begun = true;
    before = waiting;
    changed = now;
}

void scheme_arrival(const struct sp_packet *packet) {
    uint32_t flow = packet->flow_hash % FLOWS;
    move();
    if (sp_random() % SAMPLING == 0) note(flow, packet->length);
    int64_t has = 10 * (int64_t)bytes_of[flow];
    if (has > fair && sp_packets(QUEUE) > 0 && (int64_t)(sp_random() % (uint64_t)has) >= fair) {
        sp_count(DIFFERENTIAL, 1);
        return;
    }
    if (sp_packets(QUEUE) < limit) sp_enqueue(QUEUE);
}

void scheme_ready(void) {
    sp_send(QUEUE);
}

/* What waits the kit counts; the shadow buffer is about what came. */
void scheme_recount(void) {}
