/* SPDX-License-Identifier: Apache-2.0 */
#include "host/http/http_request.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/checksum.h"
#include "host/process/connection_eviction.h"

#define KEY_SCHEME "Bearer "

static bool has_bare_key(const struct http_head *head) { /* as Anthropic's clients send it */
    return !head->authorization.data && head->api_key.data;
}

static enum http_method method_of(enum http_verb verb) {
    if (verb == HTTP_VERB_GET || verb == HTTP_VERB_HEAD) return HTTP_GET;
    return verb == HTTP_VERB_POST ? HTTP_POST : HTTP_OTHER;
}

struct record_client_request *http_request_make(const struct http_request *request) {
    const struct http_head *head = request->head;
    bool bare_key = has_bare_key(head);
    struct bytes key = bare_key ? head->api_key : head->authorization;
    size_t scheme_bytes = bare_key ? sizeof KEY_SCHEME - 1 : 0;
    struct record_client_request fixed = {
        .connection = request->connection,
        .unix_time = (int64_t)time(NULL),
        .method = method_of(head->verb),
        .path_bytes = (uint32_t)head->path.count,
        .random = {request->name->random[0], request->name->random[1]},
        .authorization_bytes = (uint32_t)(scheme_bytes + key.count),
        .body_bytes = (uint32_t)request->body.count,
        .wants_receipt = head->wants_receipt,
        .listener = request->listener,
        .body_left = request->body_left,
        .speaks_anthropic = head->speaks_anthropic,
        .name_bytes = (uint32_t)strlen(request->name->text),
    };
    struct record_client_request *record = calloc(1, record_bytes(RECORD_CLIENT_REQUEST, &fixed));
    if (!record) return NULL;
    *record = fixed;
    memcpy(record->peer, request->peer, sizeof record->peer);
    record_set_head(record, RECORD_CLIENT_REQUEST);
    if (head->path.count) memcpy(client_request_path(record), head->path.data, head->path.count);
    memcpy(client_request_authorization(record), KEY_SCHEME, scheme_bytes);
    if (key.data) memcpy(client_request_authorization(record) + scheme_bytes, key.data, key.count);
    if (request->body.count)
        memcpy(client_request_body(record), request->body.data, request->body.count);
    memcpy(client_request_name(record), request->name->text, record->name_bytes);
    return record;
}

/* The key: the text after the authorization scheme. */
static struct bytes http_request_key_of(const struct http_head *head) {
    struct bytes key = has_bare_key(head) ? head->api_key : head->authorization;
    size_t from = key.count;
    while (from && key.data[from - 1] != ' ')
        from--;
    return (struct bytes){key.data + from, key.count - from};
}

uint64_t http_request_client(const struct http_head *head, const uint8_t peer[16],
                             bool key_is_known) {
    uint64_t network = connection_eviction_network(peer, 16);
    struct bytes key = key_is_known ? http_request_key_of(head) : (struct bytes){NULL, 0};
    uint64_t client =
        key.count ? checksum_of(key.data, key.count) : checksum_of(&network, sizeof network);
    return client ? client : 1;
}
