/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/twin/twin_transfer.h"

#include "base/check.h"
#include "base/number.h"

size_t twin_transfer_bytes(uint32_t capacity) {
    return capacity * (sizeof(struct twin_transfer) + sizeof(uint32_t)) + map_bytes(capacity) + 64;
}

bool twin_transfer_open(struct twin_transfers *transfers, struct arena *arena, uint32_t capacity) {
    *transfers = (struct twin_transfers){.capacity = capacity, .free_count = capacity};
    transfers->transfers = arena_take(arena, capacity * sizeof *transfers->transfers);
    transfers->free = arena_take(arena, capacity * sizeof *transfers->free);
    if (!transfers->transfers || !transfers->free ||
        map_open(&transfers->by_ticket, arena, capacity))
        return false;
    for (uint32_t i = 0; i < capacity; i++) {
        transfers->transfers[i].taken = false;
        transfers->free[i] = capacity - 1 - i;
    }
    return true;
}

static struct map_key key_of(const uint64_t ticket[2]) {
    return (struct map_key){ticket[0], ticket[1], 0};
}

static struct twin_transfer *find(struct twin_transfers *transfers, const uint64_t ticket[2]) {
    uint32_t index = map_find(&transfers->by_ticket, key_of(ticket));
    return index == MAP_NONE ? NULL : &transfers->transfers[index];
}

static struct twin_transfer *claim(struct twin_transfers *transfers, const uint64_t ticket[2]) {
    check(transfers->free_count > 0);
    uint32_t index = transfers->free[--transfers->free_count];
    struct twin_transfer *transfer = &transfers->transfers[index];
    *transfer = (struct twin_transfer){.ticket = {ticket[0], ticket[1]}, .taken = true};
    map_add(&transfers->by_ticket, key_of(ticket), index);
    return transfer;
}

static void open_side(struct twin_transfer *transfer, enum twin_side side, struct twin_place place,
                      struct request_id request) {
    transfer->sides[side].place = place;
    transfer->sides[side].request = request;
    transfer->sides[side].open = true;
}

/* The first end reported to a side holds, but a failure replaces an arrival that has not been
 * reported yet. */
static void end_side(struct twin_transfers *transfers, struct twin_transfer *transfer,
                     enum twin_side side, bool arrived, int64_t due_ns) {
    bool worse = transfer->sides[side].arrived && !arrived;
    if (!transfer->sides[side].open || (transfer->sides[side].ending && !worse)) return;
    transfer->sides[side].ending = true;
    transfer->sides[side].arrived = arrived;
    transfer->sides[side].stamp = ++transfers->stamps;
    transfers->due(transfers->context, (uint32_t)(transfer - transfers->transfers), side, due_ns,
                   transfers->stamps);
}

void twin_transfer_expect(struct twin_transfers *transfers, uint32_t unit,
                          const struct record_kv_expect *expect, int64_t now_ns) {
    check(!find(transfers, expect->ticket));
    struct twin_transfer *transfer = claim(transfers, expect->ticket);
    transfer->blocks = expect->page_count;
    transfer->arrive_ns = now_ns;
    open_side(transfer, TWIN_IN, (struct twin_place){unit, expect->rank}, expect->request);
}

/* Occupies both links for the duration of the bytes. Blocks that are being computed arrive no
 * sooner than their last layer. */
static void carry(struct twin_transfers *transfers, struct twin_transfer *transfer,
                  const struct record_kv_push *push, int64_t step_ns, int64_t now_ns) {
    struct twin_place from = transfer->sides[TWIN_OUT].place, to = transfer->sides[TWIN_IN].place;
    struct twin_nic *out = &transfers->nics[from.unit], *in = &transfers->nics[to.unit];
    double bytes = push->page_count * transfers->block_bytes;
    double making = push->making_count * transfers->block_bytes;
    double ns_each = max_double(out->ns_each[TWIN_OUT], in->ns_each[TWIN_IN]);
    int64_t begin_ns = now_ns;
    if (out->free_ns[TWIN_OUT][from.rank] > begin_ns) begin_ns = out->free_ns[TWIN_OUT][from.rank];
    if (in->free_ns[TWIN_IN][to.rank] > begin_ns) begin_ns = in->free_ns[TWIN_IN][to.rank];
    int64_t end_ns = begin_ns + (int64_t)(bytes * ns_each);
    out->free_ns[TWIN_OUT][from.rank] = in->free_ns[TWIN_IN][to.rank] = end_ns;
    int64_t made_ns = step_ns + (int64_t)(making / transfers->layers * ns_each);
    if (push->making_count && made_ns > end_ns) end_ns = made_ns;
    if (end_ns > transfer->arrive_ns) transfer->arrive_ns = end_ns;
}

/* Ends a transfer that is not expected, or no longer: the sender is notified, and stops sending. */
static void refuse(struct twin_transfers *transfers, struct twin_transfer *transfer,
                   int64_t now_ns) {
    end_side(transfers, transfer, TWIN_OUT, false, now_ns + transfers->latency_ns);
}

static void lose_both(struct twin_transfers *transfers, struct twin_transfer *transfer,
                      int64_t now_ns) {
    end_side(transfers, transfer, TWIN_IN, false, now_ns + transfers->notice_ns);
    end_side(transfers, transfer, TWIN_OUT, false, now_ns + transfers->notice_ns);
}

static bool is_cut(const struct twin_transfers *transfers, const struct twin_transfer *transfer,
                   int64_t now_ns) {
    uint32_t from = transfer->sides[TWIN_OUT].place.unit;
    uint32_t to = transfer->sides[TWIN_IN].place.unit;
    return transfers->cut_ns[from * transfers->unit_count + to] > now_ns;
}

