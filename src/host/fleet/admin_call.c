/* SPDX-License-Identifier: Apache-2.0 */
#include "host/fleet/admin_call.h"

#include <stdlib.h>
#include <string.h>

#include "host/http/http_client.h"

#define STALL_MS_MAX 3000
#define ANSWER_BYTES_MAX ((size_t)16 << 20)

struct admin_call {
    struct http_client *client;
    char *answer;
    size_t bytes, room;
    uint32_t http_status;
    enum http_end end;
    bool ended;
};

static void admin_call_on_head(void *context, uint32_t connection, uint32_t http_status) {
    struct admin_call *call = context;
    call->http_status = http_status;
}

/* Drops data beyond the limit; the response then counts as too large. */
static void admin_call_on_data(void *context, uint32_t connection, struct bytes data) {
    struct admin_call *call = context;
    size_t wanted = call->bytes + data.count + 1;
    if (wanted > call->room && wanted <= ANSWER_BYTES_MAX) {
        char *larger = realloc(call->answer, 2 * wanted);
        if (larger) {
            call->answer = larger;
            call->room = 2 * wanted;
        }
    }
    if (wanted <= call->room) memcpy(call->answer + call->bytes, data.data, data.count);
    call->bytes += data.count;
}

static void admin_call_on_end(void *context, uint32_t connection, enum http_end end) {
    struct admin_call *call = context;
    call->end = end;
    call->ended = true;
    http_client_stop(call->client);
}

enum status admin_call_open(const char *url, struct admin_call **call_out, struct error *error) {
    struct admin_call *call = calloc(1, sizeof *call);
    if (!call) return error_set(error, STATUS_NO_MEMORY, "no memory for a gateway's client");
    struct http_client_options options = {.url = url,
                                          .connections_max = 1,
                                          .stall_ms_max = STALL_MS_MAX,
                                          .head = admin_call_on_head,
                                          .data = admin_call_on_data,
                                          .end = admin_call_on_end,
                                          .context = call};
    enum status status = http_client_open(&options, &call->client, error);
    if (status) {
        free(call);
        return status;
    }
    *call_out = call;
    return STATUS_OK;
}

void admin_call_close(struct admin_call *call) {
    if (!call) return;
    http_client_close(call->client);
    free(call->answer);
    free(call);
}

enum status admin_call_ask(struct admin_call *call, const char *path, const char *body,
                           struct bytes *answer_out, struct error *error) {
    const char *name = http_client_name(call->client);
    struct bytes sent = body ? bytes_of(body) : (struct bytes){NULL, 0};
    call->bytes = 0;
    call->http_status = 0;
    call->ended = false;
    enum status status = http_client_send(call->client, 0, path, sent);
    if (status) return error_set(error, status, "%.200s: no memory for a request", name);
    /* the connection may already have been refused */
    if (!call->ended) http_client_run(call->client);
    if (call->end == HTTP_END_NO_CONNECTION)
        return error_set(error, STATUS_GONE, "%.200s: no gateway listens there", name);
    if (call->end != HTTP_END_WHOLE)
        return error_set(error, STATUS_IO, "%.200s%s: the response is incomplete", name, path);
    if (call->bytes >= call->room && call->bytes > 0)
        return error_set(error, STATUS_TOO_LARGE, "%.200s%s: the response is too large", name,
                         path);
    if (call->http_status != 200)
        return error_set(error, STATUS_INVALID, "%.200s%s: status %u", name, path,
                         call->http_status);
    *answer_out = (struct bytes){call->answer, call->bytes};
    return STATUS_OK;
}
