/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/cache/transfer_ledger.h"

#include "base/check.h"
#include "base/format.h"
#include "base/limits.h"

enum slice_state { SLICE_NONE, SLICE_EXPECTED, SLICE_BUSY, SLICE_THERE };

enum transfer_state {
    TRANSFER_FREE,
    TRANSFER_OPEN,
    TRANSFER_FINISHING,
    TRANSFER_QUIET,
    TRANSFER_READY
};

struct transfer_page {
    uint32_t slot; /* TRANSFER_NONE: free */
    uint32_t block, row_count;
    uint32_t next; /* next page of the same grant */
};

struct transfer {
    struct transfer_grant grant;
    enum transfer_side side;
    enum transfer_state state;
    enum transfer_end end;
    uint32_t next; /* in the free, quiet or ready list */
    uint32_t busy; /* in: slices being written; out: slices held */
    uint64_t peer;
    int64_t deadline_ns;
    int64_t stuck_since_ns; /* INT64_MAX: not seen while ending */
    /* in */
    uint32_t first_page;
    uint32_t layers;        /* leading slices that have arrived in every block */
    uint64_t missing_count; /* slices that have not arrived */
    uint64_t arrived_count; /* slices that arrived while the grant was open, including duplicates */
    /* in: the sender's count, once `finished`; out: slices held so far */
    uint64_t slice_count;
    bool finished;
    uint32_t summary_bytes;
    uint8_t summary[TRANSFER_SUMMARY_BYTES];
    char reason[TRANSFER_REASON_BYTES];
};

const char *transfer_ledger_end_name(enum transfer_end end) {
    static const char *const names[TRANSFER_END_COUNT] = {
        "done", "cancelled", "deadline", "peer lost", "damaged", "refused",
    };
    check((unsigned)end < TRANSFER_END_COUNT);
    return names[end];
}

/* ---- tables ---- */

size_t transfer_ledger_bytes(const struct transfer_limits *limits) {
    size_t grants = limits->grant_count, pages = limits->page_count;
    return grants * sizeof(struct transfer) + pages * sizeof(struct transfer_page) +
           pages * limits->slice_count + grants * limits->slice_count * sizeof(uint32_t) +
           map_bytes(limits->grant_count) + map_bytes(limits->page_count) + (size_t)6 * 16;
}

enum status transfer_ledger_open(struct transfer_ledger *ledger, struct arena *arena,
                                 const struct transfer_limits *limits) {
    size_t grants = limits->grant_count, pages = limits->page_count;
    check(grants > 0 && pages > 0 && limits->slice_count > 0);
    check(limits->slice_count <= LIMIT_LAYERS);
    struct transfer_ledger fresh = {.limits = *limits, .deadline_ns = INT64_MAX};
    fresh.slots = arena_take_zeroed(arena, grants * sizeof *fresh.slots);
    fresh.pages = arena_take(arena, pages * sizeof *fresh.pages);
    fresh.slice_states = arena_take_zeroed(arena, pages * limits->slice_count);
    fresh.missing = arena_take_zeroed(arena, grants * limits->slice_count * sizeof *fresh.missing);
    if (!fresh.slots || !fresh.pages || !fresh.slice_states || !fresh.missing)
        return STATUS_NO_MEMORY;
    if (map_open(&fresh.by_grant, arena, limits->grant_count) != STATUS_OK ||
        map_open(&fresh.by_block, arena, limits->page_count) != STATUS_OK)
        return STATUS_NO_MEMORY;
    for (uint32_t slot = 0; slot < grants; slot++)
        fresh.slots[slot].next = slot + 1 < grants ? slot + 1 : TRANSFER_NONE;
    for (uint32_t page = 0; page < pages; page++)
        fresh.pages[page].slot = TRANSFER_NONE;
    fresh.quiet = fresh.ready = (struct transfer_list){TRANSFER_NONE, TRANSFER_NONE};
    *ledger = fresh;
    return STATUS_OK;
}

static void list_append(struct transfer_ledger *ledger, struct transfer_list *list, uint32_t slot) {
    ledger->slots[slot].next = TRANSFER_NONE;
    if (list->first == TRANSFER_NONE)
        list->first = slot;
    else
        ledger->slots[list->last].next = slot;
    list->last = slot;
}

