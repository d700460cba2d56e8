/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/exchange/job_rendezvous.h"

#include "base/check.h"
#include "base/limits.h"

#include <stdlib.h>

struct job_members {
    uint32_t ranks, epoch;
    uint32_t come, gone; /* ranks that have joined this epoch; ranks that are gone */
    bool has_met;        /* MEMBERS was sent once */
    bool is_reported;    /* MEMBERS of this epoch was sent */
    bool has_change;     /* a GONE or BACK that was not sent yet: */
    struct job_frame change;
    struct members_place {
        struct bytes
            place; /* the rank's struct job_address and what follows; no bytes: it has not joined this epoch */
        bool gone;
    } * list; /* [ranks] */
    char *frame;
};

static struct job_frame job_rendezvous_head_of(struct bytes frame) {
    struct job_frame head;
    memcpy(&head, frame.data, sizeof head);
    return head;
}

static size_t place_bytes(size_t address_bytes) {
    return sizeof(struct job_address) + round_up_8(address_bytes);
}

struct job_frame job_rendezvous_frame_head(enum job_frame_kind kind, uint32_t rank, uint32_t epoch,
                                           size_t bytes) {
    check(bytes <= UINT32_MAX);
    return (struct job_frame){JOB_RENDEZVOUS_MAGIC, (uint32_t)kind, rank,
                              (uint32_t)bytes,      epoch,          0};
}

bool job_rendezvous_frame_measure(struct bytes got, uint32_t ranks, size_t *bytes_out) {
    const uint32_t magic = JOB_RENDEZVOUS_MAGIC; /* a wrong frame is detected by its first bytes */
    *bytes_out = 0;
    if (got.count >= sizeof magic && memcmp(got.data, &magic, sizeof magic) != 0) return false;
    if (got.count < sizeof(struct job_frame)) return true;
    const struct job_frame head = job_rendezvous_head_of(got);
    bool all = head.kind == JOB_FRAME_MEMBERS;
    size_t places = all ? ranks : head.kind == JOB_FRAME_JOIN;
    if (head.reserved) return false;
    if (head.kind < JOB_FRAME_JOIN || head.kind > JOB_FRAME_BACK) return false;
    if (all ? head.rank != ranks : head.rank >= ranks) return false;
    if (head.bytes < place_bytes(!all) * places || head.bytes > JOB_PLACE_BYTES_MAX * places)
        return false;
    *bytes_out = sizeof head + head.bytes;
    return true;
}

size_t job_rendezvous_frame_join(char frame[static JOB_JOIN_BYTES_MAX], uint32_t rank,
                                 uint32_t epoch, const char *host, struct bytes address) {
    struct job_address place = {.bytes = (uint32_t)address.count};
    size_t length = strlen(host), bytes = place_bytes(address.count);
    check(length < sizeof place.host && address.count <= JOB_ADDRESS_BYTES_MAX);
    memcpy(place.host, host, length);
    const struct job_frame head = job_rendezvous_frame_head(JOB_FRAME_JOIN, rank, epoch, bytes);
    memset(frame, 0, sizeof head + bytes);
    memcpy(frame, &head, sizeof head);
    memcpy(frame + sizeof head, &place, sizeof place);
    memcpy(frame + sizeof head + sizeof place, address.data, address.count);
    return sizeof head + bytes;
}

bool job_rendezvous_frame_address(struct bytes frame, size_t *at, const char **host_out,
                                  struct bytes *address_out) {
    struct job_address place;
    size_t from = *at ? *at : sizeof(struct job_frame);
    if (frame.count < from || frame.count - from < sizeof place) return false;
    memcpy(&place, frame.data + from, sizeof place);
    if (place.bytes > JOB_ADDRESS_BYTES_MAX || place.reserved) return false;
    if (frame.count - from < place_bytes(place.bytes)) return false;
    if (!memchr(place.host, 0, sizeof place.host)) return false;
    *host_out = frame.data + from;
    *address_out = (struct bytes){frame.data + from + sizeof place, place.bytes};
    *at = from + place_bytes(place.bytes);
    return true;
}

enum status job_rendezvous_members_open(uint32_t ranks, struct job_members **members_out,
                                        struct error *error) {
    struct job_members *members = calloc(1, sizeof *members);
    check(ranks > 0 && ranks <= LIMIT_RANKS);
    if (members) members->list = calloc(ranks, sizeof *members->list);
    if (!members || !members->list) {
        free(members);
        return error_set(error, STATUS_NO_MEMORY, "no memory for %u ranks to meet", ranks);
    }
    members->ranks = ranks;
    *members_out = members;
    return STATUS_OK;
}

