/* SPDX-License-Identifier: Apache-2.0 */
#include "host/http/listen_socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static bool is_loopback(const struct sockaddr *address) {
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *four = (const void *)address;
        return ntohl(four->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    }
    const struct sockaddr_in6 *six = (const void *)address;
    return address->sa_family == AF_INET6 && (IN6_IS_ADDR_LOOPBACK(&six->sin6_addr) ||
                                              (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr) &&
                                               six->sin6_addr.s6_addr[12] == IN_LOOPBACKNET));
}

static void note_address(struct listen_socket *bound, const char *host) {
    struct sockaddr_storage address = {0};
    socklen_t address_bytes = sizeof address;
    char port[16] = "0";
    getsockname(bound->file, (struct sockaddr *)&address, &address_bytes);
    getnameinfo((struct sockaddr *)&address, address_bytes, NULL, 0, port, sizeof port,
                NI_NUMERICSERV);
    bool bare_v6 = strchr(host, ':') != NULL;
    snprintf(bound->url, sizeof bound->url, "http://%s%.250s%s:%s", bare_v6 ? "[" : "", host,
             bare_v6 ? "]" : "", port);
    bound->is_local = is_loopback((struct sockaddr *)&address);
}

enum status listen_socket_open(const char *host, uint32_t port, bool shared,
                               const char *host_option, const char *port_option,
                               struct listen_socket *socket_out, struct error *error) {
    struct listen_socket bound = {.file = -1};
    char service[16];
    snprintf(service, sizeof service, "%" PRIu32, port);
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    int failure = getaddrinfo(host, service, &hints, &found);
    if (failure)
        return error_set(error, STATUS_INVALID,
                         "%s %s is not an address of this machine: %s; use 127.0.0.1 for this "
                         "machine only, 0.0.0.0 for all its networks",
                         host_option, host, gai_strerror(failure));
    int saved = 0;
    for (struct addrinfo *at = found; at && bound.file < 0; at = at->ai_next) {
        int on = 1;
        int fd =
            socket(at->ai_family, at->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, at->ai_protocol);
        if (fd >= 0) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (fd >= 0 && shared) setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
        if (fd >= 0 && bind(fd, at->ai_addr, at->ai_addrlen) == 0) {
            bound.file = fd;
        } else {
            saved = errno;
            if (fd >= 0) close(fd);
        }
    }
    freeaddrinfo(found);
    if (bound.file < 0)
        return error_set(error, STATUS_IO,
                         "cannot listen on %s port %" PRIu32 ": %s; choose another with %s and %s "
                         "(port 0 takes a free one)",
                         host, port, strerror(saved), host_option, port_option);
    note_address(&bound, host);
    *socket_out = bound;
    return STATUS_OK;
}

void listen_socket_peer(const struct sockaddr *address, uint8_t peer_out[16]) {
    const struct sockaddr_in6 *six = (const void *)address;
    const struct sockaddr_in *four = (const void *)address;
    memset(peer_out, 0, 16);
    if (address->sa_family == AF_INET6) {
        memcpy(peer_out, &six->sin6_addr, 16);
    } else {
        memset(peer_out + 10, 0xff, 2);
        memcpy(peer_out + 12, &four->sin_addr, 4);
    }
}