static uint32_t list_pop(struct transfer_ledger *ledger, struct transfer_list *list) {
    uint32_t slot = list->first;
    if (slot != TRANSFER_NONE) list->first = ledger->slots[slot].next;
    return slot;
}

static struct map_key grant_key(enum transfer_side side, struct transfer_grant grant) {
    return (struct map_key){grant.high, grant.low, (uint64_t)side};
}

static struct map_key block_key(uint32_t slot, uint32_t block) {
    return (struct map_key){slot, block, 0};
}

static struct transfer *find(const struct transfer_ledger *ledger, enum transfer_side side,
                             struct transfer_grant grant) {
    uint32_t slot = map_find(&ledger->by_grant, grant_key(side, grant));
    return slot == MAP_NONE ? NULL : &ledger->slots[slot];
}

static uint32_t transfer_ledger_slot_of(const struct transfer_ledger *ledger,
                                        const struct transfer *transfer) {
    return (uint32_t)(transfer - ledger->slots);
}

static uint8_t *transfer_ledger_state_of(const struct transfer_ledger *ledger, uint32_t page,
                                         uint32_t slice) {
    return &ledger->slice_states[(size_t)page * ledger->limits.slice_count + slice];
}

static uint32_t *missing_of(const struct transfer_ledger *ledger, uint32_t slot, uint32_t slice) {
    return &ledger->missing[(size_t)slot * ledger->limits.slice_count + slice];
}

/* ---- opening ---- */

static enum status transfer_ledger_open_slot(struct transfer_ledger *ledger,
                                             enum transfer_side side, struct transfer_grant grant,
                                             int64_t deadline_ns, uint32_t *slot_out,
                                             struct error *error) {
    if (grant.high == 0 && grant.low == 0)
        return error_set(error, STATUS_INVALID, "a transfer grant of zeros is invalid");
    if (map_find(&ledger->by_grant, grant_key(side, grant)) != MAP_NONE)
        return error_set(error, STATUS_INVALID,
                         "transfer grant %016llx%016llx is in use; draw a new one",
                         (unsigned long long)grant.high, (unsigned long long)grant.low);
    uint32_t slot = ledger->free_slot;
    if (slot == TRANSFER_NONE)
        return error_set(error, STATUS_FULL, "all %u transfer grants are in use",
                         ledger->limits.grant_count);
    struct transfer *transfer = &ledger->slots[slot];
    ledger->free_slot = transfer->next;
    *transfer = (struct transfer){.grant = grant,
                                  .side = side,
                                  .state = TRANSFER_OPEN,
                                  .next = TRANSFER_NONE,
                                  .deadline_ns = deadline_ns,
                                  .stuck_since_ns = INT64_MAX,
                                  .first_page = TRANSFER_NONE};
    map_add(&ledger->by_grant, grant_key(side, grant), slot);
    ledger->used_count++;
    ledger->counts.opened[side]++;
    if (deadline_ns < ledger->deadline_ns) ledger->deadline_ns = deadline_ns;
    *slot_out = slot;
    return STATUS_OK;
}

static void transfer_ledger_free_slot(struct transfer_ledger *ledger, uint32_t slot) {
    struct transfer *transfer = &ledger->slots[slot];
    map_remove(&ledger->by_grant, grant_key(transfer->side, transfer->grant));
    transfer->state = TRANSFER_FREE;
    transfer->next = ledger->free_slot;
    ledger->free_slot = slot;
    ledger->used_count--;
}

static bool block_fits(const struct transfer_ledger *ledger, const struct transfer_block *block) {
    return block->page.index < ledger->limits.page_count && block->row_count > 0 &&
           block->row_count <= KV_BLOCK_TOKENS && block->slice_count > 0 &&
           block->slice_first < ledger->limits.slice_count &&
           block->slice_count <= ledger->limits.slice_count - block->slice_first &&
           ledger->pages[block->page.index].slot == TRANSFER_NONE;
}

static void lease_page(struct transfer_ledger *ledger, uint32_t slot, uint32_t index,
                       const struct transfer_block *block) {
    struct transfer *transfer = &ledger->slots[slot];
    uint32_t page = block->page.index;
    ledger->pages[page] =
        (struct transfer_page){slot, index, block->row_count, transfer->first_page};
    transfer->first_page = page;
    transfer->missing_count += block->slice_count;
    for (uint32_t i = 0; i < block->slice_count; i++) {
        *transfer_ledger_state_of(ledger, page, block->slice_first + i) = SLICE_EXPECTED;
        ++*missing_of(ledger, slot, block->slice_first + i);
    }
    map_add(&ledger->by_block, block_key(slot, index), page);
    ledger->page_count++;
    ledger->counts.leased++;
}

