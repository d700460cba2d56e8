/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/simulator/simulator_transfer.h"

#include "base/check.h"
#include "base/number.h"

size_t simulator_transfer_bytes(uint32_t capacity) {
    return capacity * (sizeof(struct simulator_transfer) + sizeof(uint32_t)) + map_bytes(capacity) +
           64;
}

bool simulator_transfer_open(struct simulator_transfers *transfers, struct arena *arena,
                             uint32_t capacity) {
    *transfers = (struct simulator_transfers){.capacity = capacity, .free_count = capacity};
    transfers->transfers = arena_take(arena, capacity * sizeof *transfers->transfers);
    transfers->free = arena_take(arena, capacity * sizeof *transfers->free);
    if (!transfers->transfers || !transfers->free ||
        map_open(&transfers->by_grant, arena, capacity))
        return false;
    for (uint32_t i = 0; i < capacity; i++) {
        transfers->transfers[i].taken = false;
        transfers->free[i] = capacity - 1 - i;
    }
    return true;
}

static struct map_key simulator_transfer_key_of(const uint64_t grant[2]) {
    return (struct map_key){grant[0], grant[1], 0};
}

static struct simulator_transfer *find(struct simulator_transfers *transfers,
                                       const uint64_t grant[2]) {
    uint32_t index = map_find(&transfers->by_grant, simulator_transfer_key_of(grant));
    return index == MAP_NONE ? NULL : &transfers->transfers[index];
}

static struct simulator_transfer *simulator_transfer_claim(struct simulator_transfers *transfers,
                                                           const uint64_t grant[2]) {
    check(transfers->free_count > 0);
    uint32_t index = transfers->free[--transfers->free_count];
    struct simulator_transfer *transfer = &transfers->transfers[index];
    *transfer = (struct simulator_transfer){.grant = {grant[0], grant[1]}, .taken = true};
    map_add(&transfers->by_grant, simulator_transfer_key_of(grant), index);
    return transfer;
}

static void simulator_transfer_open_side(struct simulator_transfer *transfer,
                                         enum simulator_side side, struct simulator_place place,
                                         struct request_id request) {
    transfer->sides[side].place = place;
    transfer->sides[side].request = request;
    transfer->sides[side].open = true;
}

/* Ends a transfer at one side. The first end counts, but a failure replaces an arrival that has not
 * been reported yet. */
static void end_side(struct simulator_transfers *transfers, struct simulator_transfer *transfer,
                     enum simulator_side side, bool arrived, int64_t due_ns) {
    bool worse = transfer->sides[side].arrived && !arrived;
    if (!transfer->sides[side].open || (transfer->sides[side].ending && !worse)) return;
    transfer->sides[side].ending = true;
    transfer->sides[side].arrived = arrived;
    transfer->sides[side].stamp = ++transfers->stamps;
    transfers->due(transfers->context, (uint32_t)(transfer - transfers->transfers), side, due_ns,
                   transfers->stamps);
}

void simulator_transfer_expect(struct simulator_transfers *transfers, uint32_t unit,
                               const struct record_kv_expect *expect, int64_t now_ns) {
    check(!find(transfers, expect->grant));
    struct simulator_transfer *transfer = simulator_transfer_claim(transfers, expect->grant);
    transfer->blocks = expect->page_count;
    transfer->arrive_ns = now_ns;
    simulator_transfer_open_side(transfer, SIMULATOR_IN,
                                 (struct simulator_place){unit, expect->rank}, expect->request);
}

/* Occupies both links for the duration of the transfer. Blocks that are still being computed arrive
 * no earlier than their last layer. */
