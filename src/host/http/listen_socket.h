/* SPDX-License-Identifier: Apache-2.0
 * A TCP socket bound to an address that a person gave on the command line, with the URL under which
 * it is reached. It does not listen yet.
 */
#ifndef HOST_HTTP_LISTEN_SOCKET_H
#define HOST_HTTP_LISTEN_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define LISTEN_URL_BYTES 320

struct sockaddr;

struct listen_socket {
    int file;
    bool is_local;              /* bound to a loopback address: other machines do not reach it */
    char url[LISTEN_URL_BYTES]; /* "http://127.0.0.1:8000", with the port in use */
};

/* `host`: a name or an address; `port` 0: a free one. `shared`: other processes that say so may be
 * bound to the same port, and the kernel deals its connections among those that listen. Errors name the options that would cure them,
 * `host_option` and `port_option` ("--host"). STATUS_INVALID: no such address; STATUS_IO: it cannot
 * be bound. */
enum status listen_socket_open(const char *host, uint32_t port, bool shared,
                               const char *host_option, const char *port_option,
                               struct listen_socket *socket_out, struct error *error) MUST_USE;

/* The address of who connects; IPv4's as IPv4 in IPv6. */
void listen_socket_peer(const struct sockaddr *address, uint8_t peer_out[16]);

#endif