static void release_pages(struct transfer_ledger *ledger, uint32_t slot) {
    struct transfer *transfer = &ledger->slots[slot];
    uint32_t slice_count = ledger->limits.slice_count;
    for (uint32_t next, page = transfer->first_page; page != TRANSFER_NONE; page = next) {
        next = ledger->pages[page].next;
        map_remove(&ledger->by_block, block_key(slot, ledger->pages[page].block));
        memset(transfer_ledger_state_of(ledger, page, 0), SLICE_NONE, slice_count);
        ledger->pages[page].slot = TRANSFER_NONE;
        ledger->page_count--;
        ledger->counts.released++;
    }
    transfer->first_page = TRANSFER_NONE;
    memset(missing_of(ledger, slot, 0), 0, slice_count * sizeof *ledger->missing);
}

static void transfer_ledger_count_layers(struct transfer_ledger *ledger,
                                         struct transfer *transfer) {
    uint32_t slot = transfer_ledger_slot_of(ledger, transfer);
    while (transfer->layers < ledger->limits.slice_count &&
           *missing_of(ledger, slot, transfer->layers) == 0)
        transfer->layers++;
}

enum status transfer_ledger_expect(struct transfer_ledger *ledger, struct transfer_grant grant,
                                   const struct transfer_block *blocks, uint32_t count,
                                   int64_t deadline_ns, struct error *error) {
    uint32_t slot;
    if (count == 0)
        return error_set(error, STATUS_INVALID, "a transfer grant needs at least one block");
    enum status status =
        transfer_ledger_open_slot(ledger, TRANSFER_IN, grant, deadline_ns, &slot, error);
    if (status != STATUS_OK) return status;
    for (uint32_t i = 0; i < count; i++) {
        if (!block_fits(ledger, &blocks[i])) {
            ledger->counts.opened[TRANSFER_IN]--;
            ledger->counts.leased -= i;
            ledger->counts.released -= i;
            release_pages(ledger, slot);
            transfer_ledger_free_slot(ledger, slot);
            return error_set(error, STATUS_INVALID,
                             "block %u of a transfer (page %u, %u rows, slices %u..%u) does not "
                             "fit, or its page belongs to another grant",
                             i, blocks[i].page.index, blocks[i].row_count, blocks[i].slice_first,
                             blocks[i].slice_first + blocks[i].slice_count);
        }
        lease_page(ledger, slot, i, &blocks[i]);
    }
    transfer_ledger_count_layers(ledger, &ledger->slots[slot]);
    return STATUS_OK;
}

enum status transfer_ledger_offer(struct transfer_ledger *ledger, struct transfer_grant grant,
                                  uint64_t peer, int64_t deadline_ns, struct error *error) {
    uint32_t slot;
    check(peer != TRANSFER_NO_PEER);
    enum status status =
        transfer_ledger_open_slot(ledger, TRANSFER_OUT, grant, deadline_ns, &slot, error);
    if (status == STATUS_OK) ledger->slots[slot].peer = peer;
    return status;
}

/* ---- ending ---- */

static void transfer_ledger_settle(struct transfer_ledger *ledger, struct transfer *transfer) {
    if (transfer->state != TRANSFER_FINISHING || transfer->busy > 0) return;
    transfer->state = TRANSFER_QUIET;
    ledger->finishing_count--;
    list_append(ledger, &ledger->quiet, transfer_ledger_slot_of(ledger, transfer));
}

static void end(struct transfer_ledger *ledger, struct transfer *transfer, enum transfer_end how,
                const char *reason) {
    check(transfer->state == TRANSFER_OPEN && (unsigned)how < TRANSFER_END_COUNT);
    transfer->state = TRANSFER_FINISHING;
    transfer->end = how;
    format_text(transfer->reason, sizeof transfer->reason, "%s",
                how == TRANSFER_DONE ? ""
                : reason             ? reason
                                     : transfer_ledger_end_name(how));
    ledger->finishing_count++;
    ledger->counts.ended[transfer->side][how]++;
    transfer_ledger_settle(ledger, transfer);
}

