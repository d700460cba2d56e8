/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/exchange/job_rendezvous.h"

#include "base/check.h"
#include "base/rank_epochs.h"

#include <stdlib.h>

struct job_members {
    struct rank_epochs epochs;
    struct job_frame change; /* GONE or BACK, while it is sent */
    /* [ranks] of a rank that has joined the epoch: its struct job_address and what follows */
    struct bytes *places;
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
    if (members) members->places = calloc(ranks, sizeof *members->places);
    if (!members || !members->places) {
        free(members);
        return error_set(error, STATUS_NO_MEMORY, "no memory for %u ranks to meet", ranks);
    }
    rank_epochs_open(&members->epochs, ranks);
    *members_out = members;
    return STATUS_OK;
}

/* Forgets the addresses of an epoch. */
static void forget_places(struct job_members *members) {
    for (uint32_t rank = 0; rank < members->epochs.ranks; rank++) {
        free((void *)(uintptr_t)members->places[rank].data);
        members->places[rank] = (struct bytes){NULL, 0};
    }
}

void job_rendezvous_members_close(struct job_members *members) {
    if (!members) return;
    forget_places(members);
    free(members->places);
    free(members->frame);
    free(members);
}

bool job_rendezvous_members_add(struct job_members *members, struct bytes here) {
    struct bytes address;
    const char *host;
    size_t bytes, at = 0;
    if (!job_rendezvous_frame_measure(here, members->epochs.ranks, &bytes) || bytes == 0 ||
        bytes != here.count)
        return false;
    const struct job_frame head = job_rendezvous_head_of(here);
    if (head.kind != JOB_FRAME_JOIN || !job_rendezvous_frame_address(here, &at, &host, &address) ||
        at != here.count || address.count == 0)
        return false;
    enum rank_epochs_join joined = rank_epochs_join(&members->epochs, head.rank, head.epoch);
    if (joined == RANK_EPOCHS_RETURNED) forget_places(members);
    if (joined != RANK_EPOCHS_JOINED) return joined != RANK_EPOCHS_REFUSED;
    char *place = malloc(head.bytes);
    check(place); /* some kilobytes */
    memcpy(place, here.data + sizeof head, head.bytes);
    members->places[head.rank] = (struct bytes){place, head.bytes};
    return true;
}

void job_rendezvous_members_leave(struct job_members *members, uint32_t rank) {
    if (rank_epochs_leave(&members->epochs, rank)) forget_places(members);
}

static struct bytes make_frame(struct job_members *members) {
    static const struct job_address absent;
    const uint32_t ranks = members->epochs.ranks;
    size_t bytes = members->epochs.gone_count * sizeof absent;
    for (uint32_t rank = 0; rank < ranks; rank++)
        bytes += members->places[rank].count;
    const struct job_frame head =
        job_rendezvous_frame_head(JOB_FRAME_MEMBERS, ranks, members->epochs.epoch, bytes);
    char *at = members->frame = realloc(members->frame, sizeof head + bytes);
    check(at); /* at most a few MiB */
    memcpy(at, &head, sizeof head);
    at += sizeof head;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        struct bytes place = members->places[rank];
        if (!place.count) place = (struct bytes){(const char *)&absent, sizeof absent};
        memcpy(at, place.data, place.count);
        at += place.count;
    }
    return (struct bytes){members->frame, sizeof head + bytes};
}

struct bytes job_rendezvous_members_next(struct job_members *members) {
    uint32_t rank;
    enum rank_epochs_message message = rank_epochs_next(&members->epochs, &rank);
    if (message == RANK_EPOCHS_NONE) return (struct bytes){NULL, 0};
    if (message == RANK_EPOCHS_MET) return make_frame(members);
    members->change =
        job_rendezvous_frame_head(message == RANK_EPOCHS_GONE ? JOB_FRAME_GONE : JOB_FRAME_BACK,
                                  rank, members->epochs.epoch, 0);
    return (struct bytes){(const char *)&members->change, sizeof members->change};
}

uint32_t job_rendezvous_members_epoch(const struct job_members *members) {
    return members->epochs.epoch;
}

bool job_rendezvous_members_is_alive(const struct job_members *members, uint32_t rank) {
    check(rank < members->epochs.ranks);
    return !members->epochs.gone[rank];
}

bool job_rendezvous_members_has_met(const struct job_members *members) {
    return members->epochs.has_met;
}
