/* SPDX-License-Identifier: Apache-2.0
 * On a lane of its own. A chunk is larger than what UCX sends unasked, so it leaves when the taker is
 * ready, and neither side keeps it anywhere.
 *
 * The rate is a bucket that holds one chunk: what was not used is not saved up for a burst.
 */
#include "compute/exchange/move_transport.h"

#include "base/check.h"
#include "base/clock.h"
#include "compute/exchange/job.h"
#include "compute/exchange/move_checksum.h"

#include <stdlib.h>

enum { TAG_CHUNK, TAG_SUM };

/* A piece on its way. */
struct way {
    uint32_t rank;
    char *data;
    size_t bytes;
    size_t at;    /* bytes that are through */
    size_t chunk; /* bytes of the chunk under way */
    struct move_checksum sum;
    uint64_t own, others; /* checksums, once all bytes are through */
    bool sums;            /* all bytes are through, and the checksum is on its way */
    enum move_state state;
    struct job_batch batch; /* the chunk, or the checksum */
};

struct move_transport {
    struct way given, taken;
    double ns_per_byte; /* 0: as fast as it goes */
    double room;        /* bytes that may go now */
    int64_t filled_ns;  /* when the room was last brought up to date */
    bool damage;
};

enum status move_transport_open(struct move_transport **transport_out, struct error *error) {
    struct move_transport *transport = calloc(1, sizeof *transport);
    if (!transport) return error_set(error, STATUS_NO_MEMORY, "no memory to move experts");
    transport->given.state = transport->taken.state = MOVE_WHOLE;
    *transport_out = transport;
    return STATUS_OK;
}

void move_transport_close(struct move_transport *transport) {
    if (!transport) return;
    check(transport->given.state != MOVE_UNDER_WAY && transport->taken.state != MOVE_UNDER_WAY);
    free(transport);
}

void move_transport_abandon(struct move_transport *transport) {
    check(transport->given.batch.open == 0 && transport->taken.batch.open == 0);
    transport->given = transport->taken = (struct way){.state = MOVE_WHOLE};
}

void move_transport_limit(struct move_transport *transport, uint64_t bytes_per_second) {
    transport->ns_per_byte = bytes_per_second ? 1e9 / (double)bytes_per_second : 0;
    transport->room = 0;
    transport->filled_ns = clock_now_ns();
}

bool move_transport_may(struct move_transport *transport, size_t bytes) {
    if (transport->ns_per_byte == 0) return true;
    int64_t now = clock_now_ns();
    transport->room += (double)(now - transport->filled_ns) / transport->ns_per_byte;
    transport->filled_ns = now;
    if (transport->room > (double)MOVE_CHUNK_BYTES) transport->room = (double)MOVE_CHUNK_BYTES;
    size_t least = bytes < MOVE_CHUNK_BYTES ? bytes : MOVE_CHUNK_BYTES;
    if (transport->room < (double)least)
        return false; /* beyond a chunk, bytes are owed and waited for afterwards */
    transport->room -= (double)bytes;
    return true;
}

static void begin(struct way *way, uint32_t rank, char *data, size_t bytes) {
    check(way->state != MOVE_UNDER_WAY && bytes > 0);
    *way = (struct way){.rank = rank, .data = data, .bytes = bytes, .state = MOVE_UNDER_WAY};
    move_checksum_begin(&way->sum);
}

static size_t move_transport_next_chunk(const struct way *way) {
    size_t left = way->bytes - way->at;
    return left < MOVE_CHUNK_BYTES ? left : MOVE_CHUNK_BYTES;
}

static void move_transport_take_chunk(struct way *way) {
    way->chunk = move_transport_next_chunk(way);
    job_receive_begin(&way->batch, JOB_CHANNEL_MOVES, TAG_CHUNK, way->rank, way->data + way->at,
                      way->chunk);
}

void move_transport_give(struct move_transport *transport, uint32_t to, const char *data,
                         size_t bytes) {
    begin(&transport->given, to, (char *)(uintptr_t)data, bytes);
}

void move_transport_take(struct move_transport *transport, uint32_t from, char *data,
                         size_t bytes) {
    begin(&transport->taken, from, data, bytes);
    move_transport_take_chunk(&transport->taken);
}

static void progress_given(struct move_transport *transport) {
    struct way *way = &transport->given;
    if (way->state != MOVE_UNDER_WAY || !job_done(&way->batch)) return;
    way->at += way->chunk;
    way->chunk = 0;
    if (way->sums) {
        way->state = MOVE_WHOLE;
    } else if (way->at == way->bytes) {
        way->sums = true;
        way->own = move_checksum_end(&way->sum);
        job_send_begin(&way->batch, JOB_CHANNEL_MOVES, TAG_SUM, way->rank, &way->own,
                       sizeof way->own);
    } else if (move_transport_may(transport, move_transport_next_chunk(way))) {
        way->chunk = move_transport_next_chunk(way);
        move_checksum_add(&way->sum, way->data + way->at, way->chunk);
        job_send_begin(&way->batch, JOB_CHANNEL_MOVES, TAG_CHUNK, way->rank, way->data + way->at,
                       way->chunk);
    }
}

static void progress_taken(struct move_transport *transport) {
    struct way *way = &transport->taken;
    if (way->state != MOVE_UNDER_WAY || !job_done(&way->batch)) return;
    if (way->sums) {
        way->own = move_checksum_end(&way->sum);
        way->state = way->own == way->others ? MOVE_WHOLE : MOVE_DAMAGED;
        return;
    }
    if (transport->damage) way->data[way->at + way->chunk / 2] ^= 1;
    transport->damage = false;
    move_checksum_add(&way->sum, way->data + way->at, way->chunk);
    way->at += way->chunk;
    way->chunk = 0;
    if (way->at < way->bytes) {
        move_transport_take_chunk(&transport->taken);
        return;
    }
    way->sums = true;
    job_receive_begin(&way->batch, JOB_CHANNEL_MOVES, TAG_SUM, way->rank, &way->others,
                      sizeof way->others);
}

void move_transport_progress(struct move_transport *transport) {
    progress_given(transport);
    progress_taken(transport);
}

enum move_state move_transport_given(const struct move_transport *transport) {
    return transport->given.state;
}
enum move_state move_transport_taken(const struct move_transport *transport) {
    return transport->taken.state;
}

uint64_t move_transport_taken_sum(const struct move_transport *transport) {
    return transport->taken.own;
}

void move_transport_damage_next(struct move_transport *transport) {
    transport->damage = true;
}
