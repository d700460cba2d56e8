/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/exchange/job_meeting.h"

#include "base/check.h"
#include "base/limits.h"

#include <stdlib.h>

struct job_roster {
    uint32_t ranks, epoch;
    uint32_t come, gone; /* ranks that have said where they are in this epoch; that do not live */
    bool has_met;        /* a roster was told */
    bool is_told;        /* it is this epoch's */
    bool has_change;     /* a frame that was not told yet: */
    struct job_frame change;
    struct roster_place {
        struct bytes place; /* as it lies in a frame; no bytes: not there yet in this epoch */
        bool gone;
    } * list; /* [ranks] */
    char *frame;
};

static struct job_frame head_of(struct bytes frame) {
    struct job_frame head;
    memcpy(&head, frame.data, sizeof head);
    return head;
}

static size_t place_bytes(size_t address_bytes) {
    return sizeof(struct job_place) + round_up_8(address_bytes);
}

struct job_frame job_frame_head(enum job_frame_kind kind, uint32_t rank, uint32_t epoch,
                                size_t bytes) {
    check(bytes <= UINT32_MAX);
    return (struct job_frame){JOB_MEETING_MAGIC, (uint32_t)kind, rank, (uint32_t)bytes, epoch, 0};
}

bool job_frame_measure(struct bytes got, uint32_t ranks, size_t *bytes_out) {
    const uint32_t magic = JOB_MEETING_MAGIC; /* nonsense is seen by its first bytes */
    *bytes_out = 0;
    if (got.count >= sizeof magic && memcmp(got.data, &magic, sizeof magic) != 0) return false;
    if (got.count < sizeof(struct job_frame)) return true;
    const struct job_frame head = head_of(got);
    bool all = head.kind == JOB_FRAME_ROSTER;
    size_t places = all ? ranks : head.kind == JOB_FRAME_HERE;
    if (head.reserved) return false;
    if (head.kind < JOB_FRAME_HERE || head.kind > JOB_FRAME_BACK) return false;
    if (all ? head.rank != ranks : head.rank >= ranks) return false;
    if (head.bytes < place_bytes(!all) * places || head.bytes > JOB_PLACE_BYTES_MAX * places)
        return false;
    *bytes_out = sizeof head + head.bytes;
    return true;
}

size_t job_frame_here(char frame[static JOB_HERE_BYTES_MAX], uint32_t rank, uint32_t epoch,
                      const char *host, struct bytes address) {
    struct job_place place = {.bytes = (uint32_t)address.count};
    size_t length = strlen(host), bytes = place_bytes(address.count);
    check(length < sizeof place.host && address.count <= JOB_ADDRESS_BYTES_MAX);
    memcpy(place.host, host, length);
    const struct job_frame head = job_frame_head(JOB_FRAME_HERE, rank, epoch, bytes);
    memset(frame, 0, sizeof head + bytes);
    memcpy(frame, &head, sizeof head);
    memcpy(frame + sizeof head, &place, sizeof place);
    memcpy(frame + sizeof head + sizeof place, address.data, address.count);
    return sizeof head + bytes;
}