/* Returns ACCEPT if the grant is open and `peer` is its peer. A grant without a peer gets this one.
 * A grant that ended without a peer has none to notify, so it counts as unknown. */
static enum transfer_verdict transfer_ledger_greet(struct transfer *transfer, uint64_t peer) {
    if (!transfer) return TRANSFER_UNKNOWN;
    if (transfer->state != TRANSFER_OPEN)
        return transfer->peer == TRANSFER_NO_PEER ? TRANSFER_UNKNOWN : TRANSFER_LATE;
    if (transfer->peer == TRANSFER_NO_PEER) transfer->peer = peer;
    return transfer->peer == peer ? TRANSFER_ACCEPT : TRANSFER_FOREIGN;
}

bool transfer_ledger_end_by(struct transfer_ledger *ledger, enum transfer_side side, uint64_t peer,
                            struct transfer_grant grant, enum transfer_end how,
                            const char *reason) {
    struct transfer *transfer = find(ledger, side, grant);
    if (transfer_ledger_greet(transfer, peer) != TRANSFER_ACCEPT) return false;
    end(ledger, transfer, how, reason);
    return true;
}

bool transfer_ledger_end(struct transfer_ledger *ledger, enum transfer_side side,
                         struct transfer_grant grant, enum transfer_end how, const char *reason) {
    struct transfer *transfer = find(ledger, side, grant);
    if (!transfer || transfer->state != TRANSFER_OPEN) return false;
    end(ledger, transfer, how, reason);
    return true;
}

void transfer_ledger_end_peer(struct transfer_ledger *ledger, uint64_t peer, enum transfer_end how,
                              const char *reason) {
    check(peer != TRANSFER_NO_PEER);
    for (uint32_t slot = 0; slot < ledger->limits.grant_count; slot++)
        if (ledger->slots[slot].state == TRANSFER_OPEN && ledger->slots[slot].peer == peer)
            end(ledger, &ledger->slots[slot], how, reason);
}

void transfer_ledger_end_all(struct transfer_ledger *ledger, enum transfer_end how,
                             const char *reason) {
    for (uint32_t slot = 0; slot < ledger->limits.grant_count; slot++)
        if (ledger->slots[slot].state == TRANSFER_OPEN)
            end(ledger, &ledger->slots[slot], how, reason);
}

void transfer_ledger_expire(struct transfer_ledger *ledger, int64_t now_ns) {
    if (now_ns < ledger->deadline_ns) return;
    ledger->deadline_ns = INT64_MAX;
    for (uint32_t slot = 0; slot < ledger->limits.grant_count; slot++) {
        struct transfer *transfer = &ledger->slots[slot];
        if (transfer->state != TRANSFER_OPEN) continue;
        if (transfer->deadline_ns <= now_ns)
            end(ledger, transfer, TRANSFER_DEADLINE, "the deadline came first");
        else if (transfer->deadline_ns < ledger->deadline_ns)
            ledger->deadline_ns = transfer->deadline_ns;
    }
}

int64_t transfer_ledger_next_deadline(const struct transfer_ledger *ledger) {
    return ledger->deadline_ns;
}

uint64_t transfer_ledger_stuck(struct transfer_ledger *ledger, int64_t drain_ns_max, int64_t now_ns,
                               int64_t *wake_out) {
    uint64_t peer = TRANSFER_NO_PEER;
    int64_t wake_ns = INT64_MAX;
    for (uint32_t slot = 0; ledger->finishing_count > 0 && slot < ledger->limits.grant_count;
         slot++) {
        struct transfer *transfer = &ledger->slots[slot];
        if (transfer->state != TRANSFER_FINISHING) continue;
        if (transfer->stuck_since_ns == INT64_MAX) transfer->stuck_since_ns = now_ns;
        int64_t until_ns = transfer->stuck_since_ns + drain_ns_max;
        if (until_ns <= now_ns)
            peer = transfer->peer;
        else if (until_ns < wake_ns)
            wake_ns = until_ns;
    }
    *wake_out = wake_ns;
    return peer;
}

