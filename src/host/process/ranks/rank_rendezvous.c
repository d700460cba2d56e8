/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/ranks/rank_rendezvous.h"

#include "base/check.h"
#include "compute/exchange/job_rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS_AT_ONCE 64

/* The state of one socket. */
struct rendezvous_place {
    int socket;    /* -1: free */
    uint32_t rank; /* RANK_RENDEZVOUS_ANYONE: unknown yet */
    bool is_here;  /* it has sent its JOIN frame */
    char *in;      /* [JOB_JOIN_BYTES_MAX] */
    size_t in_bytes;
    char *out; /* [out_bytes] not accepted by the socket yet */
    size_t out_bytes;
};

struct rank_rendezvous {
    struct rank_rendezvous_options options;
    struct job_members *members;     /* NULL: the owner has the list */
    struct rendezvous_place *places; /* [options.places] */
    int file;                        /* epoll */
};

enum status rank_rendezvous_open(const struct rank_rendezvous_options *options,
                                 struct rank_rendezvous **rendezvous_out, struct error *error) {
    struct rank_rendezvous *rendezvous = calloc(1, sizeof *rendezvous);
    if (rendezvous) rendezvous->places = calloc(options->places, sizeof *rendezvous->places);
    if (!rendezvous || !rendezvous->places) {
        free(rendezvous);
        return error_set(error, STATUS_NO_MEMORY, "no memory for %u ranks to meet", options->ranks);
    }
    rendezvous->options = *options;
    for (uint32_t i = 0; i < options->places; i++)
        rendezvous->places[i].socket = -1;
    enum status status = STATUS_OK;
    rendezvous->file = epoll_create1(EPOLL_CLOEXEC);
    if (rendezvous->file < 0)
        status = error_set(error, STATUS_IO, "ranks cannot meet: %s", strerror(errno));
    if (!status && !options->here)
        status = job_rendezvous_members_open(options->ranks, &rendezvous->members, error);
    if (status)
        rank_rendezvous_close(rendezvous);
    else
        *rendezvous_out = rendezvous;
    return status;
}

static void rank_rendezvous_free_place(struct rendezvous_place *place) {
    if (place->socket >= 0) close(place->socket); /* this also removes it from epoll */
    free(place->in);
    free(place->out);
    *place = (struct rendezvous_place){.socket = -1};
}

void rank_rendezvous_close(struct rank_rendezvous *rendezvous) {
    if (!rendezvous) return;
    for (uint32_t i = 0; i < rendezvous->options.places; i++)
        rank_rendezvous_free_place(&rendezvous->places[i]);
    if (rendezvous->file >= 0) close(rendezvous->file);
    job_rendezvous_members_close(rendezvous->members);
    free(rendezvous->places);
    free(rendezvous);
}

bool rank_rendezvous_add(struct rank_rendezvous *rendezvous, int socket, uint32_t rank) {
    uint32_t index = 0;
    while (index < rendezvous->options.places && rendezvous->places[index].socket >= 0)
        index++;
    char *in = malloc(JOB_JOIN_BYTES_MAX);
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = index};
    if (index == rendezvous->options.places || !in || fcntl(socket, F_SETFL, O_NONBLOCK) ||
        epoll_ctl(rendezvous->file, EPOLL_CTL_ADD, socket, &event)) {
        free(in);
        close(socket);
        return false;
    }
    rendezvous->places[index] = (struct rendezvous_place){.socket = socket, .rank = rank, .in = in};
    return true;
}

int rank_rendezvous_file(const struct rank_rendezvous *rendezvous) {
    return rendezvous->file;
}

/* ---- frames to ranks ---- */

static void listen_for(const struct rank_rendezvous *rendezvous,
                       const struct rendezvous_place *place, uint32_t events) {
    struct epoll_event event = {.events = events,
                                .data.u32 = (uint32_t)(place - rendezvous->places)};
    check(epoll_ctl(rendezvous->file, EPOLL_CTL_MOD, place->socket, &event) == 0);
}

/* Returns how many bytes the socket accepts. */
static size_t push(const struct rendezvous_place *place, const char *data, size_t bytes) {
    ssize_t sent = send(place->socket, data, bytes, MSG_NOSIGNAL);
    return sent > 0 ? (size_t)sent : 0;
}

static void push_rest(struct rank_rendezvous *rendezvous, struct rendezvous_place *place) {
    size_t sent = push(place, place->out, place->out_bytes);
    place->out_bytes -= sent;
    memmove(place->out, place->out + sent, place->out_bytes);
    if (place->out_bytes == 0) listen_for(rendezvous, place, EPOLLIN);
}