static void forget_place(struct members_place *it) {
    free((void *)(uintptr_t)it->place.data);
    it->place = (struct bytes){NULL, 0};
}

void job_rendezvous_members_close(struct job_members *members) {
    if (!members) return;
    for (uint32_t rank = 0; rank < members->ranks; rank++)
        forget_place(&members->list[rank]);
    free(members->list);
    free(members->frame);
    free(members);
}

/* Begins an epoch, which all ranks must join. */
static void begin_epoch(struct job_members *members, enum job_frame_kind kind, uint32_t rank) {
    bool gone = kind == JOB_FRAME_GONE;
    members->list[rank].gone = gone;
    members->gone += gone ? 1 : UINT32_MAX;
    members->epoch++;
    members->come = 0;
    members->is_reported = false;
    for (uint32_t i = 0; i < members->ranks; i++)
        forget_place(&members->list[i]);
    members->change = job_rendezvous_frame_head(kind, rank, members->epoch, 0);
    members->has_change = true;
}

static bool keep_place(struct job_members *members, const struct job_frame *head,
                       const char *from) {
    char *place = malloc(head->bytes);
    if (!place) return false;
    memcpy(place, from, head->bytes);
    members->list[head->rank].place = (struct bytes){place, head->bytes};
    members->come++;
    return true;
}

bool job_rendezvous_members_add(struct job_members *members, struct bytes here) {
    struct bytes address;
    const char *host;
    size_t bytes, at = 0;
    if (!job_rendezvous_frame_measure(here, members->ranks, &bytes) || bytes == 0 ||
        bytes != here.count)
        return false;
    const struct job_frame head = job_rendezvous_head_of(here);
    if (head.kind != JOB_FRAME_JOIN || !job_rendezvous_frame_address(here, &at, &host, &address) ||
        at != here.count || address.count == 0 || head.epoch > members->epoch)
        return false;
    if (members->list[head.rank].gone) {
        if (!members->has_met) return false;
        begin_epoch(members, JOB_FRAME_BACK, head.rank);
        return true; /* it sends JOIN for the new epoch, as the others do */
    }
    if (head.epoch < members->epoch) return true;
    if (members->list[head.rank].place.count) return false;
    return keep_place(members, &head, here.data + sizeof head);
}

void job_rendezvous_members_leave(struct job_members *members, uint32_t rank) {
    check(rank < members->ranks);
    if (!members->list[rank].gone) begin_epoch(members, JOB_FRAME_GONE, rank);
}

static struct bytes make_frame(struct job_members *members) {
    static const struct job_address absent;
    size_t bytes = members->gone * sizeof absent;
    for (uint32_t rank = 0; rank < members->ranks; rank++)
        bytes += members->list[rank].place.count;
    const struct job_frame head =
        job_rendezvous_frame_head(JOB_FRAME_MEMBERS, members->ranks, members->epoch, bytes);
    char *at = members->frame = realloc(members->frame, sizeof head + bytes);
    check(at); /* at most a few MiB */
    memcpy(at, &head, sizeof head);
    at += sizeof head;
    for (uint32_t rank = 0; rank < members->ranks; rank++) {
        struct bytes place = members->list[rank].place;
        if (!place.count) place = (struct bytes){(const char *)&absent, sizeof absent};
        memcpy(at, place.data, place.count);
        at += place.count;
    }
    return (struct bytes){members->frame, sizeof head + bytes};
}

struct bytes job_rendezvous_members_next(struct job_members *members) {
    if (members->has_change) {
        members->has_change = false;
        return (struct bytes){(const char *)&members->change, sizeof members->change};
    }
    bool is_start = !members->has_met && members->gone;
    if (members->is_reported || is_start || members->come + members->gone < members->ranks)
        return (struct bytes){NULL, 0};
    members->is_reported = members->has_met = true;
    return make_frame(members);
}

uint32_t job_rendezvous_members_epoch(const struct job_members *members) {
    return members->epoch;
}

bool job_rendezvous_members_is_alive(const struct job_members *members, uint32_t rank) {
    check(rank < members->ranks);
    return !members->list[rank].gone;
}

bool job_rendezvous_members_has_met(const struct job_members *members) {
    return members->has_met;
}
