/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/load_events.h"

#include "base/random.h"
#include "test_case.h"

struct received {
    char text[4096];
    size_t count, events;
};

static void take(void *context, struct bytes data) {
    struct received *received = context;
    received->events++;
    memcpy(received->text + received->count, data.data, data.count);
    received->count += data.count;
    received->text[received->count++] = '|';
    received->text[received->count] = 0;
}

static const char stream[] = ": keep-alive\n\n"
                             "data: {\"a\":1}\n\n"
                             "event: x\nid: 7\ndata:two\ndata: lines\n\n"
                             "data: cr\r\rdata: crlf\r\n\r\n"
                             "data\n\n"
                             "database: no\n\n"
                             "data:  one blank is kept\n\n"
                             "data: [DONE]\n\n"
                             "data: never ended\n";
static const char wanted[] = "{\"a\":1}|two\nlines|cr|crlf|| one blank is kept|[DONE]|";

static void assert_pieces(const size_t *cuts, size_t cut_count) {
    struct load_events events = {0};
    struct received received = {.count = 0};
    size_t at = 0, end = sizeof stream - 1;
    for (size_t i = 0; i <= cut_count; i++) {
        size_t next = i < cut_count ? cuts[i] : end;
        struct bytes piece = {stream + at, next - at};
        assert_int_equal(load_events_push(&events, piece, take, &received), STATUS_OK);
        at = next;
    }
    assert_string_equal(received.text, wanted);
    load_events_free(&events);
}

/* However the network cuts the stream, the events are the same. */
TEST(any_split_gives_the_same_events) {
    size_t count = sizeof stream - 1;
    assert_pieces(NULL, 0);
    for (size_t cut = 0; cut <= count; cut++)
        assert_pieces(&cut, 1);
    for (uint32_t turn = 0; turn < 500; turn++) {
        size_t cuts[8], from = 0;
        for (uint32_t i = 0; i < 8; i++) {
            from += (size_t)(random_uniform(turn, 0, i) * (double)(count - from) / 3);
            cuts[i] = from;
        }
        assert_pieces(cuts, 8);
    }
    size_t every[sizeof stream];
    for (size_t i = 0; i < count; i++)
        every[i] = i;
    assert_pieces(every, count);
}

static void take_comment(void *context, struct bytes comment) {
    struct received *received = context;
    assert_true(bytes_equal(comment, BYTES_LITERAL(" keep-alive")));
    received->text[received->count++] = '#';
}

TEST(comments_are_for_those_who_ask) {
    struct load_events events = {.comment = take_comment};
    struct received received = {.count = 0};
    assert_int_equal(load_events_push(&events, bytes_of(stream), take, &received), STATUS_OK);
    assert_int_equal(received.text[0], '#');
    assert_string_equal(received.text + 1, wanted);
    load_events_free(&events);
}

/* A server that never ends its line cannot take all memory. */
TEST(an_endless_line_is_refused) {
    struct load_events events = {0};
    struct received received = {.count = 0};
    size_t bytes = (size_t)1 << 20;
    char *block = malloc(bytes);
    memset(block, 'x', bytes);
    enum status status = STATUS_OK;
    for (int i = 0; i < 64 && !status; i++)
        status = load_events_push(&events, (struct bytes){block, bytes}, take, &received);
    assert_int_equal(status, STATUS_TOO_LARGE);
    load_events_reset(&events);
    assert_int_equal(load_events_push(&events, BYTES_LITERAL("data: on\n\n"), take, &received),
                     STATUS_OK);
    assert_string_equal(received.text, "on|");
    load_events_free(&events);
    free(block);
}
