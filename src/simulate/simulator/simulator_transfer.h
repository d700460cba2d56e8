/* SPDX-License-Identifier: Apache-2.0
 * Transfers of KV blocks between ranks, as ordered by the records of units. Each rank has an
 * outgoing and an incoming link. A link transfers one block after the other. A complete
 * block leaves at once. Blocks that a step computes leave layer by layer during it, so that about
 * one layer of the last blocks is left when the step ends.
 *
 * A transfer ends once at each side: as arrived, or as failed because a side cancelled it, died, or
 * was cut off. The module computes times and ends. The caller delivers the records.
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
        bool open, ending; /* open: it has begun and not ended; ending: its end is in transit */
        bool arrived;      /* as reported by its end */
        uint64_t stamp;    /* of the event that ends it */
    } sides[SIMULATOR_SIDES];
    int64_t arrive_ns; /* arrival of the bytes that have left so far */
    uint32_t blocks;   /* number of expected blocks */
    bool taken;
};

struct simulator_nic {
    double ns_each[SIMULATOR_SIDES];   /* time per byte */
    int64_t *free_ns[SIMULATOR_SIDES]; /* [rank] when the link is free */
};

struct simulator_transfers {
    struct simulator_transfer *transfers; /* [capacity] */
    uint32_t *free;                       /* [capacity], free_count used */
    uint32_t capacity, free_count;
    struct map by_grant;
    uint64_t stamps;
    double block_bytes, layers;
    double bytes;               /* sent so far */
    struct simulator_nic *nics; /* [unit] */
    int64_t *cut_ns;            /* [unit][unit_count] the two are cut from each other until then */
    uint32_t unit_count;
    int64_t latency_ns, notice_ns; /* notice_ns: time until a cut is noticed */
    void *context;
    /* Schedules the report of the end at one side (simulator_transfer_end). */
    void (*due)(void *context, uint32_t transfer, enum simulator_side side, int64_t due_ns,
                uint64_t stamp);
};

size_t simulator_transfer_bytes(uint32_t capacity);

/* Afterwards the caller sets the figures, the links and `due`. Returns false if the arena is out of
 * memory. */
bool simulator_transfer_open(struct simulator_transfers *transfers, struct arena *arena,
                             uint32_t capacity);

/* Handle the records of a unit. With `free`, a push takes no time. `step_ns` is the end of the step
 * that computes blocks. */
void simulator_transfer_expect(struct simulator_transfers *transfers, uint32_t unit,
                               const struct record_kv_expect *expect, int64_t now_ns);
void simulator_transfer_push(struct simulator_transfers *transfers, uint32_t unit,
                             const struct record_kv_push *push, bool free, int64_t step_ns,
                             int64_t now_ns);
void simulator_transfer_cancel(struct simulator_transfers *transfers, uint32_t unit,
                               const struct record_kv_cancel *cancel, int64_t now_ns);

/* Ends the transfers of a lost unit at the other sides, after_ns from now, when they notice the
 * loss. */
void simulator_transfer_lose(struct simulator_transfers *transfers, uint32_t unit, int64_t after_ns,
                             int64_t now_ns);

/* Cuts two units from each other until until_ns. Open transfers between them fail. */
void simulator_transfer_cut(struct simulator_transfers *transfers, uint32_t unit, uint32_t other,
                            int64_t until_ns, int64_t now_ns);

/* Must be called at the time that was passed to `due`. Returns false if the event is no longer
 * valid; otherwise writes the record to send and its receiver. */
bool simulator_transfer_end(struct simulator_transfers *transfers, uint32_t transfer,
                            enum simulator_side side, uint64_t stamp, uint32_t *unit_out,
                            struct record_kv_done *done_out);

uint32_t simulator_transfer_open_count(const struct simulator_transfers *transfers);
