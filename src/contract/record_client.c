/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/record_client.h"

bool record_client_request_valid(const void *record) {
    const struct record_client_request *request = record;
    return request->method < HTTP_METHOD_COUNT && request->wants_receipt <= 1 &&
           request->listener < HTTP_LISTENER_COUNT && request->body_left <= 1 &&
           request->speaks_anthropic <= 1 &&
           record_name_valid(client_request_name(request), request->name_bytes);
}

static bool record_client_is_name_character(char c) {
    return c == '-' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Bytes of the header at the start of the text, including its line end; 0 if there is none. */
static uint32_t measure_header(const char *text, uint32_t count) {
    uint32_t at = 0;
    while (at < count && record_client_is_name_character(text[at]))
        at++;
    if (at == 0 || count - at < 2 || text[at++] != ':' || text[at++] != ' ') return 0;
    while (at < count && text[at] >= ' ' && text[at] <= '~')
        at++;
    return count - at >= 2 && text[at] == '\r' && text[at + 1] == '\n' ? at + 2 : 0;
}

static bool headers_valid(const char *text, uint32_t count) {
    for (uint32_t taken; count; text += taken, count -= taken)
        if ((taken = measure_header(text, count)) == 0) return false;
    return true;
}

bool record_client_respond_valid(const void *record) {
    const struct record_respond *respond = record;
    return respond->http_status >= 200 && respond->http_status <= 599 &&
           respond->content_type < CONTENT_TYPE_COUNT && respond->allow < 1u << HTTP_OTHER &&
           headers_valid(respond_headers(respond), respond->header_bytes);
}

bool record_client_stream_begin_valid(const void *record) {
    const struct record_stream_begin *begin = record;
    return begin->content_type < CONTENT_TYPE_COUNT &&
           headers_valid(stream_headers(begin), begin->header_bytes);
}

bool record_client_stream_data_valid(const void *record) {
    return ((const struct record_stream_data *)record)->reserved == 0;
}

bool record_client_tokenize_valid(const void *record) {
    const struct record_tokenize *tokenize = record;
    const struct text_span *plain = tokenize_plain(tokenize);
    for (uint32_t i = 0, last = 0; i < tokenize->plain_count; last = plain[i++].end)
        if (plain[i].start < last || plain[i].end <= plain[i].start ||
            plain[i].end > tokenize->text_bytes)
            return false;
    return record_request_valid(tokenize) && tokenize->reserved == 0;
}

bool record_client_tokenized_valid(const void *record) {
    const struct record_tokenized *tokenized = record;
    return record_request_valid(tokenized) &&
           (tokenized->too_many == 0 || tokenized->token_count == 0);
}

bool record_client_constrain_valid(const void *record) {
    const struct record_constrain *constrain = record;
    return record_request_valid(constrain) && constrain->text_bytes > 0 &&
           constrain->text_bytes <= LIMIT_CONSTRAINT_BYTES && constrain->reserved == 0;
}

bool record_client_constrained_valid(const void *record) {
    const struct record_constrained *constrained = record;
    return record_request_valid(constrained) && constrained->took_ns >= 0 &&
           constrained->verdict < CONSTRAINT_VERDICT_COUNT &&
           (constrained->verdict == CONSTRAINT_HOLDS) == (constrained->message_bytes == 0);
}
