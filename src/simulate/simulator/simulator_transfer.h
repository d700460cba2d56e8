/* SPDX-License-Identifier: Apache-2.0
 * KV blocks in transit between ranks, as the units' records order them. Each rank has one link out
 * and one link in, which transfer one block after the other. A complete block leaves at once.
 * Blocks that a step computes leave layer by layer behind it, so that about one layer's share of
 * the last ones is left when the step ends.
 *
 * A transfer ends once at each side: arrived, or not, because a side cancelled it, died, or was cut
 * off. The module reports times and ends. The caller delivers the records.
 */
#pragma once

#include "base/map.h"
#include "contract/record_kv.h"

struct simulator_place { /* one rank */
    uint32_t unit, rank;
};

enum simulator_side { SIMULATOR_OUT, SIMULATOR_IN, SIMULATOR_SIDES };

struct simulator_transfer {
    uint64_t grant[2];
    struct {
        struct simulator_place place;
        struct request_id request;
        bool open, ending; /* begun and not ended; its end is in transit */
        bool arrived;      /* as its end reports */
        uint64_t stamp;    /* of the event that ends it */
    } sides[SIMULATOR_SIDES];
    int64_t arrive_ns; /* of the bytes that have left so far */
    uint32_t blocks;   /* expected blocks */
    bool taken;
};

struct simulator_nic {
    double ns_each[SIMULATOR_SIDES];   /* per byte */
    int64_t *free_ns[SIMULATOR_SIDES]; /* [rank] when its links are free */
};

struct simulator_transfers {
    struct simulator_transfer *transfers; /* [capacity] */
    uint32_t *free;                       /* [capacity] free_count of them */
    uint32_t capacity, free_count;
    struct map by_grant;
    uint64_t stamps;
    double block_bytes, layers;
    double bytes;               /* total sent */
    struct simulator_nic *nics; /* [unit] */
    int64_t *cut_ns;            /* [unit][unit_count] nothing passes between the two until then */
    uint32_t unit_count;
    int64_t latency_ns, notice_ns; /* notice: the time until a cut is noticed */
    void *context;
    /* Schedules the report of the side's end at that time (simulator_transfer_end). */
    void (*due)(void *context, uint32_t transfer, enum simulator_side side, int64_t due_ns,
                uint64_t stamp);
};

size_t simulator_transfer_bytes(uint32_t capacity);

/* The caller sets the figures, the links and `due`. Returns false if the arena is out of memory. */
bool simulator_transfer_open(struct simulator_transfers *transfers, struct arena *arena,
                             uint32_t capacity);

/* Handles a unit's record. `free`: it takes no time. `step_ns`: the end of the step that computes
 * blocks. */
void simulator_transfer_expect(struct simulator_transfers *transfers, uint32_t unit,
                               const struct record_kv_expect *expect, int64_t now_ns);
void simulator_transfer_push(struct simulator_transfers *transfers, uint32_t unit,
                             const struct record_kv_push *push, bool free, int64_t step_ns,
                             int64_t now_ns);
void simulator_transfer_cancel(struct simulator_transfers *transfers, uint32_t unit,
                               const struct record_kv_cancel *cancel, int64_t now_ns);

/* Ends the transfers of a lost unit at the other side. `after_ns`: the time until the loss is
 * noticed. */
void simulator_transfer_lose(struct simulator_transfers *transfers, uint32_t unit, int64_t after_ns,
                             int64_t now_ns);

/* Cuts two units from each other until then. Transfers under way end without having arrived. */
void simulator_transfer_cut(struct simulator_transfers *transfers, uint32_t unit, uint32_t other,
                            int64_t until_ns, int64_t now_ns);

/* Call it at the time that `due` was given. Returns false if the event is no longer valid;
 * otherwise writes the record to send and its receiver. */
bool simulator_transfer_end(struct simulator_transfers *transfers, uint32_t transfer,
                            enum simulator_side side, uint64_t stamp, uint32_t *unit_out,
                            struct record_kv_done *done_out);

uint32_t simulator_transfer_open_count(const struct simulator_transfers *transfers);