static bool block_is_there(const struct transfer_ledger *ledger, uint32_t slot, uint32_t block) {
    uint32_t page = map_find(&ledger->by_block, block_key(slot, block));
    if (page == MAP_NONE) return false;
    for (uint32_t slice = 0; slice < ledger->limits.slice_count; slice++) {
        uint8_t state = *transfer_ledger_state_of(ledger, page, slice);
        if (state == SLICE_EXPECTED || state == SLICE_BUSY) return false;
    }
    return true;
}

static void transfer_ledger_describe(const struct transfer_ledger *ledger, uint32_t slot,
                                     struct transfer_ended *out) {
    const struct transfer *transfer = &ledger->slots[slot];
    *out = (struct transfer_ended){
        .grant = transfer->grant,
        .side = transfer->side,
        .end = transfer->end,
        .peer = transfer->peer,
        .layers = transfer->layers,
        .summary_bytes = transfer->end == TRANSFER_DONE ? transfer->summary_bytes : 0,
    };
    memcpy(out->summary, transfer->summary, out->summary_bytes);
    memcpy(out->reason, transfer->reason, sizeof out->reason);
    while (block_is_there(ledger, slot, out->blocks))
        out->blocks++;
}

bool transfer_ledger_announce(struct transfer_ledger *ledger, struct transfer_ended *ended_out) {
    uint32_t slot = list_pop(ledger, &ledger->quiet);
    if (slot == TRANSFER_NONE) return false;
    transfer_ledger_describe(ledger, slot, ended_out);
    ledger->slots[slot].state = TRANSFER_READY;
    list_append(ledger, &ledger->ready, slot);
    return true;
}

bool transfer_ledger_take(struct transfer_ledger *ledger, struct transfer_ended *ended_out) {
    uint32_t slot = list_pop(ledger, &ledger->ready);
    if (slot == TRANSFER_NONE) return false;
    transfer_ledger_describe(ledger, slot, ended_out);
    ledger->counts.taken[ledger->slots[slot].side]++;
    release_pages(ledger, slot);
    transfer_ledger_free_slot(ledger, slot);
    return true;
}

/* ---- received slices ---- */

/* Ends the grant of a sender that has finished, if the data is complete or cannot become complete
 * any more. */
static void conclude(struct transfer_ledger *ledger, struct transfer *transfer) {
    if (transfer->state != TRANSFER_OPEN || !transfer->finished) return;
    if (transfer->missing_count == 0) {
        end(ledger, transfer, TRANSFER_DONE, NULL);
    } else if (transfer->busy == 0 && transfer->arrived_count >= transfer->slice_count) {
        char reason[TRANSFER_REASON_BYTES];
        format_text(reason, sizeof reason, "the sender finished with %llu slices missing",
                    (unsigned long long)transfer->missing_count);
        end(ledger, transfer, TRANSFER_DAMAGED, reason);
    }
}

static enum transfer_verdict transfer_ledger_verify(struct transfer_ledger *ledger,
                                                    struct transfer *transfer, uint32_t block,
                                                    uint32_t slice, uint32_t rows,
                                                    uint32_t *page_out) {
    uint32_t page =
        map_find(&ledger->by_block, block_key(transfer_ledger_slot_of(ledger, transfer), block));
    if (page == MAP_NONE || slice >= ledger->limits.slice_count ||
        ledger->pages[page].row_count != rows)
        return TRANSFER_MISFIT;
    *page_out = page;
    switch ((enum slice_state) * transfer_ledger_state_of(ledger, page, slice)) {
    case SLICE_EXPECTED:
        return TRANSFER_ACCEPT;
    case SLICE_BUSY:
    case SLICE_THERE:
        return TRANSFER_DUPLICATE;
    case SLICE_NONE:
        break;
    }
    return TRANSFER_MISFIT;
}