static void simulator_transfer_forward(struct simulator_transfers *transfers,
                                       struct simulator_transfer *transfer,
                                       const struct record_kv_push *push, int64_t step_ns,
                                       int64_t now_ns) {
    struct simulator_place from = transfer->sides[SIMULATOR_OUT].place,
                           to = transfer->sides[SIMULATOR_IN].place;
    struct simulator_nic *out = &transfers->nics[from.unit], *in = &transfers->nics[to.unit];
    double bytes = push->page_count * transfers->block_bytes;
    double making = push->making_count * transfers->block_bytes;
    double ns_each = max_double(out->ns_each[SIMULATOR_OUT], in->ns_each[SIMULATOR_IN]);
    int64_t begin_ns = now_ns;
    if (out->free_ns[SIMULATOR_OUT][from.rank] > begin_ns)
        begin_ns = out->free_ns[SIMULATOR_OUT][from.rank];
    if (in->free_ns[SIMULATOR_IN][to.rank] > begin_ns)
        begin_ns = in->free_ns[SIMULATOR_IN][to.rank];
    int64_t end_ns = begin_ns + (int64_t)(bytes * ns_each);
    out->free_ns[SIMULATOR_OUT][from.rank] = in->free_ns[SIMULATOR_IN][to.rank] = end_ns;
    int64_t made_ns = step_ns + (int64_t)(making / transfers->layers * ns_each);
    if (push->making_count && made_ns > end_ns) end_ns = made_ns;
    if (end_ns > transfer->arrive_ns) transfer->arrive_ns = end_ns;
}

/* Ends a transfer that is not, or no longer, expected. The sender is notified and stops. */
static void refuse(struct simulator_transfers *transfers, struct simulator_transfer *transfer,
                   int64_t now_ns) {
    end_side(transfers, transfer, SIMULATOR_OUT, false, now_ns + transfers->latency_ns);
}

static void lose_both(struct simulator_transfers *transfers, struct simulator_transfer *transfer,
                      int64_t now_ns) {
    end_side(transfers, transfer, SIMULATOR_IN, false, now_ns + transfers->notice_ns);
    end_side(transfers, transfer, SIMULATOR_OUT, false, now_ns + transfers->notice_ns);
}

static bool is_cut(const struct simulator_transfers *transfers,
                   const struct simulator_transfer *transfer, int64_t now_ns) {
    uint32_t from = transfer->sides[SIMULATOR_OUT].place.unit;
    uint32_t to = transfer->sides[SIMULATOR_IN].place.unit;
    return transfers->cut_ns[from * transfers->unit_count + to] > now_ns;
}

void simulator_transfer_push(struct simulator_transfers *transfers, uint32_t unit,
                             const struct record_kv_push *push, bool free, int64_t step_ns,
                             int64_t now_ns) {
    struct simulator_transfer *transfer = find(transfers, push->route.grant);
    if (!transfer) transfer = simulator_transfer_claim(transfers, push->route.grant);
    if (!transfer->sides[SIMULATOR_OUT].open)
        simulator_transfer_open_side(transfer, SIMULATOR_OUT,
                                     (struct simulator_place){unit, push->rank}, push->request);
    if (transfer->sides[SIMULATOR_OUT].ending) return;
    if (!transfer->sides[SIMULATOR_IN].open || transfer->sides[SIMULATOR_IN].ending) {
        refuse(transfers, transfer, now_ns);
        return;
    }
    if (is_cut(transfers, transfer, now_ns)) {
        lose_both(transfers, transfer, now_ns);
        return;
    }
    if (push->page_count && !free)
        simulator_transfer_forward(transfers, transfer, push, step_ns, now_ns);
    transfers->bytes += push->page_count * transfers->block_bytes;
    if (!push->last) return;
    int64_t end_ns = transfer->arrive_ns > now_ns ? transfer->arrive_ns : now_ns;
    end_side(transfers, transfer, SIMULATOR_IN, true, end_ns + transfers->latency_ns);
    end_side(transfers, transfer, SIMULATOR_OUT, true, end_ns + 2 * transfers->latency_ns);
}

/* Cancels the transfer at one side and notifies the other one. */
static void simulator_transfer_fail(struct simulator_transfers *transfers,
                                    struct simulator_transfer *transfer, enum simulator_side side,
                                    int64_t now_ns) {
    enum simulator_side other = side == SIMULATOR_IN ? SIMULATOR_OUT : SIMULATOR_IN;
    end_side(transfers, transfer, side, false, now_ns);
    end_side(transfers, transfer, other, false, now_ns + transfers->latency_ns);
}

