/* SPDX-License-Identifier: Apache-2.0
 * Freight over MPI, on a communicator of its own. A chunk is larger than what Open MPI sends
 * unasked, so it leaves when the taker is ready, and neither side keeps it anywhere.
 *
 * The rate is a bucket that holds one chunk: what was not used is not saved up for a burst.
 */
#include "compute/exchange/freight.h"

#include "base/check.h"
#include "base/clock.h"
#include "compute/exchange/job.h"

#include <stdlib.h>

enum { TAG_CHUNK, TAG_SUM };

/* A piece on its way. */
struct way {
    int rank;
    char *data;
    size_t bytes, at, chunk; /* bytes that are through; of the chunk under way */
    struct freight_sum sum;
    uint64_t own, others; /* checksums, once all bytes are through */
    bool sums;            /* they are */
    enum freight_state state;
    MPI_Request request;
};

struct freight {
    MPI_Comm comm;
    struct way given, taken;
    double ns_per_byte, room; /* bytes that may go now */
    int64_t filled_ns;        /* when the room was last brought up to date */
    bool damage;
};

enum status freight_open(struct freight **freight_out, struct error *error) {
    struct freight *freight = calloc(1, sizeof *freight);
    if (!freight) return error_set(error, STATUS_NO_MEMORY, "no memory for the freight");
    freight->comm = job_freight();
    freight->given.state = freight->taken.state = FREIGHT_WHOLE;
    *freight_out = freight;
    return STATUS_OK;
}

void freight_close(struct freight *freight) {
    if (!freight) return;
    check(freight->given.state != FREIGHT_UNDER_WAY && freight->taken.state != FREIGHT_UNDER_WAY);
    free(freight);
}

void freight_limit(struct freight *freight, uint64_t bytes_per_second) {
    freight->ns_per_byte = bytes_per_second ? 1e9 / (double)bytes_per_second : 0;
    freight->room = 0;
    freight->filled_ns = clock_now_ns();
}

bool freight_may(struct freight *freight, size_t bytes) {
    if (freight->ns_per_byte == 0) return true;
    int64_t now = clock_now_ns();
    freight->room += (double)(now - freight->filled_ns) / freight->ns_per_byte;
    freight->filled_ns = now;
    if (freight->room > (double)FREIGHT_CHUNK_BYTES) freight->room = (double)FREIGHT_CHUNK_BYTES;
    size_t least = bytes < FREIGHT_CHUNK_BYTES ? bytes : FREIGHT_CHUNK_BYTES;
    if (freight->room < (double)least) return false; /* more is owed, and waited for, afterwards */
    freight->room -= (double)bytes;
    return true;
}

static void begin(struct way *way, uint32_t rank, char *data, size_t bytes) {
    check(way->state != FREIGHT_UNDER_WAY && bytes > 0);
    *way = (struct way){.rank = (int)rank,
                        .data = data,
                        .bytes = bytes,
                        .state = FREIGHT_UNDER_WAY,
                        .request = MPI_REQUEST_NULL};
    freight_sum_begin(&way->sum);
}

static size_t next_chunk(const struct way *way) {
    size_t left = way->bytes - way->at;
    return left < FREIGHT_CHUNK_BYTES ? left : FREIGHT_CHUNK_BYTES;
}

static void take_chunk(struct freight *freight) {
    struct way *way = &freight->taken;
    way->chunk = next_chunk(way);
    MPI_Irecv(way->data + way->at, (int)way->chunk, MPI_BYTE, way->rank, TAG_CHUNK, freight->comm,
              &way->request);
}

void freight_give(struct freight *freight, uint32_t to, const char *data, size_t bytes) {
    begin(&freight->given, to, (char *)(uintptr_t)data, bytes);
}

void freight_take(struct freight *freight, uint32_t from, char *data, size_t bytes) {
    begin(&freight->taken, from, data, bytes);
    take_chunk(freight);
}

static bool is_through(struct way *way) {
    int done;
    MPI_Test(&way->request, &done, MPI_STATUS_IGNORE);
    return done != 0;
}

static void progress_given(struct freight *freight) {
    struct way *way = &freight->given;
    if (way->state != FREIGHT_UNDER_WAY || !is_through(way)) return;
    way->at += way->chunk;
    way->chunk = 0;
    if (way->sums) {
        way->state = FREIGHT_WHOLE;
    } else if (way->at == way->bytes) {
        way->sums = true;
        way->own = freight_sum_end(&way->sum);
        MPI_Isend(&way->own, sizeof way->own, MPI_BYTE, way->rank, TAG_SUM, freight->comm,
                  &way->request);
    } else if (freight_may(freight, next_chunk(way))) {
        way->chunk = next_chunk(way);
        freight_sum_add(&way->sum, way->data + way->at, way->chunk);
        MPI_Isend(way->data + way->at, (int)way->chunk, MPI_BYTE, way->rank, TAG_CHUNK,
                  freight->comm, &way->request);
    }
}

static void progress_taken(struct freight *freight) {
    struct way *way = &freight->taken;
    if (way->state != FREIGHT_UNDER_WAY || !is_through(way)) return;
    if (way->sums) {
        way->own = freight_sum_end(&way->sum);
        way->state = way->own == way->others ? FREIGHT_WHOLE : FREIGHT_DAMAGED;
        return;
    }
    if (freight->damage) way->data[way->at + way->chunk / 2] ^= 1;
    freight->damage = false;
    freight_sum_add(&way->sum, way->data + way->at, way->chunk);
    way->at += way->chunk;
    way->chunk = 0;
    if (way->at < way->bytes) {
        take_chunk(freight);
        return;
    }
    way->sums = true;
    MPI_Irecv(&way->others, sizeof way->others, MPI_BYTE, way->rank, TAG_SUM, freight->comm,
              &way->request);
}

void freight_progress(struct freight *freight) {
    progress_given(freight);
    progress_taken(freight);
}

enum freight_state freight_given(const struct freight *freight) {
    return freight->given.state;
}
enum freight_state freight_taken(const struct freight *freight) {
    return freight->taken.state;
}

uint64_t freight_taken_sum(const struct freight *freight) {
    return freight->taken.own;
}

void freight_damage_next(struct freight *freight) {
    freight->damage = true;
}