enum transfer_verdict transfer_ledger_arrive(struct transfer_ledger *ledger, uint64_t peer,
                                             struct transfer_grant grant, uint32_t block,
                                             uint32_t slice, uint32_t rows,
                                             struct transfer_write *write_out) {
    struct transfer *transfer = find(ledger, TRANSFER_IN, grant);
    uint32_t page = TRANSFER_NONE;
    check(peer != TRANSFER_NO_PEER);
    enum transfer_verdict verdict = transfer_ledger_greet(transfer, peer);
    if (verdict == TRANSFER_ACCEPT) {
        verdict = transfer_ledger_verify(ledger, transfer, block, slice, rows, &page);
        transfer->arrived_count++;
    }
    ledger->counts.slices[verdict]++;
    if (verdict == TRANSFER_ACCEPT) {
        *transfer_ledger_state_of(ledger, page, slice) = SLICE_BUSY;
        transfer->busy++;
        ledger->busy_count++;
        *write_out =
            (struct transfer_write){transfer_ledger_slot_of(ledger, transfer), slice, {page}};
    } else if (verdict == TRANSFER_DUPLICATE) {
        conclude(ledger, transfer);
    } else if (verdict == TRANSFER_MISFIT) {
        char reason[TRANSFER_REASON_BYTES];
        format_text(reason, sizeof reason,
                    "slice %u of block %u with %u rows arrived, which no ticket expects", slice,
                    block, rows);
        end(ledger, transfer, TRANSFER_REFUSED, reason);
    }
    return verdict;
}

bool transfer_ledger_written(struct transfer_ledger *ledger, const struct transfer_write *write,
                             enum transfer_written how) {
    struct transfer *transfer = &ledger->slots[write->slot];
    uint8_t *state = transfer_ledger_state_of(ledger, write->page.index, write->slice);
    check(ledger->pages[write->page.index].slot == write->slot);
    check(*state == SLICE_BUSY && transfer->busy > 0);
    uint32_t layers = transfer->layers;
    transfer->busy--;
    ledger->busy_count--;
    *state = how == TRANSFER_WRITTEN ? SLICE_THERE : SLICE_EXPECTED;
    if (how == TRANSFER_WRITTEN) {
        transfer->missing_count--;
        --*missing_of(ledger, write->slot, write->slice);
        transfer_ledger_count_layers(ledger, transfer);
    }
    ledger->counts.damaged += how == TRANSFER_SPOILT;
    if (transfer->state == TRANSFER_OPEN && how == TRANSFER_SPOILT) {
        char reason[TRANSFER_REASON_BYTES];
        format_text(reason, sizeof reason, "slice %u of block %u came with a wrong checksum",
                    write->slice, ledger->pages[write->page.index].block);
        end(ledger, transfer, TRANSFER_DAMAGED, reason);
    } else if (transfer->state == TRANSFER_OPEN && how == TRANSFER_BROKEN) {
        end(ledger, transfer, TRANSFER_PEER_LOST, "the connection broke while a slice came");
    }
    conclude(ledger, transfer);
    transfer_ledger_settle(ledger, transfer);
    return transfer->layers > layers;
}

enum transfer_verdict transfer_ledger_finish(struct transfer_ledger *ledger, uint64_t peer,
                                             struct transfer_grant grant, uint64_t slice_count,
                                             const void *summary, uint32_t summary_bytes) {
    struct transfer *transfer = find(ledger, TRANSFER_IN, grant);
    check(peer != TRANSFER_NO_PEER && summary_bytes <= TRANSFER_SUMMARY_BYTES);
    enum transfer_verdict verdict = transfer_ledger_greet(transfer, peer);
    if (verdict != TRANSFER_ACCEPT) return verdict;
    if (transfer->finished) return TRANSFER_DUPLICATE;
    transfer->finished = true;
    transfer->slice_count = slice_count;
    transfer->summary_bytes = summary_bytes;
    if (summary_bytes) memcpy(transfer->summary, summary, summary_bytes);
    conclude(ledger, transfer);
    return TRANSFER_ACCEPT;
}

bool transfer_ledger_knows(const struct transfer_ledger *ledger, struct transfer_grant grant) {
    return find(ledger, TRANSFER_IN, grant) != NULL;
}

bool transfer_ledger_layers(const struct transfer_ledger *ledger, struct transfer_grant grant,
                            uint32_t *layers_out) {
    const struct transfer *transfer = find(ledger, TRANSFER_IN, grant);
    if (!transfer || transfer->state != TRANSFER_OPEN) return false;
    *layers_out = transfer->layers;
    return true;
}

/* ---- sent slices ---- */

static struct transfer *find_sending(struct transfer_ledger *ledger, struct transfer_grant grant) {
    struct transfer *transfer = find(ledger, TRANSFER_OUT, grant);
    return transfer && transfer->state == TRANSFER_OPEN && !transfer->finished ? transfer : NULL;
}

