/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/rank_meeting.h"

#include "base/check.h"
#include "compute/exchange/job_meeting.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS_AT_ONCE 64

/* A socket's. */
struct meeting_place {
    int socket;    /* -1: free */
    uint32_t rank; /* RANK_MEETING_ANYONE: not said yet */
    bool is_here;  /* it has said its HERE */
    char *in;      /* [JOB_HERE_BYTES_MAX] */
    size_t in_bytes;
    char *out; /* [out_bytes] that the socket did not take yet */
    size_t out_bytes;
};

struct rank_meeting {
    struct rank_meeting_options options;
    struct job_roster *roster;    /* NULL: its owner keeps it */
    struct meeting_place *places; /* [options.places] */
    int file;                     /* epoll */
};

enum status rank_meeting_open(const struct rank_meeting_options *options,
                              struct rank_meeting **meeting_out, struct error *error) {
    struct rank_meeting *meeting = calloc(1, sizeof *meeting);
    if (meeting) meeting->places = calloc(options->places, sizeof *meeting->places);
    if (!meeting || !meeting->places) {
        free(meeting);
        return error_set(error, STATUS_NO_MEMORY, "no memory for %u ranks to meet", options->ranks);
    }
    meeting->options = *options;
    for (uint32_t i = 0; i < options->places; i++)
        meeting->places[i].socket = -1;
    enum status status = STATUS_OK;
    meeting->file = epoll_create1(EPOLL_CLOEXEC);
    if (meeting->file < 0)
        status = error_set(error, STATUS_IO, "ranks cannot meet: %s", strerror(errno));
    if (!status && !options->here)
        status = job_roster_open(options->ranks, &meeting->roster, error);
    if (status)
        rank_meeting_close(meeting);
    else
        *meeting_out = meeting;
    return status;
}

static void free_place(struct meeting_place *place) {
    if (place->socket >= 0) close(place->socket); /* and out of what is listened to */
    free(place->in);
    free(place->out);
    *place = (struct meeting_place){.socket = -1};
}

void rank_meeting_close(struct rank_meeting *meeting) {
    if (!meeting) return;
    for (uint32_t i = 0; i < meeting->options.places; i++)
        free_place(&meeting->places[i]);
    if (meeting->file >= 0) close(meeting->file);
    job_roster_close(meeting->roster);
    free(meeting->places);
    free(meeting);
}

bool rank_meeting_add(struct rank_meeting *meeting, int socket, uint32_t rank) {
    uint32_t index = 0;
    while (index < meeting->options.places && meeting->places[index].socket >= 0)
        index++;
    char *in = malloc(JOB_HERE_BYTES_MAX);
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = index};
    if (index == meeting->options.places || !in || fcntl(socket, F_SETFL, O_NONBLOCK) ||
        epoll_ctl(meeting->file, EPOLL_CTL_ADD, socket, &event)) {
        free(in);
        close(socket);
        return false;
    }
    meeting->places[index] = (struct meeting_place){.socket = socket, .rank = rank, .in = in};
    return true;
}

int rank_meeting_file(const struct rank_meeting *meeting) {
    return meeting->file;
}

/* ---- what is said to ranks ---- */

static void listen_for(const struct rank_meeting *meeting, const struct meeting_place *place,
                       uint32_t events) {
    struct epoll_event event = {.events = events, .data.u32 = (uint32_t)(place - meeting->places)};
    check(epoll_ctl(meeting->file, EPOLL_CTL_MOD, place->socket, &event) == 0);
}

/* How much of it the socket takes. */
static size_t push(const struct meeting_place *place, const char *data, size_t bytes) {
    ssize_t sent = send(place->socket, data, bytes, MSG_NOSIGNAL);
    return sent > 0 ? (size_t)sent : 0;
}

static void push_rest(struct rank_meeting *meeting, struct meeting_place *place) {
    size_t sent = push(place, place->out, place->out_bytes);
    place->out_bytes -= sent;
    memmove(place->out, place->out + sent, place->out_bytes);
    if (place->out_bytes == 0) listen_for(meeting, place, EPOLLIN);
}

