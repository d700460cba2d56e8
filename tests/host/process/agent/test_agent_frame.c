/* SPDX-License-Identifier: Apache-2.0
 * Protects what supervisor and agent say to each other: a frame is taken whole or not at all, from
 * the side that may say it, and what is nonsense is seen by its first bytes.
 */
#include "base/heartbeat.h"
#include "host/process/agent/agent_frame.h"
#include "test_case.h"

static char memory[4096];

static struct bytes make(enum agent_kind kind, const void *body, size_t body_bytes,
                         const void *tail, size_t tail_bytes) {
    struct agent_head head = agent_frame_head(kind, body_bytes + tail_bytes);
    memcpy(memory, &head, sizeof head);
    if (body_bytes) memcpy(memory + sizeof head, body, body_bytes);
    if (tail_bytes) memcpy(memory + sizeof head + body_bytes, tail, tail_bytes);
    return (struct bytes){memory, sizeof head + body_bytes + tail_bytes};
}

static enum agent_got read_frame(struct bytes got, bool from_agent) {
    struct agent_frame frame;
    return agent_frame_read(got, from_agent, &frame);
}

static struct bytes make_launch(uint32_t arguments, uint32_t settings, struct bytes tail) {
    struct agent_launch launch = {8, 8, 32, arguments, settings, 8, 0, 1, "b"};
    return make(AGENT_LAUNCH, &launch, sizeof launch, tail.data, tail.count);
}

TEST(a_frame_is_taken_whole_or_not_at_all) {
    const char words[] = "unit\0--ranks=32\0UCX_TLS=tcp";
    struct bytes whole = make_launch(2, 1, (struct bytes){words, sizeof words});
    struct agent_frame frame;
    for (size_t count = 0; count < whole.count; count++)
        assert_int_equal(read_frame((struct bytes){whole.data, count}, false),
                         AGENT_GOT_TOO_LITTLE);
    assert_int_equal(agent_frame_read(whole, false, &frame), AGENT_GOT_FRAME);
    assert_int_equal(frame.kind, AGENT_LAUNCH);
    assert_int_equal(frame.bytes, whole.count);
    assert_string_equal(agent_frame_next_word(&frame.tail), "unit");
    assert_string_equal(agent_frame_next_word(&frame.tail), "--ranks=32");
    assert_string_equal(agent_frame_next_word(&frame.tail), "UCX_TLS=tcp");
    assert_int_equal(frame.tail.count, 0);
}

TEST(each_side_says_its_own_frames) {
    assert_int_equal(read_frame(make(AGENT_PING, NULL, 0, NULL, 0), false), AGENT_GOT_FRAME);
    assert_int_equal(read_frame(make(AGENT_PING, NULL, 0, NULL, 0), true), AGENT_GOT_NONSENSE);
    assert_int_equal(read_frame(make(AGENT_PONG, NULL, 0, NULL, 0), true), AGENT_GOT_FRAME);
    assert_int_equal(read_frame(make(AGENT_PONG, NULL, 0, NULL, 0), false), AGENT_GOT_NONSENSE);
    assert_int_equal(read_frame(make(AGENT_PONG, "x", 1, NULL, 0), true), AGENT_GOT_NONSENSE);
}

TEST(what_a_shell_says_is_nonsense_from_its_first_bytes) {
    assert_int_equal(read_frame(BYTES_LITERAL("W"), true), AGENT_GOT_NONSENSE);
    assert_int_equal(read_frame(BYTES_LITERAL("Welcome to host b\n"), true), AGENT_GOT_NONSENSE);
    assert_int_equal(read_frame(BYTES_LITERAL("FATA"), true), AGENT_GOT_TOO_LITTLE);
    assert_int_equal(read_frame(BYTES_LITERAL("FATB"), true), AGENT_GOT_NONSENSE);
    assert_int_equal(read_frame((struct bytes){NULL, 0}, true), AGENT_GOT_TOO_LITTLE);
}

