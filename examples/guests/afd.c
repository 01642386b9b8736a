/* @NAME@: Approximate Fair Dropping. Flows get about the same share of one queue at any sending rate.
 *
 * Source: Pan, Breslau, Prabhakar and Shenker, "Approximate Fairness through Differential Dropping", ACM SIGCOMM Computer
 * Communication Review 33(2), 2003.
 *
 * One packet in `SAMPLING` is recorded in a shadow buffer, and replaces the oldest record. So the buffer reflects the recent rate of
 * each flow. m_i are the bytes of flow i there, and m_fair is the fair share. If m_i exceeds m_fair, a packet of flow i is dropped
 * with the probability 1 - m_fair / m_i. Every `INTERVAL` m_fair is adjusted to hold `target` bytes in the queue:
 *
 *     m_fair += 1.7 (q_before - target) - 1.8 (q - target)
 *
 * A packet that finds the queue empty is enqueued, because dropping it would keep the link idle. Packets leave in order of arrival.
 * Flows whose hashes have the same low bits count as one flow.
 */
#define SP_PACKETS 16384
#include "switchpath.h"

SP_DESCRIPTION("summary Flows get about the same share of one queue.\n"
               "option limit count 1000 1 16384 Packets that wait at most.\n"
               "option target size 50kb 1500 1000000000 Bytes that are to wait.\n")

enum { LIMIT, TARGET };                 /* the options */
enum { QUEUE };                         /* the only queue */
enum { DIFFERENTIAL };                  /* a counter: packets dropped because their flow exceeds its share */
enum { FLOWS = 4096, SHADOW = 512, SAMPLING = 4 };

static const uint64_t INTERVAL = 6250000;       /* of the paper: 160 times a second */
static const int64_t MOST = 10 * SHADOW * 1514; /* m_fair is at most the size of the buffer, in tenths of bytes */

struct noted {
    uint16_t flow;
    uint16_t length;
};

static uint64_t limit, target;
static struct noted shadow[SHADOW];
static uint32_t oldest;          /* record of the shadow buffer */
static uint32_t bytes_of[FLOWS]; /* of each flow in it */
static int64_t fair;             /* m_fair, in tenths of bytes */
static int64_t before;           /* queued bytes at the last change */
static uint64_t changed;         /* time of the last change */
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

/* Adjusts m_fair when the interval has passed. */
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

/* The kit recounts the queue; the shadow buffer records arrivals only. */
void scheme_recount(void) {}
