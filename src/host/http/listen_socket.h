/* SPDX-License-Identifier: Apache-2.0
 * A TCP socket bound to an address from the command line, with its URL. It does not listen yet.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define LISTEN_URL_BYTES 320

struct sockaddr;

struct listen_socket {
    int file;
    bool is_local;              /* bound to a loopback address: unreachable from other machines */
    char url[LISTEN_URL_BYTES]; /* "http://127.0.0.1:8000", with the port in use */
};

/* `host`: a name or an address; `port` 0: any free port. `shared`: other processes with `shared`
 * may bind the same port, and the kernel distributes connections among them. Error messages suggest
 * the options `host_option` and `port_option` ("--host"). Returns STATUS_INVALID for an invalid
 * address, STATUS_IO if it cannot be bound. */
enum status listen_socket_open(const char *host, uint32_t port, bool shared,
                               const char *host_option, const char *port_option,
                               struct listen_socket *socket_out, struct error *error) MUST_USE;

/* The address of a peer; an IPv4 address is mapped into IPv6. */
void listen_socket_peer(const struct sockaddr *address, uint8_t peer_out[16]);
