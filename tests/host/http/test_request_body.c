/* SPDX-License-Identifier: Apache-2.0
 * Protects the growing of bodies: they are kept as they come, decoded where they are encoded,
 * within their limit and within the memory that they were given, however much a few bytes would
 * become.
 */
#include "host/http/request_body.h"

#include <event2/buffer.h>

#include "packing.h"
#include "test_case.h"

enum { LIMIT = 1 << 20 };

static size_t held, held_max;

static bool hold(void *context, size_t more) {
    (void)context;
    if (held + more > held_max) return false;
    held += more;
    return true;
}

static struct request_body open_body(enum content_coding coding, size_t announced) {
    held = 0;
    held_max = SIZE_MAX / 2;
    return (struct request_body){
        .coding = coding, .announced = announced, .bytes_max = LIMIT, .hold = hold};
}

TEST(pieces_become_a_body) {
    struct request_body body = open_body(CODING_NONE, 6);
    assert_int_equal(request_body_take(&body, BYTES_LITERAL("abc")), 0);
    assert_int_equal(request_body_take(&body, BYTES_LITERAL("def")), 0);
    assert_true(bytes_equal((struct bytes){body.text, body.count}, BYTES_LITERAL("abcdef")));
    assert_int_equal(held, 6);
    assert_int_equal(body.capacity, 6); /* no more than was announced */
    assert_true(request_body_is_decoded(&body));
    request_body_clear(&body);
    assert_null(body.text);
}

TEST(what_is_encoded_is_decoded) {
    for (enum content_coding coding = CODING_GZIP; coding < CODING_OTHER; coding++) {
        struct bytes packed = packing_make(coding, BYTES_LITERAL("{\"prompt\":\"abc\"}"));
        struct request_body body = open_body(coding, packed.count);
        for (size_t i = 0; i < packed.count; i++) {
            assert_false(i && request_body_is_decoded(&body));
            assert_int_equal(request_body_take(&body, (struct bytes){packed.data + i, 1}), 0);
        }
        assert_true(request_body_is_decoded(&body));
        assert_int_equal(body.came, packed.count);
        assert_true(bytes_equal((struct bytes){body.text, body.count},
                                BYTES_LITERAL("{\"prompt\":\"abc\"}")));
        request_body_clear(&body);
        packing_free(packed);
    }
}

/* 64 MiB of zeros come in 65 KB of gzip, and in 6 KB of zstd. */
TEST(few_bytes_become_no_more_than_the_limit) {
    size_t bytes = (size_t)64 << 20;
    char *zeros = calloc(1, bytes);
    for (enum content_coding coding = CODING_GZIP; coding < CODING_OTHER; coding++) {
        struct bytes packed = packing_make(coding, (struct bytes){zeros, bytes});
        struct request_body body = open_body(coding, packed.count);
        assert_true(packed.count < LIMIT);
        assert_int_equal(request_body_take(&body, packed), 413);
        assert_true(body.count <= LIMIT && body.capacity <= 2 * LIMIT);
        assert_true(held <= 2 * LIMIT + content_decoder_bytes(coding));
        request_body_clear(&body);
        packing_free(packed);
    }
    free(zeros);
}

TEST(more_than_the_limit_does_not_come_either) {
    static char half[LIMIT / 2 + 1];
    struct request_body body = open_body(CODING_NONE, 0);
    assert_int_equal(request_body_take(&body, (struct bytes){half, sizeof half}), 0);
    assert_int_equal(request_body_take(&body, (struct bytes){half, sizeof half}), 413);
    request_body_clear(&body);
    body = open_body(CODING_GZIP, 0); /* empty members: nothing is decoded of them */
    struct bytes packed = packing_make(CODING_GZIP, BYTES_LITERAL(""));
    uint32_t status = 0;
    for (size_t came = 0; came <= LIMIT && !status; came += packed.count)
        status = request_body_take(&body, packed);
    assert_int_equal(status, 413);
    request_body_clear(&body);
    packing_free(packed);
}

TEST(no_memory_is_taken_that_was_not_given) {
    struct bytes packed = packing_make(CODING_ZSTD, BYTES_LITERAL("abc"));
    struct request_body body = open_body(CODING_ZSTD, packed.count);
    held_max = content_decoder_bytes(CODING_ZSTD) - 1;
    assert_int_equal(request_body_take(&body, packed), 503);
    assert_null(body.decoder);
    held_max = content_decoder_bytes(CODING_ZSTD) + 5; /* a window keeps as much again */
    assert_int_equal(request_body_take(&body, packed), 503);
    assert_null(body.text);
    request_body_clear(&body);
    packing_free(packed);
}

TEST(what_is_not_of_its_coding_is_refused) {
    for (enum content_coding coding = CODING_GZIP; coding < CODING_OTHER; coding++) {
        struct request_body body = open_body(coding, 0);
        assert_int_equal(request_body_take(&body, BYTES_LITERAL("{\"prompt\":\"abc\"}")), 400);
        request_body_clear(&body);
    }
}

/* What is left is the next request's. */
TEST(a_body_is_read_and_nothing_behind_it) {
    struct evbuffer *in = evbuffer_new();
    struct bytes packed = packing_make(CODING_GZIP, BYTES_LITERAL("{\"prompt\":\"abc\"}"));
    struct request_body body = open_body(CODING_NONE, 5);
    evbuffer_add(in, "abc", 3);
    assert_int_equal(request_body_read(&body, in).status, 0);
    assert_false(body.whole);
    evbuffer_add(in, "deGET", 5);
    assert_int_equal(request_body_read(&body, in).status, 0);
    assert_true(body.whole && bytes_equal((struct bytes){body.text, 5}, BYTES_LITERAL("abcde")));
    assert_int_equal(evbuffer_get_length(in), 3);
    request_body_clear(&body);
    evbuffer_drain(in, 3);
    body = open_body(CODING_GZIP, 0);
    body.chunked = true;
    for (size_t i = 0; i < packed.count; i += 5) {
        size_t count = packed.count - i < 5 ? packed.count - i : 5;
        evbuffer_add_printf(in, "%zx\r\n", count);
        evbuffer_add(in, packed.data + i, count);
        evbuffer_add(in, "\r\n", 2);
    }
    evbuffer_add(in, "0\r\n\r\nGET", 8);
    assert_int_equal(request_body_read(&body, in).status, 0);
    assert_true(body.whole && body.count == 16);
    assert_int_equal(evbuffer_get_length(in), 3);
    request_body_clear(&body);
    body = open_body(CODING_NONE, 0); /* there is none */
    assert_int_equal(request_body_read(&body, in).status, 0);
    assert_true(body.whole);
    evbuffer_free(in);
    packing_free(packed);
}

TEST(a_body_that_breaks_off_is_refused) {
    struct evbuffer *in = evbuffer_new();
    struct bytes packed = packing_make(CODING_ZSTD, BYTES_LITERAL("abc"));
    struct request_body body = open_body(CODING_ZSTD, packed.count - 1);
    evbuffer_add(in, packed.data, packed.count);
    struct http_refusal refusal = request_body_read(&body, in);
    assert_int_equal(refusal.status, 400);
    assert_non_null(strstr(refusal.message, "Content-Encoding"));
    request_body_clear(&body);
    body = open_body(CODING_NONE, 0);
    body.chunked = true;
    evbuffer_drain(in, 1);
    evbuffer_add(in, "zz\r\n", 4);
    refusal = request_body_read(&body, in);
    assert_int_equal(refusal.status, 400);
    assert_non_null(strstr(refusal.message, "chunked"));
    request_body_clear(&body);
    evbuffer_free(in);
    packing_free(packed);
}