void simulator_transfer_cancel(struct simulator_transfers *transfers, uint32_t unit,
                               const struct record_kv_cancel *cancel, int64_t now_ns) {
    for (uint32_t i = 0; i < transfers->capacity; i++) {
        struct simulator_transfer *transfer = &transfers->transfers[i];
        for (int side = 0; transfer->taken && side < SIMULATOR_SIDES; side++)
            if (transfer->sides[side].open && transfer->sides[side].place.unit == unit &&
                transfer->sides[side].place.rank == cancel->rank &&
                request_id_equal(transfer->sides[side].request, cancel->request))
                simulator_transfer_fail(transfers, transfer, (enum simulator_side)side, now_ns);
    }
}

static void simulator_transfer_release(struct simulator_transfers *transfers,
                                       struct simulator_transfer *transfer) {
    if (transfer->sides[SIMULATOR_IN].open || transfer->sides[SIMULATOR_OUT].open) return;
    map_remove(&transfers->by_grant, simulator_transfer_key_of(transfer->grant));
    transfer->taken = false;
    transfers->free[transfers->free_count++] = (uint32_t)(transfer - transfers->transfers);
}

void simulator_transfer_lose(struct simulator_transfers *transfers, uint32_t unit, int64_t after_ns,
                             int64_t now_ns) {
    for (uint32_t i = 0; i < transfers->capacity; i++) {
        struct simulator_transfer *transfer = &transfers->transfers[i];
        for (int side = 0; transfer->taken && side < SIMULATOR_SIDES; side++) {
            if (!transfer->sides[side].open || transfer->sides[side].place.unit != unit) continue;
            transfer->sides[side].open = false; /* no process is left to notify */
            end_side(transfers, transfer, side == SIMULATOR_IN ? SIMULATOR_OUT : SIMULATOR_IN,
                     false, now_ns + after_ns);
            simulator_transfer_release(transfers, transfer);
        }
    }
}

static bool simulator_transfer_is_between(const struct simulator_transfer *transfer, uint32_t unit,
                                          uint32_t other) {
    uint32_t from = transfer->sides[SIMULATOR_OUT].place.unit;
    uint32_t to = transfer->sides[SIMULATOR_IN].place.unit;
    if (!transfer->sides[SIMULATOR_OUT].open || !transfer->sides[SIMULATOR_IN].open) return false;
    return (from == unit && to == other) || (from == other && to == unit);
}

void simulator_transfer_cut(struct simulator_transfers *transfers, uint32_t unit, uint32_t other,
                            int64_t until_ns, int64_t now_ns) {
    int64_t *there_ns = &transfers->cut_ns[unit * transfers->unit_count + other];
    int64_t *back_ns = &transfers->cut_ns[other * transfers->unit_count + unit];
    if (until_ns > *there_ns) *there_ns = *back_ns = until_ns;
    for (uint32_t i = 0; i < transfers->capacity; i++)
        if (transfers->transfers[i].taken &&
            simulator_transfer_is_between(&transfers->transfers[i], unit, other))
            lose_both(transfers, &transfers->transfers[i], now_ns);
}

bool simulator_transfer_end(struct simulator_transfers *transfers, uint32_t index,
                            enum simulator_side side, uint64_t stamp, uint32_t *unit_out,
                            struct record_kv_done *done_out) {
    struct simulator_transfer *transfer = &transfers->transfers[index];
    if (!transfer->taken || !transfer->sides[side].open || transfer->sides[side].stamp != stamp)
        return false;
    bool arrived = transfer->sides[side].arrived;
    *unit_out = transfer->sides[side].place.unit;
    *done_out =
        (struct record_kv_done){.record = record_head(RECORD_KV_DONE, sizeof *done_out),
                                .request = transfer->sides[side].request,
                                .rank = transfer->sides[side].place.rank,
                                .arrived = arrived,
                                .blocks = side == SIMULATOR_IN && arrived ? transfer->blocks : 0};
    transfer->sides[side].open = false;
    simulator_transfer_release(transfers, transfer);
    return true;
}

uint32_t simulator_transfer_open_count(const struct simulator_transfers *transfers) {
    return transfers->capacity - transfers->free_count;
}
