/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/agent/agent_reach.h"

#include "base/check.h"

#include <errno.h>
#include <event2/event.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TRY_S 3 /* a lost SYN is repeated after one second */

struct attempt {
    struct agent_reach *reach;
    struct attempt *next;
    struct event *event;
    struct agent_reached reported;
    int file;
};

struct agent_reach {
    struct agent_reach_options options;
    struct event *event; /* of the listener */
    struct attempt *attempts;
    int listener; /* -1: none */
    uint32_t port;
};

/* Returns false if the address is not numeric. */
static bool read_address(const char *address, uint32_t port, struct sockaddr_storage *at_out,
                         socklen_t *bytes_out) {
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
                                   .ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    char service[16];
    snprintf(service, sizeof service, "%u", port);
    if (getaddrinfo(address, service, &hints, &found)) return false;
    memcpy(at_out, found->ai_addr, found->ai_addrlen);
    *bytes_out = found->ai_addrlen;
    freeaddrinfo(found);
    return true;
}

struct agent_reach *agent_reach_open(const struct agent_reach_options *options) {
    struct agent_reach *reach = calloc(1, sizeof *reach);
    if (!reach) return NULL;
    reach->options = *options;
    reach->listener = -1;
    return reach;
}

/* ---- listening ---- */

/* Closes a connection at once: it has shown that the port is reachable. */
static void on_come(int file, short what, void *context) {
    int come = accept4(file, NULL, NULL, SOCK_CLOEXEC);
    if (come >= 0) close(come);
}

uint32_t agent_reach_listen(struct agent_reach *reach, const char *address) {
    struct sockaddr_storage at;
    socklen_t bytes;
    if (reach->port || !read_address(address, 0, &at, &bytes)) return reach->port;
    int file = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool listens = file >= 0 && bind(file, (struct sockaddr *)&at, bytes) == 0 &&
                   listen(file, SOMAXCONN) == 0 &&
                   getsockname(file, (struct sockaddr *)&at, &bytes) == 0;
    if (!listens) {
        if (file >= 0) close(file);
        return 0;
    }
    reach->listener = file;
    reach->event = event_new(reach->options.base, file, EV_READ | EV_PERSIST, on_come, reach);
    check(reach->event);
    event_add(reach->event, NULL);
    reach->port = ntohs(at.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)(void *)&at)->sin6_port
                                                 : ((struct sockaddr_in *)(void *)&at)->sin_port);
    return reach->port;
}

/* ---- trying ---- */

static void agent_reach_drop(struct attempt *attempt) {
    struct attempt **at = &attempt->reach->attempts;
    while (*at != attempt)
        at = &(*at)->next;
    *at = attempt->next;
    event_free(attempt->event);
    if (attempt->file >= 0) close(attempt->file);
    free(attempt);
}

static void on_tried(int file, short what, void *context) {
    struct attempt *attempt = context;
    struct agent_reach *reach = attempt->reach;
    struct agent_reached reported = attempt->reported;
    socklen_t bytes = sizeof reported.error;
    if (!reported.error && what & EV_TIMEOUT)
        reported.error = ETIMEDOUT;
    else if (!reported.error && getsockopt(file, SOL_SOCKET, SO_ERROR, &reported.error, &bytes))
        reported.error = errno;
    agent_reach_drop(attempt);
    reach->options.tried(reach->options.context, &reported);
}

/* Starts an attempt. Returns 0 if it is under way, or else an errno. */
static int begin(struct attempt *attempt, const struct agent_place *place) {
    struct sockaddr_storage at;
    socklen_t bytes;
    if (!read_address(place->address, place->port, &at, &bytes)) return EADDRNOTAVAIL;
    attempt->file = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (attempt->file < 0) return errno;
    if (connect(attempt->file, (struct sockaddr *)&at, bytes) && errno != EINPROGRESS) return errno;
    return 0;
}

void agent_reach_try(struct agent_reach *reach, const struct agent_place *place) {
    struct attempt *attempt = calloc(1, sizeof *attempt);
    check(attempt);
    *attempt = (struct attempt){.reach = reach,
                                .next = reach->attempts,
                                .reported = {place->host, place->round, 0, 0},
                                .file = -1};
    reach->attempts = attempt;
    attempt->reported.error = begin(attempt, place);
    bool over = attempt->reported.error != 0; /* it is reported by the loop in any case */
    attempt->event = event_new(reach->options.base, over ? -1 : attempt->file, over ? 0 : EV_WRITE,
                               on_tried, attempt);
    check(attempt->event);
    event_add(attempt->event, &(struct timeval){.tv_sec = over ? 0 : TRY_S});
}

void agent_reach_close(struct agent_reach *reach) {
    if (!reach) return;
    while (reach->attempts)
        agent_reach_drop(reach->attempts);
    if (reach->event) event_free(reach->event);
    if (reach->listener >= 0) close(reach->listener);
    free(reach);
}
