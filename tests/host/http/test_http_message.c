/* SPDX-License-Identifier: Apache-2.0
 * Protects the reading of HTTP: what a request says is read right, and whatever two readers could
 * understand differently is refused.
 */
#include "base/check.h"
#include "host/http/http_message.h"
#include "test_case.h"

static struct http_head head;

static uint32_t read_status(const char *text) {
    size_t bytes = http_message_head_bytes(bytes_of(text), 0);
    assert_int_equal(bytes, strlen(text));
    return http_message_read_head(bytes_of(text), &head).status;
}

static void assert_slice(struct bytes slice, const char *expected) {
    assert_true(bytes_equal(slice, bytes_of(expected)));
}

TEST(it_reads_a_request) {
    assert_int_equal(read_status("POST /v1/chat/completions?x=1 HTTP/1.1\r\nhOST: a:1\r\n"
                                 "Authorization:\t Bearer key \r\nContent-Length: 12\r\n"
                                 "Origin: http://b\r\nIf-None-Match: \"t\"\r\n"
                                 "x-fathom-RECEIPT: 1\r\nContent-Type: text/plain\r\n"
                                 "Expect: 100-Continue\r\n\r\n"),
                     0);
    assert_int_equal(head.verb, HTTP_VERB_POST);
    assert_slice(head.path, "/v1/chat/completions");
    assert_slice(head.host, "a:1");
    assert_slice(head.content_type, "text/plain");
    assert_slice(head.authorization, "Bearer key");
    assert_slice(head.origin, "http://b");
    assert_slice(head.if_none_match, "\"t\"");
    assert_int_equal(head.body_bytes, 12);
    assert_true(head.keep_alive && head.expects_continue && !head.chunked);
    assert_true(head.wants_receipt);
    read_status("GET / HTTP/1.1\r\nHost: a\r\nX-Fathom-Receipt: 0\r\n\r\n");
    assert_false(head.wants_receipt);
}

/* A path is split before it is decoded, by whoever knows its parts. */
TEST(it_leaves_a_path_encoded) {
    assert_int_equal(read_status("GET /a%2Fb?50% HTTP/1.1\r\nHost: a\r\n\r\n"), 0);
    assert_slice(head.path, "/a%2Fb");
}

TEST(it_knows_clients_of_anthropics_api_by_header_or_path) {
    static const char *const theirs[] = {"/v1/messages", "/v1/messages/batches?limit=1",
                                         "/messages", "/anthropic", "/anthropic/v1/models"};
    static const char *const others[] = {"/", "/v1/models", "/v1/messages2", "/anthropics/v1"};
    char text[128];
    for (size_t i = 0; i < sizeof theirs / sizeof *theirs; i++) {
        snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", theirs[i]);
        assert_int_equal(read_status(text), 0);
        assert_true(head.speaks_anthropic);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", others[i]);
        assert_int_equal(read_status(text), 0);
        assert_false(head.speaks_anthropic);
    }
    read_status("GET /v1/models HTTP/1.1\r\nHost: a\r\nAnthropic-Version: 2023-06-01\r\n\r\n");
    assert_true(head.speaks_anthropic);
}

TEST(it_knows_how_a_body_is_encoded) {
    static const struct {
        const char *headers;
        enum content_coding coding;
    } cases[] = {
        {"", CODING_NONE},
        {"Content-Encoding: identity\r\n", CODING_NONE},
        {"Content-Encoding:\r\n", CODING_NONE},
        {"Content-Encoding: gzip\r\n", CODING_GZIP},
        {"content-encoding: X-GZIP\r\n", CODING_GZIP},
        {"Content-Encoding: deflate\r\n", CODING_DEFLATE},
        {"Content-Encoding: identity , ZSTD\r\n", CODING_ZSTD},
        {"Content-Encoding: br\r\n", CODING_OTHER},
        {"Content-Encoding: gzip2\r\n", CODING_OTHER},
        {"Content-Encoding: gzip, gzip\r\n", CODING_OTHER},
        {"Content-Encoding: br, gzip\r\n", CODING_OTHER},
        {"Content-Encoding: gzip\r\nContent-Encoding: zstd\r\n", CODING_OTHER},
        {"Content-Encoding: gzip\r\nContent-Encoding: identity\r\n", CODING_GZIP},
    };
    char text[128];
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        snprintf(text, sizeof text, "POST / HTTP/1.1\r\nHost: a\r\n%s\r\n", cases[i].headers);
        assert_int_equal(read_status(text), 0);
        if (head.coding != cases[i].coding) fail_msg("%s: %u", cases[i].headers, head.coding);
    }
}