bool job_frame_place(struct bytes frame, size_t *at, const char **host_out,
                     struct bytes *address_out) {
    struct job_place place;
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

enum status job_roster_open(uint32_t ranks, struct job_roster **roster_out, struct error *error) {
    struct job_roster *roster = calloc(1, sizeof *roster);
    check(ranks > 0 && ranks <= LIMIT_RANKS);
    if (roster) roster->list = calloc(ranks, sizeof *roster->list);
    if (!roster || !roster->list) {
        free(roster);
        return error_set(error, STATUS_NO_MEMORY, "no memory for %u ranks to meet", ranks);
    }
    roster->ranks = ranks;
    *roster_out = roster;
    return STATUS_OK;
}

static void forget_place(struct roster_place *it) {
    free((void *)(uintptr_t)it->place.data);
    it->place = (struct bytes){NULL, 0};
}

void job_roster_close(struct job_roster *roster) {
    if (!roster) return;
    for (uint32_t rank = 0; rank < roster->ranks; rank++)
        forget_place(&roster->list[rank]);
    free(roster->list);
    free(roster->frame);
    free(roster);
}

/* Everybody comes anew. */
static void begin_epoch(struct job_roster *roster, enum job_frame_kind kind, uint32_t rank) {
    bool gone = kind == JOB_FRAME_GONE;
    roster->list[rank].gone = gone;
    roster->gone += gone ? 1 : UINT32_MAX;
    roster->epoch++;
    roster->come = 0;
    roster->is_told = false;
    for (uint32_t i = 0; i < roster->ranks; i++)
        forget_place(&roster->list[i]);
    roster->change = job_frame_head(kind, rank, roster->epoch, 0);
    roster->has_change = true;
}

static bool keep_place(struct job_roster *roster, const struct job_frame *head, const char *from) {
    char *place = malloc(head->bytes);
    if (!place) return false;
    memcpy(place, from, head->bytes);
    roster->list[head->rank].place = (struct bytes){place, head->bytes};
    roster->come++;
    return true;
}

bool job_roster_add(struct job_roster *roster, struct bytes here) {
    struct bytes address;
    const char *host;
    size_t bytes, at = 0;
    if (!job_frame_measure(here, roster->ranks, &bytes) || bytes == 0 || bytes != here.count)
        return false;
    const struct job_frame head = head_of(here);
    if (head.kind != JOB_FRAME_HERE || !job_frame_place(here, &at, &host, &address) ||
        at != here.count || address.count == 0 || head.epoch > roster->epoch)
        return false;
    if (roster->list[head.rank].gone) {
        if (!roster->has_met) return false;
        begin_epoch(roster, JOB_FRAME_BACK, head.rank);
        return true; /* it says HERE for this epoch, as the others do */
    }
    if (head.epoch < roster->epoch) return true;
    if (roster->list[head.rank].place.count) return false;
    return keep_place(roster, &head, here.data + sizeof head);
}

void job_roster_leave(struct job_roster *roster, uint32_t rank) {
    check(rank < roster->ranks);
    if (!roster->list[rank].gone) begin_epoch(roster, JOB_FRAME_GONE, rank);
}

static struct bytes make_frame(struct job_roster *roster) {
    static const struct job_place nobody;
    size_t bytes = roster->gone * sizeof nobody;
    for (uint32_t rank = 0; rank < roster->ranks; rank++)
        bytes += roster->list[rank].place.count;
    const struct job_frame head =
        job_frame_head(JOB_FRAME_ROSTER, roster->ranks, roster->epoch, bytes);
    char *at = roster->frame = realloc(roster->frame, sizeof head + bytes);
    check(at); /* at most a few MiB: without it, no rank goes on */
    memcpy(at, &head, sizeof head);
    at += sizeof head;
    for (uint32_t rank = 0; rank < roster->ranks; rank++) {
        struct bytes place = roster->list[rank].place;
        if (!place.count) place = (struct bytes){(const char *)&nobody, sizeof nobody};
        memcpy(at, place.data, place.count);
        at += place.count;
    }
    return (struct bytes){roster->frame, sizeof head + bytes};
}

struct bytes job_roster_next(struct job_roster *roster) {
    if (roster->has_change) {
        roster->has_change = false;
        return (struct bytes){(const char *)&roster->change, sizeof roster->change};
    }
    bool is_start = !roster->has_met && roster->gone;
    if (roster->is_told || is_start || roster->come + roster->gone < roster->ranks)
        return (struct bytes){NULL, 0};
    roster->is_told = roster->has_met = true;
    return make_frame(roster);
}

uint32_t job_roster_epoch(const struct job_roster *roster) {
    return roster->epoch;
}

bool job_roster_lives(const struct job_roster *roster, uint32_t rank) {
    check(rank < roster->ranks);
    return !roster->list[rank].gone;
}

bool job_roster_has_met(const struct job_roster *roster) {
    return roster->has_met;
}