bool transfer_ledger_hold(struct transfer_ledger *ledger, struct transfer_grant grant,
                          uint32_t *slot_out) {
    struct transfer *transfer = find_sending(ledger, grant);
    if (!transfer) return false;
    transfer->busy++;
    transfer->slice_count++;
    ledger->busy_count++;
    *slot_out = transfer_ledger_slot_of(ledger, transfer);
    return true;
}

void transfer_ledger_release(struct transfer_ledger *ledger, uint32_t slot) {
    struct transfer *transfer = &ledger->slots[slot];
    check(transfer->side == TRANSFER_OUT && transfer->busy > 0);
    transfer->busy--;
    ledger->busy_count--;
    transfer_ledger_settle(ledger, transfer);
}

bool transfer_ledger_finish_sending(struct transfer_ledger *ledger, struct transfer_grant grant,
                                    uint64_t *peer_out, uint64_t *slice_count_out) {
    struct transfer *transfer = find_sending(ledger, grant);
    if (!transfer) return false;
    transfer->finished = true;
    *peer_out = transfer->peer;
    *slice_count_out = transfer->slice_count;
    return true;
}

bool transfer_ledger_is_open(const struct transfer_ledger *ledger, uint32_t slot) {
    return ledger->slots[slot].state == TRANSFER_OPEN;
}

uint64_t transfer_ledger_peer(const struct transfer_ledger *ledger, uint32_t slot) {
    check(ledger->slots[slot].state != TRANSFER_FREE);
    return ledger->slots[slot].peer;
}

/* ---- audit ---- */

struct recount {
    uint32_t open, finishing, pages, busy, taken[TRANSFER_SIDE_COUNT];
};

static void audit_slices(const struct transfer_ledger *ledger, uint32_t slot,
                         struct recount *recount) {
    const struct transfer *transfer = &ledger->slots[slot];
    uint32_t busy = 0, layers = 0;
    uint64_t missing = 0;
    for (uint32_t page = transfer->first_page; page != TRANSFER_NONE;
         page = ledger->pages[page].next) {
        check(ledger->pages[page].slot == slot);
        check(map_find(&ledger->by_block, block_key(slot, ledger->pages[page].block)) == page);
        recount->pages++;
    }
    for (uint32_t slice = 0; slice < ledger->limits.slice_count; slice++) {
        uint32_t lacking = 0;
        for (uint32_t page = transfer->first_page; page != TRANSFER_NONE;
             page = ledger->pages[page].next) {
            uint8_t state = *transfer_ledger_state_of(ledger, page, slice);
            busy += state == SLICE_BUSY;
            lacking += state == SLICE_BUSY || state == SLICE_EXPECTED;
        }
        check(lacking == *missing_of(ledger, slot, slice));
        missing += lacking;
        layers += lacking == 0 && layers == slice;
    }
    check(missing == transfer->missing_count && layers == transfer->layers);
    check(busy == transfer->busy);
}

void transfer_ledger_audit(const struct transfer_ledger *ledger) {
    struct recount recount = {0};
    for (uint32_t slot = 0; slot < ledger->limits.grant_count; slot++) {
        const struct transfer *transfer = &ledger->slots[slot];
        if (transfer->state == TRANSFER_FREE) continue;
        check(find(ledger, transfer->side, transfer->grant) == transfer);
        check(transfer->state < TRANSFER_QUIET || transfer->busy == 0);
        check(transfer->state != TRANSFER_OPEN || transfer->deadline_ns >= ledger->deadline_ns);
        recount.open++;
        recount.finishing += transfer->state == TRANSFER_FINISHING;
        recount.busy += transfer->busy;
        recount.taken[transfer->side]++; /* ends that are not taken yet */
        if (transfer->side == TRANSFER_IN) audit_slices(ledger, slot, &recount);
    }
    check(recount.open == ledger->used_count && recount.open == ledger->by_grant.count);
    check(recount.finishing == ledger->finishing_count && recount.busy == ledger->busy_count);
    check(recount.pages == ledger->page_count && recount.pages == ledger->by_block.count);
    const struct transfer_counts *counts = &ledger->counts;
    check(counts->leased - counts->released == ledger->page_count);
    for (int side = 0; side < TRANSFER_SIDE_COUNT; side++)
        check(counts->opened[side] - counts->taken[side] == recount.taken[side]);
}