TEST(it_knows_when_the_connection_stays) {
    assert_int_equal(read_status("GET / HTTP/1.1\r\nHost: a\r\nConnection: x, Close\r\n\r\n"), 0);
    assert_false(head.keep_alive);
    assert_int_equal(read_status("GET / HTTP/1.0\r\n\r\n"), 0);
    assert_false(head.keep_alive);
    assert_int_equal(read_status("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"), 0);
    assert_true(head.keep_alive);
}

TEST(it_reads_absolute_targets_and_other_methods) {
    assert_int_equal(read_status("GET http://a:80/p?q HTTP/1.1\r\nHost: a\r\n\r\n"), 0);
    assert_slice(head.path, "/p");
    assert_slice(head.host, "a:80");
    assert_int_equal(read_status("GET http://b:1/p HTTP/1.1\r\nHost: a\r\n\r\n"), 0);
    assert_slice(head.host, "b:1");
    assert_int_equal(read_status("GET http://a HTTP/1.1\r\nHost: a\r\n\r\n"), 0);
    assert_slice(head.path, "/");
    assert_int_equal(read_status("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"), 0);
    assert_int_equal(head.verb, HTTP_VERB_OPTIONS);
    assert_int_equal(read_status("\r\nDELETE /x HTTP/1.1\r\nHost: a\r\n\r\n"), 0);
    assert_int_equal(head.verb, HTTP_VERB_OTHER);
}