static void rank_rendezvous_report_each(struct rank_rendezvous *rendezvous,
                                        struct rendezvous_place *place, struct bytes frame) {
    size_t sent = place->out_bytes ? 0 : push(place, frame.data, frame.count);
    if (sent == frame.count) return;
    size_t bytes = frame.count - sent;
    place->out = realloc(place->out, place->out_bytes + bytes);
    check(place->out); /* at most the list of members and of dead ranks: a few MiB */
    memcpy(place->out + place->out_bytes, frame.data + sent, bytes);
    place->out_bytes += bytes;
    listen_for(rendezvous, place, EPOLLIN | EPOLLOUT);
}

void rank_rendezvous_report(struct rank_rendezvous *rendezvous, struct bytes frame) {
    for (uint32_t i = 0; i < rendezvous->options.places; i++)
        if (rendezvous->places[i].is_here)
            rank_rendezvous_report_each(rendezvous, &rendezvous->places[i], frame);
}

static void rank_rendezvous_notify_members(struct rank_rendezvous *rendezvous) {
    struct bytes frame;
    while (rendezvous->members && (frame = job_rendezvous_members_next(rendezvous->members)).count)
        rank_rendezvous_report(rendezvous, frame);
}

static void rank_rendezvous_leave_each(struct rank_rendezvous *rendezvous,
                                       struct rendezvous_place *place) {
    uint32_t rank = place->rank;
    bool was_here = place->is_here;
    rank_rendezvous_free_place(place);
    if (rendezvous->members && was_here) job_rendezvous_members_leave(rendezvous->members, rank);
    rank_rendezvous_notify_members(rendezvous);
}

void rank_rendezvous_leave(struct rank_rendezvous *rendezvous, uint32_t rank) {
    for (uint32_t i = 0; i < rendezvous->options.places; i++)
        if (rendezvous->places[i].socket >= 0 && rendezvous->places[i].rank == rank)
            rank_rendezvous_leave_each(rendezvous, &rendezvous->places[i]);
}

/* ---- frames of ranks ---- */

/* A connection without a known rank may join the first rendezvous, but not one after a death. */
static bool may_be(const struct rank_rendezvous *rendezvous, const struct rendezvous_place *place,
                   uint32_t rank) {
    if (place->rank != RANK_RENDEZVOUS_ANYONE) return place->rank == rank;
    for (uint32_t i = 0; i < rendezvous->options.places; i++)
        if (rendezvous->places[i].socket >= 0 && rendezvous->places[i].rank == rank) return false;
    return !rendezvous->members || !job_rendezvous_members_has_met(rendezvous->members);
}

static bool rank_rendezvous_take_join(struct rank_rendezvous *rendezvous,
                                      struct rendezvous_place *place, struct bytes frame) {
    struct job_frame head;
    memcpy(&head, frame.data, sizeof head);
    if (head.kind != JOB_FRAME_JOIN || !may_be(rendezvous, place, head.rank)) return false;
    if (rendezvous->members && !job_rendezvous_members_add(rendezvous->members, frame))
        return false;
    place->rank = head.rank;
    place->is_here = true;
    if (rendezvous->options.here) rendezvous->options.here(rendezvous->options.context, frame);
    rank_rendezvous_notify_members(rendezvous);
    return true;
}

/* Returns false if the rank has ended, or has sent an invalid frame. */
static bool read_place(struct rank_rendezvous *rendezvous, struct rendezvous_place *place) {
    size_t whole, room = JOB_JOIN_BYTES_MAX - place->in_bytes;
    ssize_t got = recv(place->socket, place->in + place->in_bytes, room, 0);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) return false;
    place->in_bytes += (size_t)got;
    for (;;) { /* a rank sends JOIN again if others die meanwhile */
        const struct bytes said = {place->in, place->in_bytes};
        if (!job_rendezvous_frame_measure(said, rendezvous->options.ranks, &whole)) return false;
        if (whole > JOB_JOIN_BYTES_MAX) return false;
        if (whole == 0 || said.count < whole) return true;
        if (!rank_rendezvous_take_join(rendezvous, place, (struct bytes){said.data, whole}))
            return false;
        place->in_bytes -= whole;
        memmove(place->in, place->in + whole, place->in_bytes);
    }
}

void rank_rendezvous_tend(struct rank_rendezvous *rendezvous) {
    struct epoll_event events[EVENTS_AT_ONCE];
    int count = epoll_wait(rendezvous->file, events, EVENTS_AT_ONCE, 0);
    for (int i = 0; i < count; i++) {
        struct rendezvous_place *place = &rendezvous->places[events[i].data.u32];
        if (place->socket < 0) continue;
        if (events[i].events & EPOLLOUT) push_rest(rendezvous, place);
        if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR) && !read_place(rendezvous, place))
            rank_rendezvous_leave_each(rendezvous, place);
    }
}
