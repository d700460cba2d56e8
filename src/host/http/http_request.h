/* SPDX-License-Identifier: Apache-2.0
 * Converts the data that a connection has read to the record CLIENT_REQUEST, and identifies the
 * client that shares the server's turns, slots and memory.
 */
#pragma once

#include "contract/record_client.h"
#include "host/http/http_message.h"
#include "host/http/request_name.h"

struct http_request {
    const struct http_head *head;
    struct connection_id connection;
    const struct request_name *name;
    struct bytes body;   /* the part that was read */
    const uint8_t *peer; /* [16] as in CLIENT_REQUEST */
    enum http_listener listener;
    bool body_left;
};

/* The caller frees the record. NULL if memory is out. */
struct record_client_request *http_request_make(const struct http_request *request);

/* The client: a hash of the API key if the gateway has that key, else of the peer's network. Never
 * 0. */
uint64_t http_request_client(const struct http_head *head, const uint8_t peer[16],
                             bool key_is_known);
