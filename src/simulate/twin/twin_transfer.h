/* SPDX-License-Identifier: Apache-2.0
 * KV blocks on their way from rank to rank, as the units' records order them: each rank has a link
 * out and a link in, which carry one thing after the other. A block that stands leaves at once.
 * Blocks that a step is making leave layer by layer behind it, so that of the last ones about one
 * layer's share is left when the step ends.
 *
 * A transfer ends once at each side: arrived, or not, because a side cancelled it, died, or was cut
 * off. What it reports are moments and ends; carrying the records is the caller's.
 */
#ifndef SIMULATE_TWIN_TWIN_TRANSFER_H
#define SIMULATE_TWIN_TWIN_TRANSFER_H

#include "base/map.h"
#include "contract/record_kv.h"

struct twin_place { /* of a rank */
    uint32_t unit, rank;
};

enum twin_side { TWIN_OUT, TWIN_IN, TWIN_SIDES };

struct twin_transfer {
    uint64_t ticket[2];
    struct {
        struct twin_place place;
        struct request_id request;
        bool open, ending; /* said and not ended; its end is on the way */
        bool arrived;      /* as that says */
        uint64_t stamp;    /* of the event that ends it */
    } sides[TWIN_SIDES];
    int64_t arrive_ns; /* of what has left so far */
    uint32_t blocks;   /* that are expected */
    bool taken;
};

struct twin_nic {
    double ns_each[TWIN_SIDES];   /* of a byte */
    int64_t *free_ns[TWIN_SIDES]; /* [rank] when its links are free */
};

struct twin_transfers {
    struct twin_transfer *transfers; /* [capacity] */
    uint32_t *free;                  /* [capacity] of them free_count */
    uint32_t capacity, free_count;
    struct map by_ticket;
    uint64_t stamps;
    double block_bytes, layers;
    double bytes;          /* that left, in all */
    struct twin_nic *nics; /* [unit] */
    int64_t *cut_ns;       /* [unit][unit_count] until then nothing passes between the two */
    uint32_t unit_count;
    int64_t latency_ns, notice_ns; /* notice: after which a cut is noticed */
    void *context;
    /* At that time the side's end is to be told (twin_transfer_end). */
    void (*due)(void *context, uint32_t transfer, enum twin_side side, int64_t due_ns,
                uint64_t stamp);
};

size_t twin_transfer_bytes(uint32_t capacity);

/* The figures, the links and `due` are the caller's to set. False: the arena is out of memory. */
bool twin_transfer_open(struct twin_transfers *transfers, struct arena *arena, uint32_t capacity);

/* A unit's record. `free`: it takes no time. `step_ns`: when the step ends that makes blocks. */
void twin_transfer_expect(struct twin_transfers *transfers, uint32_t unit,
                          const struct record_kv_expect *expect, int64_t now_ns);
void twin_transfer_push(struct twin_transfers *transfers, uint32_t unit,
                        const struct record_kv_push *push, bool free, int64_t step_ns,
                        int64_t now_ns);
void twin_transfer_cancel(struct twin_transfers *transfers, uint32_t unit,
                          const struct record_kv_cancel *cancel, int64_t now_ns);

/* The unit is gone: its transfers end at the other side. `after_ns`: until that is noticed. */
void twin_transfer_lose(struct twin_transfers *transfers, uint32_t unit, int64_t after_ns,
                        int64_t now_ns);

/* Nothing passes between two units until then: what is under way ends without having arrived. */
void twin_transfer_cut(struct twin_transfers *transfers, uint32_t unit, uint32_t other,
                       int64_t until_ns, int64_t now_ns);

/* The moment has come that `due` named. False: it was meant no more; else what to tell whom. */
bool twin_transfer_end(struct twin_transfers *transfers, uint32_t transfer, enum twin_side side,
                       uint64_t stamp, uint32_t *unit_out, struct record_kv_done *done_out);

uint32_t twin_transfer_open_count(const struct twin_transfers *transfers);

#endif