TEST(it_refuses_what_is_not_http) {
    static const struct {
        const char *text;
        uint32_t status;
    } cases[] = {
        {"GET /\r\n\r\n", 400},
        {"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET / HTTP/1.1 \r\nHost: a\r\n\r\n", 400},
        {"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505},
        {"G\x01T / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET x HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET /v1/models/a%zz HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET /v1/models/a%2 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET /v1/models/a%00 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET http://a/% HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
        {"GET http://a/ HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nnothing\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nExpect: wonders\r\n\r\n", 417},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        if (read_status(cases[i].text) != cases[i].status)
            fail_msg("%s: not %u", cases[i].text, (unsigned)cases[i].status);
}

/* One reader takes the first, another the last: equal or empty ones are no better. */
TEST(it_refuses_headers_that_stand_there_twice) {
    static const char *const twice[][2] = {
        {"Authorization: Bearer a", "authorization: Bearer b"},
        {"Authorization: Bearer a", "Authorization: Bearer a"},
        {"Authorization:", "Authorization: Bearer a"},
        {"Content-Type: text/plain", "Content-Type: application/json"},
        {"Origin: http://a", "Origin: http://b"},
        {"Host: b", "X: y"}, /* beside the one that is there */
    };
    char text[256];
    for (size_t i = 0; i < ARRAY_COUNT(twice); i++) {
        snprintf(text, sizeof text, "POST / HTTP/1.1\r\nHost: a\r\n%s\r\nX: y\r\n%s\r\n\r\n",
                 twice[i][0], twice[i][1]);
        if (read_status(text) != 400) fail_msg("let in: %s", text);
    }
}

TEST(it_knows_json_by_its_name) {
    static const char *const good[] = {"application/json", "APPLICATION/Json",
                                       "application/json; charset=utf-8",
                                       "application/json ;charset=\"UTF-8\""};
    static const char *const bad[] = {"",
                                      "text/plain",
                                      "application/jsonp",
                                      "application/json-patch+json",
                                      "application/json, text/plain",
                                      "text/plain; application/json",
                                      "text/plain, application/json"};
    for (size_t i = 0; i < ARRAY_COUNT(good); i++)
        assert_true(http_message_is_json(bytes_of(good[i])));
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++)
        assert_false(http_message_is_json(bytes_of(bad[i])));
    assert_false(http_message_is_json((struct bytes){NULL, 0}));
}

TEST(it_refuses_bodies_of_unclear_length) {
    static const struct {
        const char *headers;
        uint32_t status;
    } cases[] = {
        {"Content-Length: 5\r\nContent-Length: 5\r\n", 400},
        {"Content-Length: 5, 5\r\n", 400},
        {"Content-Length: +5\r\n", 400},
        {"Content-Length: -1\r\n", 400},
        {"Content-Length: 0x5\r\n", 400},
        {"Content-Length:\r\n", 400},
        {"Content-Length: 9999999999999999999999\r\n", 400},
        {"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", 400},
        {"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", 400},
        {"Transfer-Encoding: gzip, chunked\r\n", 501},
        {"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", 501},
        {"Transfer-Encoding: identity\r\n", 501},
    };
    char text[256];
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        snprintf(text, sizeof text, "POST / HTTP/1.1\r\nHost: a\r\n%s\r\n", cases[i].headers);
        if (read_status(text) != cases[i].status)
            fail_msg("%s: not %u", text, (unsigned)cases[i].status);
    }
    assert_int_equal(read_status("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400);
}

TEST(it_finds_the_end_piece_by_piece) {
    const char text[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\nrest";
    size_t end = strlen(text) - 4, searched = 0;
    for (size_t count = 0; count < end; count++) {
        assert_int_equal(http_message_head_bytes((struct bytes){text, count}, searched), 0);
        searched = count;
    }
    assert_int_equal(http_message_head_bytes((struct bytes){text, end}, searched), end);
}

/* Decodes `text`, cut into pieces of `step` bytes. Returns the bytes taken. */
static size_t decode(const char *text, size_t step, struct http_chunks *chunks, char *body) {
    size_t at = 0, count = strlen(text);
    *chunks = (struct http_chunks){0};
    *body = 0;
    while (at < count && !chunks->done && !chunks->broken) {
        size_t end = at + step < count ? at + step : count;
        while (at < end && !chunks->done && !chunks->broken) {
            struct bytes piece;
            size_t taken =
                http_message_chunks_take(chunks, (struct bytes){text + at, end - at}, &piece);
            strncat(body, piece.data, piece.count);
            at += taken;
        }
    }
    return at;
}

TEST(it_decodes_chunks_however_they_come) {
    const char text[] = "5\r\nhello\r\n0006;ext=\"x\"\r\n world\r\n0\r\nTrailer: x\r\n\r\nnext";
    for (size_t step = 1; step < sizeof text; step++) {
        struct http_chunks chunks;
        char body[64];
        assert_int_equal(decode(text, step, &chunks, body), strlen(text) - 4);
        assert_true(chunks.done && !chunks.broken);
        assert_string_equal(body, "hello world");
    }
}

TEST(it_refuses_broken_chunks) {
    static const char *const cases[] = {
        "x\r\n",  "\r\n",         "5\nhello",          "5\r\nhello0\r\n", "5\r\nhello\n",
        "-5\r\n", "0x5\r\nhello", "1234567890123\r\n", "0\r\nA: b\n\r\n", "0\r\n\rX",
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct http_chunks chunks;
        char body[64];
        decode(cases[i], 1, &chunks, body);
        if (!chunks.broken) fail_msg("taken for whole: %s", cases[i]);
    }
}

TEST(it_bounds_what_surrounds_chunks) {
    static char text[40000];
    struct http_chunks chunks;
    char body[8];
    memset(text, 'a', sizeof text - 1);
    memcpy(text, "1;", 2);
    decode(text, 1000, &chunks, body);
    assert_true(chunks.broken);
}
