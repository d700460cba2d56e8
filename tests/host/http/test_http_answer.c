/* SPDX-License-Identifier: Apache-2.0 */
#include "host/http/http_answer.h"

#include "base/check.h"
#include "test_case.h"

TEST(heads_are_read) {
    static const struct {
        const char *text;
        struct http_answer_head head;
    } cases[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n", {200, true, false, true, 12}},
        {"HTTP/1.1 200 OK\r\ntransfer-encoding:chunked\r\nX: y: z\r\n\r\n",
         {200, true, true, false, 0}},
        {"HTTP/1.1 429 Too Many\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
         {429, false, false, true, 0}},
        {"HTTP/1.0 200 OK\r\n\r\n", {200, false, false, false, 0}},
        {"HTTP/1.0 200\r\nConnection: Keep-Alive\r\nContent-Length:3\r\n\r\n",
         {200, true, false, true, 3}},
        {"HTTP/1.1 100 Continue\r\n\r\n", {100, true, false, true, 0}},
        {"HTTP/1.1 204 None\r\nTransfer-Encoding: chunked\r\n\r\n", {204, true, false, true, 0}},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct http_answer_head head;
        assert_true(http_answer_read_head(bytes_of(cases[i].text), &head));
        assert_int_equal(head.status, cases[i].head.status);
        assert_int_equal(head.keep_alive, cases[i].head.keep_alive);
        assert_int_equal(head.chunked, cases[i].head.chunked);
        assert_int_equal(head.has_length, cases[i].head.has_length);
        if (head.has_length) assert_int_equal(head.body_bytes, cases[i].head.body_bytes);
    }
}

/* A length that cannot be known for certain would let one answer run into the next. */
TEST(nonsense_is_refused) {
    static const char *const bad[] = {
        "",
        "HTTP/2 200 OK\r\n\r\n",
        "HTTP/1.1 20x OK\r\n\r\n",
        "HTTP/1.1 2000\r\n\r\n",
        "HTTP/1.1 099 Low\r\n\r\n",
        "SSH-2.0-OpenSSH\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
    };
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        struct http_answer_head head;
        if (http_answer_read_head(bytes_of(bad[i]), &head)) fail_msg("taken: %s", bad[i]);
    }
}