void twin_transfer_push(struct twin_transfers *transfers, uint32_t unit,
                        const struct record_kv_push *push, bool free, int64_t step_ns,
                        int64_t now_ns) {
    struct twin_transfer *transfer = find(transfers, push->route.ticket);
    if (!transfer) transfer = claim(transfers, push->route.ticket);
    if (!transfer->sides[TWIN_OUT].open)
        open_side(transfer, TWIN_OUT, (struct twin_place){unit, push->rank}, push->request);
    if (transfer->sides[TWIN_OUT].ending) return;
    if (!transfer->sides[TWIN_IN].open || transfer->sides[TWIN_IN].ending) {
        refuse(transfers, transfer, now_ns);
        return;
    }
    if (is_cut(transfers, transfer, now_ns)) {
        lose_both(transfers, transfer, now_ns);
        return;
    }
    if (push->page_count && !free) carry(transfers, transfer, push, step_ns, now_ns);
    transfers->bytes += push->page_count * transfers->block_bytes;
    if (!push->last) return;
    int64_t end_ns = transfer->arrive_ns > now_ns ? transfer->arrive_ns : now_ns;
    end_side(transfers, transfer, TWIN_IN, true, end_ns + transfers->latency_ns);
    end_side(transfers, transfer, TWIN_OUT, true, end_ns + 2 * transfers->latency_ns);
}

/* One side cancels the transfer, and the other one is notified. */
static void fail(struct twin_transfers *transfers, struct twin_transfer *transfer,
                 enum twin_side side, int64_t now_ns) {
    enum twin_side other = side == TWIN_IN ? TWIN_OUT : TWIN_IN;
    end_side(transfers, transfer, side, false, now_ns);
    end_side(transfers, transfer, other, false, now_ns + transfers->latency_ns);
}

void twin_transfer_cancel(struct twin_transfers *transfers, uint32_t unit,
                          const struct record_kv_cancel *cancel, int64_t now_ns) {
    for (uint32_t i = 0; i < transfers->capacity; i++) {
        struct twin_transfer *transfer = &transfers->transfers[i];
        for (int side = 0; transfer->taken && side < TWIN_SIDES; side++)
            if (transfer->sides[side].open && transfer->sides[side].place.unit == unit &&
                transfer->sides[side].place.rank == cancel->rank &&
                request_id_equal(transfer->sides[side].request, cancel->request))
                fail(transfers, transfer, (enum twin_side)side, now_ns);
    }
}

static void release(struct twin_transfers *transfers, struct twin_transfer *transfer) {
    if (transfer->sides[TWIN_IN].open || transfer->sides[TWIN_OUT].open) return;
    map_remove(&transfers->by_ticket, key_of(transfer->ticket));
    transfer->taken = false;
    transfers->free[transfers->free_count++] = (uint32_t)(transfer - transfers->transfers);
}

void twin_transfer_lose(struct twin_transfers *transfers, uint32_t unit, int64_t after_ns,
                        int64_t now_ns) {
    for (uint32_t i = 0; i < transfers->capacity; i++) {
        struct twin_transfer *transfer = &transfers->transfers[i];
        for (int side = 0; transfer->taken && side < TWIN_SIDES; side++) {
            if (!transfer->sides[side].open || transfer->sides[side].place.unit != unit) continue;
            transfer->sides[side].open = false; /* no process is left to notify */
            end_side(transfers, transfer, side == TWIN_IN ? TWIN_OUT : TWIN_IN, false,
                     now_ns + after_ns);
            release(transfers, transfer);
        }
    }
}

static bool is_between(const struct twin_transfer *transfer, uint32_t unit, uint32_t other) {
    uint32_t from = transfer->sides[TWIN_OUT].place.unit;
    uint32_t to = transfer->sides[TWIN_IN].place.unit;
    if (!transfer->sides[TWIN_OUT].open || !transfer->sides[TWIN_IN].open) return false;
    return (from == unit && to == other) || (from == other && to == unit);
}

void twin_transfer_cut(struct twin_transfers *transfers, uint32_t unit, uint32_t other,
                       int64_t until_ns, int64_t now_ns) {
    int64_t *there_ns = &transfers->cut_ns[unit * transfers->unit_count + other];
    int64_t *back_ns = &transfers->cut_ns[other * transfers->unit_count + unit];
    if (until_ns > *there_ns) *there_ns = *back_ns = until_ns;
    for (uint32_t i = 0; i < transfers->capacity; i++)
        if (transfers->transfers[i].taken && is_between(&transfers->transfers[i], unit, other))
            lose_both(transfers, &transfers->transfers[i], now_ns);
}

bool twin_transfer_end(struct twin_transfers *transfers, uint32_t index, enum twin_side side,
                       uint64_t stamp, uint32_t *unit_out, struct record_kv_done *done_out) {
    struct twin_transfer *transfer = &transfers->transfers[index];
    if (!transfer->taken || !transfer->sides[side].open || transfer->sides[side].stamp != stamp)
        return false;
    bool arrived = transfer->sides[side].arrived;
    *unit_out = transfer->sides[side].place.unit;
    *done_out =
        (struct record_kv_done){.record = record_head(RECORD_KV_DONE, sizeof *done_out),
                                .request = transfer->sides[side].request,
                                .rank = transfer->sides[side].place.rank,
                                .arrived = arrived,
                                .blocks = side == TWIN_IN && arrived ? transfer->blocks : 0};
    transfer->sides[side].open = false;
    release(transfers, transfer);
    return true;
}

uint32_t twin_transfer_open_count(const struct twin_transfers *transfers) {
    return transfers->capacity - transfers->free_count;
}
