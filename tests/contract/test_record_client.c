/* SPDX-License-Identifier: Apache-2.0
 * Protects what clients' host, gateway and tokenizer read of each other: fields out of range, text
 * spans outside their text and accounts that could not be labels are refused.
 */
#include "records.h"
#include "test_case.h"

TEST(fields_out_of_range_are_refused) {
    struct record_client_request *request = good_client_request();
    request->method = HTTP_METHOD_COUNT;
    assert_invalid(request);
    request = good_client_request();
    request->body_bytes = UINT32_MAX;
    assert_invalid(request);
    request = good_client_request();
    ((char *)request)[sizeof *request + 3] = 'x'; /* padding behind the path */
    assert_invalid(request);
    request = good_client_request();
    request->wants_receipt = 2;
    assert_invalid(request);
    request = good_client_request();
    request->listener = HTTP_LISTENER_COUNT;
    assert_invalid(request);
    request = good_client_request();
    request->body_left = 2;
    assert_invalid(request);
    request = good_client_request();
    request->speaks_anthropic = 2;
    assert_invalid(request);
    struct record_respond *respond = good_respond();
    memcpy(respond_headers(respond), "X:  {~\r\n", 8);
    assert_true(record_valid(respond, respond->record.bytes));
    static const char *const wrong[] = {"X-Y: \n\r\n",  "X-Y: z\n\n",  "X-Y: zzz",
                                        "X-Y:zz\r\n",   ": zzzz\r\n",  "X Y: z\r\n",
                                        "X: \x80z\r\n", "X: z\r\n\r\n"};
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
        respond = good_respond();
        memcpy(respond_headers(respond), wrong[i], 8);
        assert_invalid(respond);
    }
    struct record_stream_begin *begin = good_begin();
    begin->content_type = CONTENT_TYPE_COUNT;
    assert_invalid(begin);
    begin = good_begin();
    stream_headers(begin)[0] = ' ';
    assert_invalid(begin);
    respond = good_respond();
    respond->http_status = 0;
    assert_invalid(respond);
    respond = good_respond();
    respond->content_type = CONTENT_TYPE_COUNT;
    assert_invalid(respond);
    respond = good_respond();
    respond->allow = 1u << HTTP_OTHER;
    assert_invalid(respond);
    struct record_tokenized *tokenized = good_tokenized();
    tokenized->token_count = 0x40000001; /* times 4 it would wrap to 4 in 32 bits */
    assert_invalid(tokenized);
    tokenized = good_tokenized();
    tokenized->too_many = 9; /* and yet there are tokens */
    assert_invalid(tokenized);
    struct record_tokenize *tokenize = good_tokenize();
    tokenize->reserved = 1;
    assert_invalid(tokenize);
}

TEST(a_constraint_and_its_verdict_are_whole) {
    for (uint32_t i = 0; i < 3; i++) {
        struct record_constrain *constrain = good_constrain();
        if (i == 0) constrain->text_bytes = 0;
        if (i == 1) constrain->text_bytes = LIMIT_CONSTRAINT_BYTES + 1;
        if (i == 2) constrain->reserved = 1;
        assert_invalid(constrain);
    }
    for (uint32_t i = 0; i < 4; i++) {
        struct record_constrained *constrained = good_constrained();
        if (i == 0) constrained->verdict = CONSTRAINT_VERDICT_COUNT;
        if (i == 1) constrained->verdict = CONSTRAINT_HOLDS; /* and yet there is a message */
        if (i == 2) constrained->message_bytes = 100;        /* beyond the record */
        if (i == 3) constrained->took_ns = -1;
        assert_invalid(constrained);
    }
    struct record_constrained *silent = records_make(RECORD_CONSTRAINED, NULL);
    assert_true(record_valid(silent, silent->record.bytes));
    silent->verdict = CONSTRAINT_INVALID; /* a refusal says why */
    assert_invalid(silent);
}

TEST(plain_spans_lie_in_the_text) {
    for (uint32_t i = 0; i < 5; i++) {
        struct record_tokenize *tokenize = good_tokenize();
        struct text_span *plain = tokenize_plain(tokenize);
        if (i == 0) plain[1].end = 5;   /* beyond it */
        if (i == 1) plain[1].start = 0; /* not in order */
        if (i == 2) plain[0].end = 0;   /* empty */
        if (i == 3) plain[1].end = 0;   /* backwards */
        if (i == 4) tokenize->plain_count = UINT32_MAX;
        assert_invalid(tokenize);
    }
}
