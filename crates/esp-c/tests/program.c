/* A C program that uses the interface. interface.rs compiles it against header and library, runs it, and compares its output with the
 * Rust implementation. */
#include "switchpath-state.h"

#include <stdio.h>
#include <stdlib.h>

#define CHECK(holds) \
    do { \
        if (!(holds)) { \
            fprintf(stderr, "line %d: %s\n", __LINE__, #holds); \
            exit(1); \
        } \
    } while (0)

static const uint64_t RANDOMNESS[2] = {3, 4};

/* Prints a part as bytes, and checks that they decode to the same part. */
static void tell(const char *name, switchpath_part part) {
    uint8_t bytes[SWITCHPATH_MOST];
    switchpath_part again;
    size_t length = switchpath_write(&part, bytes), i;
    CHECK(length >= 14 && length <= SWITCHPATH_MOST);
    memset(&again, 0xff, sizeof again);
    CHECK(switchpath_read(&again, bytes, length) == length);
    CHECK(memcmp(again.operands, part.operands, sizeof part.operands) == 0 && again.computation == part.computation);
    CHECK(again.instruction == part.instruction && again.operation == part.operation && again.places == part.places);
    CHECK(switchpath_read(&again, bytes, length - 1) == 0);
    printf("%s ", name);
    for (i = 0; i < length; i++) printf("%02x", bytes[i]);
    printf("\n");
}

static void instructions(void) {
    const unsigned at = SWITCHPATH_INPUT | SWITCHPATH_OUTPUT;
    switchpath_part wrong = switchpath_compare(7, at, 1, SWITCHPATH_ADD, 2);
    uint8_t bytes[SWITCHPATH_MOST];
    tell("nop", switchpath_nop(7, SWITCHPATH_CENTRAL));
    tell("count", switchpath_count(7, at, 1, 2));
    tell("compare", switchpath_compare(7, at, 1, SWITCHPATH_GT, 2));
    tell("collect", switchpath_collect(7, at, 1, 2, SWITCHPATH_MAX, 3));
    tell("rcollect", switchpath_rcollect(7, at, 1, 2, 3, SWITCHPATH_XOR, 4));
    tell("rchld", switchpath_rchld(7, at, 1, 2));
    tell("mark", switchpath_mark(7, at, 1, 2));
    tell("test", switchpath_test(7, at, 1));
    tell("get", switchpath_get(7, at, 1));
    tell("put", switchpath_put(7, at, 1, 2));
    tell("setfwd", switchpath_setfwd(7, at, 1, SWITCHPATH_LE, 2));
    CHECK(switchpath_write(&wrong, bytes) == 0);
    wrong.instruction = 11;
    CHECK(switchpath_write(&wrong, bytes) == 0);
    CHECK(switchpath_write(NULL, bytes) == 0 && switchpath_write(&wrong, NULL) == 0);
    CHECK(switchpath_read(NULL, bytes, sizeof bytes) == 0 && switchpath_read(&wrong, NULL, 14) == 0);
}

/* Piggybacked data: of a datagram, and of an IP packet of 24 bytes with protocol 200. */
static void carried_along(void) {
    static const uint8_t packet[24] = {0x45, 0, 0, 24, 0, 0, 0x40, 0, 64, 200, 0x26, 0x1c, 10, 0, 0, 1, 10, 0, 0, 2, 1, 2, 3, 4};
    const switchpath_part test = switchpath_test(7, SWITCHPATH_OUTPUT, 9);
    switchpath_part part;
    uint8_t bytes[128], back[128];
    size_t length = switchpath_before_data(&test, (const uint8_t *)"data", 4, bytes, sizeof bytes), at;
    CHECK(length == 22 + SWITCHPATH_TRAILER + 4);
    at = switchpath_with_data(&part, bytes, length);
    CHECK(at == length - 4 && memcmp(bytes + at, "data", 4) == 0);
    CHECK(part.operands[0] == 9 && part.flags == SWITCHPATH_PIGGYBACKED);
    CHECK(switchpath_with_data(&part, bytes, 22) == 0);
    CHECK(switchpath_before_data(&test, (const uint8_t *)"data", 4, bytes, length - 1) == 0);
    length = switchpath_wrap(&test, packet, sizeof packet, bytes, sizeof bytes);
    CHECK(length == sizeof packet + 22 + SWITCHPATH_TRAILER && bytes[9] == SWITCHPATH_PROTOCOL);
    CHECK(switchpath_strip(&part, bytes, length, back, sizeof back) == sizeof packet);
    CHECK(memcmp(back, packet, sizeof packet) == 0 && part.operands[0] == 9);
    CHECK(switchpath_strip(&part, packet, sizeof packet, back, sizeof back) == 0);
    CHECK(switchpath_strip(&part, NULL, 5, back, sizeof back) == 0);
    CHECK(switchpath_wrap(&test, packet, 10, bytes, sizeof bytes) == 0);
    length = switchpath_wrap_option(&test, packet, sizeof packet, bytes, sizeof bytes);
    CHECK(length == sizeof packet + 2 + 22 && bytes[0] == 0x4b && bytes[9] == packet[9] && bytes[20] == 158);
    CHECK(switchpath_wrap_option(&test, bytes, length, back, sizeof back) == 0);
    CHECK(switchpath_strip(&part, bytes, length, back, sizeof back) == sizeof packet);
    CHECK(memcmp(back, packet, sizeof packet) == 0 && part.operands[0] == 9);
}

/* A round in which all reports are lost, and the one after it. */
static void again(void) {
    const uint64_t second = 1000000000, every = 20 * second;
    uint64_t now = 5 * second, until;
    switchpath_schedule schedule;
    switchpath_reporter *member;
    switchpath_controller *root;
    switchpath_outcome outcome;
    switchpath_part part;
    CHECK(switchpath_plan(&schedule, now, 10 * second, second / 10, 0, 3) == 0);
    member = switchpath_reporter_new(7, 3, SWITCHPATH_MAX, &schedule, 1, 42);
    root = switchpath_controller_new(7, 3, SWITCHPATH_MAX, &schedule);
    switchpath_reporter_repeat(member, 2, every);
    switchpath_controller_repeat(root, 2, every);
    for (;;) {
        enum switchpath_action action = switchpath_reporter_poll(member, now, &part, &until);
        if (action == SWITCHPATH_OVER) break;
        if (action == SWITCHPATH_WAIT) {
            now = until;
            continue;
        }
        if (part.instruction == SWITCHPATH_RCHLD || now > schedule.end) switchpath_controller_received(root, &part);
        CHECK(now > schedule.start + every || switchpath_controller_poll(root, now, &outcome, NULL) == SWITCHPATH_WAIT);
    }
    CHECK(now >= schedule.end + every);
    CHECK(switchpath_controller_poll(root, now, &outcome, NULL) == SWITCHPATH_OVER);
    CHECK(outcome.ending == SWITCHPATH_COMPLETE && outcome.result == 42 && outcome.missing == 0);
    switchpath_reporter_free(member);
    switchpath_controller_free(root);
    switchpath_reporter_repeat(NULL, 2, every);
    switchpath_controller_repeat(NULL, 2, every);
}

/* One member and the root, without a router in between: the root receives all packets of the member. */
static void a_round(void) {
    const uint64_t second = 1000000000;
    switchpath_computation *own = switchpath_computation_new(RANDOMNESS), *other;
    uint64_t number = switchpath_computation_number(own), now = 5 * second, until, sent = 0;
    switchpath_schedule schedule;
    switchpath_reporter *member;
    switchpath_controller *root;
    switchpath_outcome outcome;
    switchpath_part part;
    printf("number %016llx\n", (unsigned long long)number);
    printf("tag %016llx\n", (unsigned long long)switchpath_computation_tag(own));
    switchpath_computation_free(own);
    own = switchpath_computation_joined_new(number, RANDOMNESS);
    CHECK(switchpath_computation_number(own) == number && switchpath_computation_tag(own) != switchpath_computation_tag(own));
    switchpath_computation_free(own);
    CHECK(switchpath_plan(&schedule, now, second, second, 0, 3) == 8 * second);
    CHECK(switchpath_plan(&schedule, now, 10 * second, second / 10, 0, 3) == 0);
    CHECK(switchpath_reporter_new(number, 0, SWITCHPATH_LT, &schedule, 1, 42) == NULL);
    member = switchpath_reporter_new(number, 0, SWITCHPATH_MAX, &schedule, 1, 42);
    root = switchpath_controller_new(number, 0, SWITCHPATH_MAX, &schedule);
    CHECK(member != NULL && root != NULL);
    CHECK(switchpath_controller_poll(root, now, &outcome, &until) == SWITCHPATH_WAIT && until == schedule.end);
    for (;;) {
        enum switchpath_action action = switchpath_reporter_poll(member, now, &part, &until);
        if (action == SWITCHPATH_OVER) break;
        if (action == SWITCHPATH_SEND) {
            CHECK(part.computation == number && part.places == SWITCHPATH_OUTPUT);
            CHECK(part.instruction == (now < schedule.collect ? SWITCHPATH_RCHLD : SWITCHPATH_RCOLLECT));
            switchpath_controller_received(root, &part);
            sent++;
        } else {
            CHECK(until > now);
            now = until;
        }
    }
    CHECK(sent >= 6 && sent <= 8);
    CHECK(switchpath_controller_poll(root, now, &outcome, &until) == SWITCHPATH_OVER);
    CHECK(outcome.ending == SWITCHPATH_COMPLETE && outcome.has_result == 1 && outcome.result == 42);
    CHECK(outcome.missing == 0 && outcome.packets == sent);
    switchpath_reporter_free(member);
    switchpath_controller_free(root);
    /* No member registers, and a router that fails. */
    root = switchpath_controller_new(number, 1, SWITCHPATH_MAX, &schedule);
    CHECK(switchpath_controller_poll(root, schedule.end, &outcome, NULL) == SWITCHPATH_OVER && outcome.ending == SWITCHPATH_NOBODY);
    member = switchpath_reporter_new(number, 1, SWITCHPATH_MAX, &schedule, 1, 42);
    CHECK(switchpath_reporter_poll(member, schedule.start, &part, NULL) == SWITCHPATH_SEND);
    part.flags = SWITCHPATH_ERROR;
    switchpath_controller_received(root, &part);
    CHECK(switchpath_controller_poll(root, schedule.end, &outcome, NULL) == SWITCHPATH_OVER && outcome.ending == SWITCHPATH_FAILED);
    switchpath_reporter_free(member);
    switchpath_controller_free(root);
    switchpath_reporter_free(NULL);
    switchpath_controller_free(NULL);
    switchpath_computation_free(NULL);
    CHECK(switchpath_reporter_poll(NULL, 0, &part, &until) == SWITCHPATH_OVER);
    /* Random numbers of the system differ. */
    own = switchpath_computation_new(NULL);
    other = switchpath_computation_joined_new(number, NULL);
    CHECK(own != NULL && other != NULL && switchpath_computation_number(other) == number);
    CHECK(switchpath_computation_number(own) != number && switchpath_computation_tag(own) != switchpath_computation_tag(other));
    switchpath_computation_free(other);
    other = switchpath_computation_new(NULL);
    CHECK(other != NULL && switchpath_computation_number(own) != switchpath_computation_number(other));
    switchpath_computation_free(own);
    switchpath_computation_free(other);
}

#define NUMBER(name) printf("value %s %d\n", #name, (int)SWITCHPATH_##name)

static void numbers(void) {
    NUMBER(NOP), NUMBER(COUNT), NUMBER(COMPARE), NUMBER(COLLECT), NUMBER(RCOLLECT), NUMBER(RCHLD), NUMBER(MARK), NUMBER(TEST);
    NUMBER(GET), NUMBER(PUT), NUMBER(SETFWD);
    NUMBER(ADD), NUMBER(MIN), NUMBER(MAX), NUMBER(AND), NUMBER(OR), NUMBER(XOR), NUMBER(FIRST), NUMBER(LAST);
    NUMBER(LT), NUMBER(LE), NUMBER(EQ), NUMBER(NE), NUMBER(GE), NUMBER(GT);
    NUMBER(PORT), NUMBER(PROTOCOL), NUMBER(MOST);
    printf("size part %d\n", (int)sizeof(switchpath_part));
    printf("size schedule %d\n", (int)sizeof(switchpath_schedule));
    printf("size outcome %d\n", (int)sizeof(switchpath_outcome));
    printf("size flags %d\n", (int)offsetof(switchpath_part, flags));
    printf("size ending %d\n", (int)offsetof(switchpath_outcome, ending));
}

/* Sealed parts. */
static void sealed(void) {
    static const uint8_t packet[24] = {0x45, 0, 0, 24, 0, 0, 0x40, 0, 64, 200, 0x26, 0x1c, 10, 0, 0, 1, 10, 0, 0, 2, 1, 2, 3, 4};
    static const char text[] = "000102030405060708090a0b0c0d0e0f\n", third[] = "5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b";
    static const char both[] = "5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b\n000102030405060708090a0b0c0d0e0f\n";
    switchpath_key *key = switchpath_key_new(text, sizeof text - 1), *other = switchpath_key_new(third, sizeof third - 1);
    switchpath_key *either = switchpath_key_new(both, sizeof both - 1);
    const switchpath_part put = switchpath_put(7, SWITCHPATH_INPUT, 1, 2);
    switchpath_part part;
    uint8_t bytes[SWITCHPATH_MOST_SEALED], made[100], back[100];
    size_t length = switchpath_write_sealed(&put, key, bytes), i, at;
    CHECK(key && other && either && length == 38);
    CHECK(switchpath_read_sealed(&part, key, bytes, length) == length && part.operands[1] == 2);
    CHECK(switchpath_read_sealed(&part, either, bytes, length) == length);
    CHECK(switchpath_read_sealed(&part, other, bytes, length) == 0 && switchpath_read(&part, bytes, length) == 0);
    printf("sealed ");
    for (i = 0; i < length; i++) printf("%02x", bytes[i]);
    printf("\n");
    length = switchpath_before_data_sealed(&put, key, packet, sizeof packet, made, sizeof made);
    at = switchpath_with_data_sealed(&part, key, made, length);
    CHECK(length == 38 + SWITCHPATH_TRAILER + sizeof packet && at == length - sizeof packet);
    CHECK(memcmp(made + at, packet, sizeof packet) == 0 && switchpath_with_data_sealed(&part, other, made, length) == 0);
    length = switchpath_wrap_sealed(&put, key, packet, sizeof packet, made, sizeof made);
    CHECK(length == 38 + SWITCHPATH_TRAILER + sizeof packet);
    CHECK(switchpath_strip_sealed(&part, other, made, length, back, sizeof back) == 0);
    CHECK(switchpath_strip_sealed(&part, key, made, length, back, sizeof back) == sizeof packet);
    CHECK(memcmp(back, packet, sizeof packet) == 0 && part.operands[1] == 2);
    length = switchpath_wrap_option_sealed(&put, key, packet, sizeof packet, made, sizeof made);
    CHECK(length == sizeof packet + 2 + 38 && made[9] == packet[9] && made[20] == 158);
    CHECK(switchpath_strip_sealed(&part, other, made, length, back, sizeof back) == 0);
    CHECK(switchpath_strip(&part, made, length, back, sizeof back) == 0);
    CHECK(switchpath_strip_sealed(&part, key, made, length, back, sizeof back) == sizeof packet);
    CHECK(memcmp(back, packet, sizeof packet) == 0 && part.operands[1] == 2);
    CHECK(switchpath_wrap_option_sealed(&put, NULL, packet, sizeof packet, made, sizeof made) == 0);
    CHECK(switchpath_key_new("none", 4) == NULL && switchpath_key_new(NULL, 32) == NULL);
    CHECK(switchpath_write_sealed(&put, NULL, bytes) == 0 && switchpath_read_sealed(&part, NULL, bytes, 38) == 0);
    switchpath_key_free(key);
    switchpath_key_free(other);
    switchpath_key_free(either);
    switchpath_key_free(NULL);
}

int main(void) {
    instructions();
    carried_along();
    sealed();
    a_round();
    again();
    numbers();
    return 0;
}
