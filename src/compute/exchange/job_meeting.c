/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/exchange/job_meeting.h"

#include "base/check.h"
#include "base/limits.h"

#include <stdlib.h>

struct job_roster {
    uint32_t ranks, come;
    struct bytes *places; /* [ranks] as they lie in a frame; no bytes: not there yet */
    size_t places_bytes;
    char *frame; /* NULL: not all are there */
};

static struct job_frame head_of(struct bytes frame) {
    struct job_frame head;
    memcpy(&head, frame.data, sizeof head);
    return head;
}

static size_t place_bytes(size_t address_bytes) {
    return sizeof(struct job_place) + round_up_8(address_bytes);
}

struct job_frame job_frame_head(enum job_frame_kind kind, uint32_t rank, size_t bytes) {
    check(bytes <= UINT32_MAX);
    return (struct job_frame){JOB_MEETING_MAGIC, (uint32_t)kind, rank, (uint32_t)bytes};
}

bool job_frame_measure(struct bytes got, uint32_t ranks, size_t *bytes_out) {
    *bytes_out = 0;
    if (got.count < sizeof(struct job_frame)) return true;
    const struct job_frame head = head_of(got);
    bool all = head.kind == JOB_FRAME_ROSTER;
    size_t places = all ? ranks : head.kind == JOB_FRAME_HERE;
    if (head.magic != JOB_MEETING_MAGIC) return false;
    if (head.kind < JOB_FRAME_HERE || head.kind > JOB_FRAME_GONE) return false;
    if (all ? head.rank != ranks : head.rank >= ranks) return false;
    if (head.bytes < place_bytes(1) * places || head.bytes > JOB_PLACE_BYTES_MAX * places)
        return false;
    *bytes_out = sizeof head + head.bytes;
    return true;
}

size_t job_frame_here(char frame[static JOB_HERE_BYTES_MAX], uint32_t rank, const char *host,
                      struct bytes address) {
    struct job_place place = {.bytes = (uint32_t)address.count};
    size_t length = strlen(host), bytes = place_bytes(address.count);
    check(length < sizeof place.host && address.count <= JOB_ADDRESS_BYTES_MAX);
    memcpy(place.host, host, length);
    const struct job_frame head = job_frame_head(JOB_FRAME_HERE, rank, bytes);
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
    if (place.bytes == 0 || place.bytes > JOB_ADDRESS_BYTES_MAX || place.reserved) return false;
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
    if (roster) roster->places = calloc(ranks, sizeof *roster->places);
    if (!roster || !roster->places) {
        free(roster);
        return error_set(error, STATUS_NO_MEMORY, "no memory for %u ranks to meet", ranks);
    }
    roster->ranks = ranks;
    *roster_out = roster;
    return STATUS_OK;
}

void job_roster_close(struct job_roster *roster) {
    if (!roster) return;
    for (uint32_t rank = 0; rank < roster->ranks; rank++)
        free((void *)(uintptr_t)roster->places[rank].data);
    free(roster->places);
    free(roster->frame);
    free(roster);
}

bool job_roster_add(struct job_roster *roster, struct bytes here) {
    struct bytes address;
    const char *host;
    size_t bytes, at = 0;
    if (!job_frame_measure(here, roster->ranks, &bytes) || bytes == 0 || bytes != here.count)
        return false;
    const struct job_frame head = head_of(here);
    if (head.kind != JOB_FRAME_HERE || roster->places[head.rank].count) return false;
    if (!job_frame_place(here, &at, &host, &address) || at != here.count) return false;
    char *place = malloc(head.bytes);
    if (!place) return false;
    memcpy(place, here.data + sizeof head, head.bytes);
    roster->places[head.rank] = (struct bytes){place, head.bytes};
    roster->places_bytes += head.bytes;
    roster->come++;
    return true;
}

struct bytes job_roster_frame(struct job_roster *roster) {
    const struct job_frame head =
        job_frame_head(JOB_FRAME_ROSTER, roster->ranks, roster->places_bytes);
    if (roster->come < roster->ranks) return (struct bytes){NULL, 0};
    if (!roster->frame) {
        char *at = roster->frame = malloc(sizeof head + roster->places_bytes);
        check(at); /* at most a few MiB: without it, no rank goes on */
        memcpy(at, &head, sizeof head);
        at += sizeof head;
        for (uint32_t rank = 0; rank < roster->ranks; at += roster->places[rank++].count)
            memcpy(at, roster->places[rank].data, roster->places[rank].count);
    }
    return (struct bytes){roster->frame, sizeof head + roster->places_bytes};
}