static void tell(struct rank_meeting *meeting, struct meeting_place *place, struct bytes frame) {
    size_t sent = place->out_bytes ? 0 : push(place, frame.data, frame.count);
    if (sent == frame.count) return;
    size_t bytes = frame.count - sent;
    place->out = realloc(place->out, place->out_bytes + bytes);
    check(place->out); /* a roster, at most, and who is gone: a few MiB */
    memcpy(place->out + place->out_bytes, frame.data + sent, bytes);
    place->out_bytes += bytes;
    listen_for(meeting, place, EPOLLIN | EPOLLOUT);
}

void rank_meeting_tell(struct rank_meeting *meeting, struct bytes frame) {
    for (uint32_t i = 0; i < meeting->options.places; i++)
        if (meeting->places[i].is_here) tell(meeting, &meeting->places[i], frame);
}

static void tell_roster(struct rank_meeting *meeting) {
    struct bytes frame;
    while (meeting->roster && (frame = job_roster_next(meeting->roster)).count)
        rank_meeting_tell(meeting, frame);
}

static void leave(struct rank_meeting *meeting, struct meeting_place *place) {
    uint32_t rank = place->rank;
    bool was_here = place->is_here;
    free_place(place);
    if (meeting->roster && was_here) job_roster_leave(meeting->roster, rank);
    tell_roster(meeting);
}

void rank_meeting_leave(struct rank_meeting *meeting, uint32_t rank) {
    for (uint32_t i = 0; i < meeting->options.places; i++)
        if (meeting->places[i].socket >= 0 && meeting->places[i].rank == rank)
            leave(meeting, &meeting->places[i]);
}

/* ---- what ranks say ---- */

/* A process that only claims to be a rank is accepted at the first meeting, not after a death. */
static bool may_be(const struct rank_meeting *meeting, const struct meeting_place *place,
                   uint32_t rank) {
    if (place->rank != RANK_MEETING_ANYONE) return place->rank == rank;
    for (uint32_t i = 0; i < meeting->options.places; i++)
        if (meeting->places[i].socket >= 0 && meeting->places[i].rank == rank) return false;
    return !meeting->roster || !job_roster_has_met(meeting->roster);
}

static bool take_here(struct rank_meeting *meeting, struct meeting_place *place,
                      struct bytes frame) {
    struct job_frame head;
    memcpy(&head, frame.data, sizeof head);
    if (head.kind != JOB_FRAME_HERE || !may_be(meeting, place, head.rank)) return false;
    if (meeting->roster && !job_roster_add(meeting->roster, frame)) return false;
    place->rank = head.rank;
    place->is_here = true;
    if (meeting->options.here) meeting->options.here(meeting->options.context, frame);
    tell_roster(meeting);
    return true;
}

/* False: the rank has ended, or says what makes no sense. */
static bool read_place(struct rank_meeting *meeting, struct meeting_place *place) {
    size_t whole, room = JOB_HERE_BYTES_MAX - place->in_bytes;
    ssize_t got = recv(place->socket, place->in + place->in_bytes, room, 0);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) return false;
    place->in_bytes += (size_t)got;
    for (;;) { /* a rank says HERE again when others die meanwhile */
        const struct bytes said = {place->in, place->in_bytes};
        if (!job_frame_measure(said, meeting->options.ranks, &whole)) return false;
        if (whole > JOB_HERE_BYTES_MAX) return false;
        if (whole == 0 || said.count < whole) return true;
        if (!take_here(meeting, place, (struct bytes){said.data, whole})) return false;
        place->in_bytes -= whole;
        memmove(place->in, place->in + whole, place->in_bytes);
    }
}

void rank_meeting_tend(struct rank_meeting *meeting) {
    struct epoll_event events[EVENTS_AT_ONCE];
    int count = epoll_wait(meeting->file, events, EVENTS_AT_ONCE, 0);
    for (int i = 0; i < count; i++) {
        struct meeting_place *place = &meeting->places[events[i].data.u32];
        if (place->socket < 0) continue;
        if (events[i].events & EPOLLOUT) push_rest(meeting, place);
        if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR) && !read_place(meeting, place))
            leave(meeting, place);
    }
}
