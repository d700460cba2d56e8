/* SPDX-License-Identifier: Apache-2.0
 * From what a connection has read to the record CLIENT_REQUEST, and the client that a request counts
 * for where clients share the server's turns, places and memory.
 */
#ifndef HOST_HTTP_HTTP_REQUEST_H
#define HOST_HTTP_HTTP_REQUEST_H

#include "contract/record_client.h"
#include "host/http/http_message.h"
#include "host/http/request_name.h"

struct http_request {
    const struct http_head *head;
    struct connection_id connection;
    const struct request_name *name;
    struct bytes body;   /* as much of it as was read */
    const uint8_t *peer; /* [16] as CLIENT_REQUEST has it */
    enum http_listener listener;
    bool body_left;
};

/* The caller frees the record. NULL: no memory. */
struct record_client_request *http_request_make(const struct http_request *request);

/* The client: the API key if the gateway knows it, else the peer's network. Never 0. */
uint64_t http_request_client(const struct http_head *head, const uint8_t peer[16],
                             bool key_is_known);

#endif