TEST(a_launch_has_the_words_that_it_says) {
    const struct bytes words = {"unit\0A=1", 9};
    assert_int_equal(read_frame(make_launch(1, 1, words), false), AGENT_GOT_FRAME);
    assert_int_equal(read_frame(make_launch(2, 1, words), false), AGENT_GOT_NONSENSE);
    assert_int_equal(read_frame(make_launch(1, 0, words), false), AGENT_GOT_NONSENSE);
    assert_int_equal(read_frame(make_launch(0, 2, words), false), AGENT_GOT_NONSENSE);
    assert_int_equal(read_frame(make_launch(1, 1, (struct bytes){"unit\0A=1", 8}), false),
                     AGENT_GOT_NONSENSE);
    assert_int_equal(read_frame(make_launch(1, 1, (struct bytes){"unit\0=1", 8}), false),
                     AGENT_GOT_NONSENSE);
    struct agent_launch crowd = {8, 8, 32, 1, 1, 9, 2, 1, "b"}; /* 2 before 8 of 9 */
    assert_int_equal(
        read_frame(make(AGENT_LAUNCH, &crowd, sizeof crowd, words.data, words.count), false),
        AGENT_GOT_NONSENSE);
    struct agent_launch beyond = {8, 25, 32, 1, 0, 25, 0, 1, "b"};
    assert_int_equal(read_frame(make(AGENT_LAUNCH, &beyond, sizeof beyond, "unit", 5), false),
                     AGENT_GOT_NONSENSE);
}

TEST(a_check_names_no_path_where_a_name_belongs) {
    struct agent_check check = {.count = 8, .total = 8, .unit = "u", .model = "/m"};
    assert_int_equal(read_frame(make(AGENT_CHECK, &check, sizeof check, NULL, 0), false),
                     AGENT_GOT_FRAME);
    strcpy(check.interface, "../eth0");
    assert_int_equal(read_frame(make(AGENT_CHECK, &check, sizeof check, NULL, 0), false),
                     AGENT_GOT_NONSENSE);
    check.interface[0] = 0;
    strcpy(check.unit, "../u");
    assert_int_equal(read_frame(make(AGENT_CHECK, &check, sizeof check, NULL, 0), false),
                     AGENT_GOT_NONSENSE);
    strcpy(check.unit, "u");
    memset(check.model, 'x', sizeof check.model); /* it does not end */
    assert_int_equal(read_frame(make(AGENT_CHECK, &check, sizeof check, NULL, 0), false),
                     AGENT_GOT_NONSENSE);
}

TEST(a_file_stays_in_the_room) {
    static const char *const names[] = {"", ".", "..", "../x", "a/b", "/etc/passwd"};
    struct agent_file file = {"unit.secret"};
    assert_int_equal(read_frame(make(AGENT_FILE, &file, sizeof file, "x", 1), false),
                     AGENT_GOT_FRAME);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        strcpy(file.name, names[i]);
        assert_int_equal(read_frame(make(AGENT_FILE, &file, sizeof file, "x", 1), false),
                         AGENT_GOT_NONSENSE);
    }
}

TEST(facts_may_stand_in_the_log) {
    struct agent_facts facts = {.version = "1", .host = "b"};
    assert_int_equal(read_frame(make(AGENT_FACTS, &facts, sizeof facts, NULL, 0), true),
                     AGENT_GOT_FRAME);
    strcpy(facts.lacks, "a\nb");
    assert_int_equal(read_frame(make(AGENT_FACTS, &facts, sizeof facts, NULL, 0), true),
                     AGENT_GOT_NONSENSE);
}

TEST(a_place_to_reach_has_an_address_and_a_port) {
    struct agent_place place = {.address = "10.0.0.1", .port = 65535};
    struct agent_reached reached = {.error = -1};
    assert_int_equal(read_frame(make(AGENT_REACH, &place, sizeof place, NULL, 0), false),
                     AGENT_GOT_FRAME);
    place.port++;
    assert_int_equal(read_frame(make(AGENT_REACH, &place, sizeof place, NULL, 0), false),
                     AGENT_GOT_NONSENSE);
    assert_int_equal(read_frame(make(AGENT_REACHED, &reached, sizeof reached, NULL, 0), true),
                     AGENT_GOT_NONSENSE);
}

TEST(signs_are_as_many_as_they_say) {
    struct agent_sign signs[2] = {{.pid = 1}, {.state = HEARTBEAT_STATE_COUNT - 1}};
    struct agent_signs head = {1, 2};
    struct bytes frame = make(AGENT_SIGNS, &head, sizeof head, signs, sizeof signs);
    assert_int_equal(read_frame(frame, true), AGENT_GOT_FRAME);
    head.count = 3;
    frame = make(AGENT_SIGNS, &head, sizeof head, signs, sizeof signs);
    assert_int_equal(read_frame(frame, true), AGENT_GOT_NONSENSE);
    head.count = 2;
    signs[1].state = HEARTBEAT_STATE_COUNT;
    frame = make(AGENT_SIGNS, &head, sizeof head, signs, sizeof signs);
    assert_int_equal(read_frame(frame, true), AGENT_GOT_NONSENSE);
}
