/* SPDX-License-Identifier: Apache-2.0
 * A parcel is whatever will happen at one end of a connection at some time: a slice leaves, comes,
 * has been written; a finish or an end comes; a broken connection is noticed.
 */
#include "simulate/fleet_carriers.h"

#include "base/check.h"
#include "base/format.h"
#include "base/number.h"
#include "contract/kv_block.h"

enum { PARCELS_MAX = 4096, LINKS_MAX = 256, TICKETS_MAX = 24 };

#define DRAIN_NS_MAX FLEET_SECOND

/* Odds of a slice under faults: one in so many. */
enum { LOST_OF = 250, DAMAGED_OF = 250, DOUBLED_OF = 60, SLOW_OF = 40, SLOW_WRITE_OF = 200 };

struct fleet_link { /* from a sender to a receiver */
    uint64_t id;    /* at both ends; TRANSFER_NO_PEER: free */
    struct fleet_place from, to;
    bool broken;
    int64_t ready_ns, next_ns; /* it is open then; its last slice has left then */
};

enum parcel_kind {
    PARCEL_LEAVES, /* a slice, at its sender */
    PARCEL_COMES,  /* ... at its receiver */
    PARCEL_WRITTEN,
    PARCEL_FINISH,
    PARCEL_END,   /* of the other side's ticket */
    PARCEL_BROKEN /* this end notices that the link is */
};

struct fleet_parcel {
    int64_t due_ns;
    enum parcel_kind kind;
    struct fleet_place at; /* where it happens */
    uint64_t link;
    struct transfer_ticket ticket;
    uint32_t block, slice, row_count;
    struct page_id page;         /* LEAVES: where it stands */
    uint32_t slot;               /* LEAVES: of the ledger */
    struct transfer_write write; /* WRITTEN */
    uint64_t slice_count;        /* FINISH */
    enum transfer_end end;
    uint64_t checksum, salt;
    uint64_t rows[KV_BLOCK_TOKENS];
};

static const struct transfer_limits limits_max = {TICKETS_MAX, FLEET_PAGES_MAX, FLEET_SLICES};

static size_t ledger_bytes(void) {
    return round_up(transfer_ledger_bytes(&limits_max), 64);
}

size_t fleet_carriers_bytes(void) {
    return LINKS_MAX * sizeof(struct fleet_link) +
           PARCELS_MAX * (sizeof(struct fleet_parcel) + sizeof(uint32_t)) +
           FLEET_UNITS_MAX * FLEET_RANKS_MAX * (ledger_bytes() + 16) + 64;
}

bool fleet_carriers_open(struct fleet_carriers *carriers, struct arena *arena, uint64_t seed) {
    *carriers = (struct fleet_carriers){.dice = {.seed = seed, .stream = 1}};
    carriers->links = arena_take_zeroed(arena, LINKS_MAX * sizeof *carriers->links);
    carriers->parcels = arena_take(arena, PARCELS_MAX * sizeof *carriers->parcels);
    carriers->order = arena_take(arena, PARCELS_MAX * sizeof *carriers->order);
    bool all = carriers->links && carriers->parcels && carriers->order;
    for (uint32_t i = 0; all && i < PARCELS_MAX; i++)
        carriers->order[i] = i;
    for (uint32_t unit = 0; unit < FLEET_UNITS_MAX; unit++)
        for (uint32_t rank = 0; rank < FLEET_RANKS_MAX; rank++) {
            carriers->places[unit][rank].memory = arena_take(arena, ledger_bytes());
            all = all && carriers->places[unit][rank].memory;
        }
    return all;
}

/* ---- parcels --------------------------------------------------------------------------------- */

static struct fleet_parcel *first_parcel(const struct fleet_carriers *carriers) {
    return carriers->parcel_count ? &carriers->parcels[carriers->order[0]] : NULL;
}

/* Behind all that are due no later. */
static void add_parcel(struct fleet_carriers *carriers, const struct fleet_parcel *parcel) {
    check(carriers->parcel_count < PARCELS_MAX);
    uint32_t at = carriers->parcel_count, index = carriers->order[at];
    for (; at > 0 && carriers->parcels[carriers->order[at - 1]].due_ns > parcel->due_ns; at--)
        carriers->order[at] = carriers->order[at - 1];
    carriers->order[at] = index;
    carriers->parcels[index] = *parcel;
    carriers->parcel_count++;
}

static struct fleet_parcel take_parcel(struct fleet_carriers *carriers, uint32_t at) {
    uint32_t index = carriers->order[at];
    struct fleet_parcel parcel = carriers->parcels[index];
    carriers->parcel_count--;
    memmove(carriers->order + at, carriers->order + at + 1,
            (carriers->parcel_count - at) * sizeof *carriers->order);
    carriers->order[carriers->parcel_count] = index;
    return parcel;
}

/* ---- places ---------------------------------------------------------------------------------- */

/* NULL: it is another life's. */
static struct fleet_carrier *carrier_at(struct fleet_carriers *carriers, struct fleet_place place) {
    struct fleet_carrier *carrier = &carriers->places[place.unit][place.rank];
    return carrier->up && carrier->life == place.life ? carrier : NULL;
}

static bool same_place(struct fleet_place a, struct fleet_place b) {
    return a.unit == b.unit && a.rank == b.rank && a.life == b.life;
}

static void open_books(struct fleet_carriers *carriers, struct fleet_carrier *carrier) {
    struct arena arena;
    struct transfer_limits limits = limits_max;
    arena_over(&arena, carrier->memory, ledger_bytes());
    limits.page_count = carrier->engine->page_count;
    if (fleet_dice_below(&carriers->dice, 4) == 0)
        limits.ticket_count = 1 + fleet_dice_below(&carriers->dice, 4);
    enum status status = transfer_ledger_open(&carrier->ledger, &arena, &limits);
    check(status == STATUS_OK);
    carrier->journey_count = 0;
    carrier->stuck_ns = MACHINE_NEVER;
}

void fleet_carriers_start(struct fleet_carriers *carriers, struct fleet_place place,
                          struct fleet_engine *engine) {
    struct fleet_carrier *carrier = &carriers->places[place.unit][place.rank];
    carrier->up = true;
    carrier->dead = false;
    carrier->life = place.life;
    carrier->engine = engine;
    carriers->frozen_ns[place.unit] = 0;
    open_books(carriers, carrier);
}

void fleet_carriers_address(struct fleet_place place, char address[KV_ADDRESS_BYTES]) {
    memset(address, 0, KV_ADDRESS_BYTES);
    format_text(address, KV_ADDRESS_BYTES, "%u %u %u", place.unit, place.rank, place.life);
}

/* The digits up to a blank or the end. */
static uint32_t take_number(const char **text) {
    uint32_t value = 0;
    while (**text >= '0' && **text <= '9')
        value = value * 10 + (uint32_t)(*(*text)++ - '0');
    while (**text == ' ')
        ++*text;
    return value;
}

static struct fleet_place place_of(const char *address) {
    struct fleet_place place = {.unit = (uint8_t)take_number(&address)};
    place.rank = (uint8_t)take_number(&address);
    place.life = take_number(&address);
    check(place.unit < FLEET_UNITS_MAX && place.rank < FLEET_RANKS_MAX);
    return place;
}

/* ---- links ----------------------------------------------------------------------------------- */

static struct fleet_link *link_of(struct fleet_carriers *carriers, uint64_t id) {
    for (uint32_t i = 0; i < LINKS_MAX; i++)
        if (carriers->links[i].id == id) return &carriers->links[i];
    return NULL;
}

static bool is_broken(struct fleet_carriers *carriers, uint64_t id) {
    const struct fleet_link *link = link_of(carriers, id);
    return !link || link->broken;
}

static void notice(struct fleet_carriers *carriers, const struct fleet_link *link,
                   struct fleet_place at, int64_t due_ns) {
    struct fleet_parcel parcel = {
        .due_ns = due_ns, .kind = PARCEL_BROKEN, .at = at, .link = link->id};
    add_parcel(carriers, &parcel);
}

/* What is on the way is lost; both ends hear of it some time. */
static void break_link(struct fleet_carriers *carriers, struct fleet_link *link, int64_t now_ns) {
    if (link->broken) return;
    link->broken = true;
    for (uint32_t at = carriers->parcel_count; at-- > 0;) {
        const struct fleet_parcel *parcel = &carriers->parcels[carriers->order[at]];
        if (parcel->link == link->id &&
            (parcel->kind == PARCEL_COMES || parcel->kind == PARCEL_FINISH ||
             parcel->kind == PARCEL_END))
            take_parcel(carriers, at);
    }
    struct fleet_place ends[2] = {link->from, link->to};
    for (int i = 0; i < 2; i++)
        notice(carriers, link, ends[i],
               now_ns + fleet_dice_time(&carriers->dice, 0, 3 * FLEET_SECOND));
}

static struct fleet_link *open_link(struct fleet_carriers *carriers, struct fleet_place from,
                                    struct fleet_place to, int64_t now_ns) {
    struct fleet_link *link = NULL;
    for (uint32_t i = 0; i < LINKS_MAX; i++) {
        struct fleet_link *other = &carriers->links[i];
        if (other->id != TRANSFER_NO_PEER && !other->broken && same_place(other->from, from) &&
            same_place(other->to, to))
            return other;
        if (other->id == TRANSFER_NO_PEER) link = other;
    }
    check(link);
    *link = (struct fleet_link){.id = ++carriers->links_opened, .from = from, .to = to};
    link->ready_ns = link->next_ns =
        now_ns + fleet_dice_time(&carriers->dice, FLEET_MS / 10, 30 * FLEET_MS);
    const struct fleet_carrier *target = carrier_at(carriers, to);
    bool reached = target && !target->dead && carriers->cut_ns[from.unit][to.unit] <= now_ns;
    if (!reached) break_link(carriers, link, now_ns);
    return link;
}

/* A link whose ends are both gone or know that it is broken. */
static void forget_link(struct fleet_carriers *carriers, uint64_t id) {
    struct fleet_link *link = link_of(carriers, id);
    for (uint32_t at = 0; at < carriers->parcel_count; at++) {
        const struct fleet_parcel *parcel = &carriers->parcels[carriers->order[at]];
        if (parcel->kind == PARCEL_BROKEN && parcel->link == id) return;
    }
    if (link) link->id = TRANSFER_NO_PEER;
}

/* ---- journeys -------------------------------------------------------------------------------- */

static struct fleet_journey *find(struct fleet_carrier *carrier, struct request_id request) {
    for (uint32_t i = 0; i < carrier->journey_count; i++)
        if (request_id_equal(carrier->journeys[i].request, request)) return &carrier->journeys[i];
    return NULL;
}

static void say_done(struct fleet_carriers *carriers, struct fleet_place place,
                     struct request_id request, bool arrived, uint32_t blocks) {
    struct record_kv_done done = {.record = {RECORD_VERSION, RECORD_KV_DONE, sizeof done},
                                  .request = request,
                                  .rank = place.rank,
                                  .arrived = arrived,
                                  .blocks = blocks};
    carriers->say(carriers->context, place.unit, &done.record);
}

static struct fleet_journey *begin(struct fleet_carrier *carrier, struct request_id request,
                                   const uint64_t ticket[2], enum transfer_side side) {
    check(carrier->journey_count < FLEET_JOURNEYS_MAX && !find(carrier, request));
    struct fleet_journey *journey = &carrier->journeys[carrier->journey_count++];
    *journey = (struct fleet_journey){
        .request = request, .ticket = {.high = ticket[0], .low = ticket[1]}, .side = side};
    return journey;
}

/* Its one and only end. */
static void end(struct fleet_carriers *carriers, struct fleet_place place,
                struct fleet_journey *journey, bool arrived, uint32_t blocks) {
    struct fleet_carrier *carrier = carrier_at(carriers, place);
    struct request_id request = journey->request;
    carriers->counts.arrived += arrived && journey->side == TRANSFER_IN;
    carriers->counts.failed += !arrived && journey->side == TRANSFER_IN;
    *journey = carrier->journeys[--carrier->journey_count];
    say_done(carriers, place, request, arrived, blocks);
}

static void add_pages(struct fleet_journey *journey, const void *pages, uint32_t count) {
    check(journey->block_count + count <= FLEET_PROMPT_BLOCKS_MAX);
    if (count) memcpy(journey->pages + journey->block_count, pages, count * sizeof(struct page_id));
    journey->block_count += count;
}

static uint32_t rows_of(const struct fleet_journey *journey, uint32_t block) {
    return kv_block_rows(journey->token_count, journey->first_block + block);
}

static void expect(struct fleet_carriers *carriers, struct fleet_place place,
                   const struct record_kv_expect *record, int64_t now_ns) {
    struct fleet_carrier *carrier = carrier_at(carriers, place);
    struct fleet_journey *journey = begin(carrier, record->request, record->ticket, TRANSFER_IN);
    struct transfer_block blocks[FLEET_PROMPT_BLOCKS_MAX];
    struct error error;
    journey->first_block = record->first_block;
    journey->token_count = record->token_count;
    add_pages(journey, record_tail_at(record, sizeof *record), record->page_count);
    for (uint32_t i = 0; i < record->page_count; i++)
        blocks[i] = (struct transfer_block){.page = journey->pages[i],
                                            .row_count = rows_of(journey, i),
                                            .slice_count = FLEET_SLICES};
    if (transfer_ledger_expect(&carrier->ledger, journey->ticket, blocks, record->page_count,
                               now_ns + carriers->transfer_ns_max, &error))
        end(carriers, place, journey, false, 0);
}

static void send_slice(struct fleet_carriers *carriers, struct fleet_place place,
                       const struct fleet_journey *journey, uint32_t block, uint32_t slice,
                       int64_t now_ns) {
    struct fleet_carrier *carrier = carrier_at(carriers, place);
    struct fleet_parcel parcel = {.kind = PARCEL_LEAVES,
                                  .at = place,
                                  .ticket = journey->ticket,
                                  .block = block,
                                  .slice = slice,
                                  .row_count = rows_of(journey, block),
                                  .page = journey->pages[block]};
    if (!transfer_ledger_hold(&carrier->ledger, journey->ticket, &parcel.slot)) return;
    parcel.link = transfer_ledger_peer(&carrier->ledger, parcel.slot);
    struct fleet_link *link = link_of(carriers, parcel.link);
    check(link);
    if (link->next_ns < now_ns) link->next_ns = now_ns;
    link->next_ns += fleet_dice_time(&carriers->dice, FLEET_MS / 100, carriers->slice_ns_max);
    parcel.due_ns = link->next_ns;
    add_parcel(carriers, &parcel);
}

static void send_finish(struct fleet_carriers *carriers, struct fleet_place place,
                        struct transfer_ticket ticket, int64_t now_ns) {
    struct fleet_carrier *carrier = carrier_at(carriers, place);
    struct fleet_parcel parcel = {.kind = PARCEL_FINISH, .ticket = ticket};
    if (!transfer_ledger_close(&carrier->ledger, ticket, &parcel.link, &parcel.slice_count)) return;
    struct fleet_link *link = link_of(carriers, parcel.link);
    if (!link || link->broken) return;
    parcel.at = link->to;
    parcel.due_ns = (link->next_ns > now_ns ? link->next_ns : now_ns) +
                    fleet_dice_time(&carriers->dice, 0, carriers->latency_ns_max);
    add_parcel(carriers, &parcel);
}

static void push(struct fleet_carriers *carriers, struct fleet_place place,
                 const struct record_kv_push *record, int64_t now_ns) {
    struct fleet_carrier *carrier = carrier_at(carriers, place);
    struct fleet_journey *journey = find(carrier, record->request);
    struct error error;
    if (!journey && !record->first) return; /* it has ended meanwhile */
    if (!journey) {
        struct fleet_place to = place_of(record->route.address);
        struct fleet_link *link = open_link(carriers, place, to, now_ns);
        journey = begin(carrier, record->request, record->route.ticket, TRANSFER_OUT);
        journey->first_block = record->first_block;
        if (transfer_ledger_offer(&carrier->ledger, journey->ticket, link->id,
                                  now_ns + carriers->transfer_ns_max, &error)) {
            end(carriers, place, journey, false, 0);
            return;
        }
    }
    check(record->first_block == journey->first_block + journey->block_count);
    journey->token_count = record->token_count;
    add_pages(journey, record_tail_at(record, sizeof *record), record->page_count);
    journey->named = record->last;
    uint32_t whole = journey->block_count - record->making_count;
    for (; journey->sent_blocks < whole; journey->sent_blocks++) {
        uint32_t slice = journey->sent_blocks < journey->made_end ? journey->sent_slices : 0;
        for (; slice < FLEET_SLICES; slice++)
            send_slice(carriers, place, journey, journey->sent_blocks, slice, now_ns);
    }
    journey->sent_slices = 0;
    journey->made_end = journey->block_count;
    journey->step = record->step;
    if (!journey->named || journey->finished) return;
    journey->finished = true;
    send_finish(carriers, place, journey->ticket, now_ns);
}

void fleet_carriers_progress(struct fleet_carriers *carriers, uint32_t unit, uint32_t rank,
                             uint64_t step, uint32_t slices, int64_t now_ns) {
    struct fleet_carrier *carrier = &carriers->places[unit][rank];
    struct fleet_place place = {(uint8_t)unit, (uint8_t)rank, carrier->life};
    for (uint32_t i = 0; i < carrier->journey_count && !carrier->dead; i++) {
        struct fleet_journey *journey = &carrier->journeys[i];
        if (journey->side != TRANSFER_OUT || journey->step != step) continue;
        for (; journey->sent_slices < slices; journey->sent_slices++)
            for (uint32_t block = journey->sent_blocks; block < journey->made_end; block++)
                send_slice(carriers, place, journey, block, journey->sent_slices, now_ns);
    }
}

static void cancel(struct fleet_carriers *carriers, struct fleet_carrier *carrier,
                   struct request_id request) {
    struct fleet_journey *journey = find(carrier, request);
    if (journey)
        transfer_ledger_end(&carrier->ledger, journey->side, journey->ticket, TRANSFER_CANCELLED,
                            "cancelled");
}

/* A rank whose process is gone: every transfer begins and ends at once. */
static void answer_for_dead(struct fleet_carriers *carriers, struct fleet_place place,
                            const struct record *record) {
    bool begins =
        record->kind == RECORD_KV_EXPECT ||
        (record->kind == RECORD_KV_PUSH && ((const struct record_kv_push *)record)->first);
    if (begins) say_done(carriers, place, record_request(record), false, 0);
}

/* ---- what happens ---------------------------------------------------------------------------- */

static void tell_end(struct fleet_carriers *carriers, struct fleet_place from, uint64_t link_id,
                     struct transfer_ticket ticket, enum transfer_end how, int64_t now_ns) {
    struct fleet_link *link = link_of(carriers, link_id);
    struct fleet_parcel parcel = {
        .kind = PARCEL_END, .link = link_id, .ticket = ticket, .end = how};
    if (!link || link->broken) return;
    parcel.at = same_place(from, link->from) ? link->to : link->from;
    parcel.due_ns =
        now_ns + fleet_dice_time(&carriers->dice, FLEET_MS / 100, carriers->latency_ns_max);
    add_parcel(carriers, &parcel);
}

/* A slice is read from its page, and is on its way. */
static void leave(struct fleet_carriers *carriers, struct fleet_carrier *carrier,
                  struct fleet_parcel *parcel) {
    struct fleet_dice *dice = &carriers->dice;
    bool open = transfer_ledger_is_open(&carrier->ledger, parcel->slot);
    struct fleet_link *link = link_of(carriers, parcel->link);
    const struct fleet_page *page = &carrier->engine->pages[parcel->page.index];
    memcpy(parcel->rows, page->rows[parcel->slice], sizeof parcel->rows);
    transfer_ledger_release(&carrier->ledger, parcel->slot);
    if (!open || !link || link->broken) return;
    parcel->salt = page->salt;
    parcel->checksum = fleet_engine_checksum(parcel->rows, parcel->row_count);
    parcel->kind = PARCEL_COMES;
    parcel->at = link->to;
    bool slow = fleet_dice_below(dice, SLOW_OF) == 0;
    parcel->due_ns +=
        fleet_dice_time(dice, FLEET_MS / 100, carriers->latency_ns_max * (slow ? 50 : 1));
    if (carriers->faults && fleet_dice_below(dice, DOUBLED_OF) == 0) {
        struct fleet_parcel twin = *parcel;
        twin.due_ns += fleet_dice_time(dice, 0, 3 * FLEET_SECOND);
        carriers->counts.doubled++;
        add_parcel(carriers, &twin);
    }
    if (carriers->faults && fleet_dice_below(dice, LOST_OF) == 0) {
        carriers->counts.lost++;
        return;
    }
    if (carriers->faults && fleet_dice_below(dice, DAMAGED_OF) == 0)
        parcel->rows[fleet_dice_below(dice, parcel->row_count)] ^= 1;
    add_parcel(carriers, parcel);
}

static void write_half(struct fleet_carrier *carrier, const struct fleet_parcel *parcel,
                       uint32_t from, uint32_t end) {
    struct fleet_page *page = &carrier->engine->pages[parcel->write.page.index];
    page->salt = parcel->salt;
    memcpy(&page->rows[parcel->slice][from], &parcel->rows[from],
           (end - from) * sizeof *parcel->rows);
}

static void come(struct fleet_carriers *carriers, struct fleet_carrier *carrier,
                 struct fleet_parcel *parcel, int64_t now_ns) {
    enum transfer_verdict verdict =
        transfer_ledger_arrive(&carrier->ledger, parcel->link, parcel->ticket, parcel->block,
                               parcel->slice, parcel->row_count, &parcel->write);
    if (verdict == TRANSFER_UNKNOWN || verdict == TRANSFER_FOREIGN)
        tell_end(carriers, parcel->at, parcel->link, parcel->ticket, TRANSFER_REFUSED, now_ns);
    carriers->counts.late += verdict == TRANSFER_UNKNOWN || verdict == TRANSFER_LATE;
    if (verdict != TRANSFER_ACCEPT) return;
    write_half(carrier, parcel, 0, parcel->row_count / 2);
    bool slow = carriers->faults && fleet_dice_below(&carriers->dice, SLOW_WRITE_OF) == 0;
    parcel->kind = PARCEL_WRITTEN;
    parcel->due_ns = now_ns + fleet_dice_time(&carriers->dice, FLEET_MS / 100,
                                              slow ? 2 * FLEET_SECOND : FLEET_MS);
    add_parcel(carriers, parcel);
}

static void written(struct fleet_carriers *carriers, struct fleet_carrier *carrier,
                    const struct fleet_parcel *parcel) {
    enum transfer_written how = TRANSFER_BROKEN;
    if (!is_broken(carriers, parcel->link)) {
        const uint64_t *rows = carrier->engine->pages[parcel->write.page.index].rows[parcel->slice];
        write_half(carrier, parcel, parcel->row_count / 2, parcel->row_count);
        bool fits = fleet_engine_checksum(rows, parcel->row_count) == parcel->checksum;
        carriers->counts.damaged += !fits;
        how = fits ? TRANSFER_WRITTEN : TRANSFER_SPOILT;
    }
    transfer_ledger_written(&carrier->ledger, &parcel->write, how);
}

/* Slices of this link that are being written will not be. */
static void give_up_writes(struct fleet_carriers *carriers, struct fleet_place place,
                           uint64_t link) {
    struct fleet_carrier *carrier = carrier_at(carriers, place);
    for (uint32_t at = carriers->parcel_count; at-- > 0;) {
        const struct fleet_parcel *parcel = &carriers->parcels[carriers->order[at]];
        if (parcel->kind != PARCEL_WRITTEN || parcel->link != link ||
            !same_place(parcel->at, place))
            continue;
        struct fleet_parcel given = take_parcel(carriers, at);
        transfer_ledger_written(&carrier->ledger, &given.write, TRANSFER_BROKEN);
    }
}

static void happen(struct fleet_carriers *carriers, struct fleet_parcel *parcel, int64_t now_ns) {
    struct fleet_carrier *carrier = carrier_at(carriers, parcel->at);
    if (carrier && carrier->dead) carrier = NULL;
    if (!carrier && parcel->kind != PARCEL_BROKEN) return;
    switch (parcel->kind) {
    case PARCEL_LEAVES:
        parcel->due_ns = now_ns;
        leave(carriers, carrier, parcel);
        break;
    case PARCEL_COMES:
        come(carriers, carrier, parcel, now_ns);
        break;
    case PARCEL_WRITTEN:
        written(carriers, carrier, parcel);
        break;
    case PARCEL_FINISH: {
        enum transfer_verdict verdict = transfer_ledger_finish(
            &carrier->ledger, parcel->link, parcel->ticket, parcel->slice_count, NULL, 0);
        if (verdict == TRANSFER_UNKNOWN || verdict == TRANSFER_FOREIGN)
            tell_end(carriers, parcel->at, parcel->link, parcel->ticket, TRANSFER_REFUSED, now_ns);
        break;
    }
    case PARCEL_END: {
        const struct fleet_link *link = link_of(carriers, parcel->link);
        bool ours = link && same_place(link->from, parcel->at);
        transfer_ledger_end_by(&carrier->ledger, ours ? TRANSFER_OUT : TRANSFER_IN, parcel->link,
                               parcel->ticket, parcel->end, "the peer says so");
        break;
    }
    case PARCEL_BROKEN:
        if (carrier) {
            transfer_ledger_end_peer(&carrier->ledger, parcel->link, TRANSFER_PEER_LOST, NULL);
            give_up_writes(carriers, parcel->at, parcel->link);
        }
        forget_link(carriers, parcel->link);
    }
}

/* Slices of ended tickets need not leave. */
static void prune(struct fleet_carriers *carriers, struct fleet_place place) {
    struct fleet_carrier *carrier = carrier_at(carriers, place);
    for (uint32_t at = carriers->parcel_count; at-- > 0;) {
        const struct fleet_parcel *parcel = &carriers->parcels[carriers->order[at]];
        if (parcel->kind != PARCEL_LEAVES || !same_place(parcel->at, place) ||
            transfer_ledger_is_open(&carrier->ledger, parcel->slot))
            continue;
        struct fleet_parcel pruned = take_parcel(carriers, at);
        transfer_ledger_release(&carrier->ledger, pruned.slot);
    }
}

static void tell_owners(struct fleet_carriers *carriers, struct fleet_place place, int64_t now_ns) {
    struct fleet_carrier *carrier = carrier_at(carriers, place);
    struct transfer_ended ended;
    while (transfer_ledger_take(&carrier->ledger, &ended)) {
        carriers->counts.ended[ended.end]++;
        for (uint32_t i = 0; i < carrier->journey_count; i++) {
            struct fleet_journey *journey = &carrier->journeys[i];
            if (journey->side != ended.side ||
                !transfer_ticket_equal(journey->ticket, ended.ticket))
                continue;
            fleet_log_request(carriers->log, now_ns, transfer_end_name(ended.end), place.unit,
                              place.rank, journey->request, ended.side, ended.end);
            end(carriers, place, journey, ended.end == TRANSFER_DONE, ended.blocks);
            break;
        }
    }
}

static void tend(struct fleet_carriers *carriers, struct fleet_place place, int64_t now_ns) {
    struct fleet_carrier *carrier = carrier_at(carriers, place);
    struct transfer_ledger *ledger = &carrier->ledger;
    struct transfer_ended ended;
    transfer_ledger_expire(ledger, now_ns);
    if (ledger->ending_count) prune(carriers, place);
    uint64_t stuck = transfer_ledger_stuck(ledger, DRAIN_NS_MAX, now_ns, &carrier->stuck_ns);
    struct fleet_link *link = stuck == TRANSFER_NO_PEER ? NULL : link_of(carriers, stuck);
    if (link) {
        break_link(carriers, link, now_ns);
        give_up_writes(carriers, place, stuck);
    }
    while (transfer_ledger_announce(ledger, &ended)) {
        bool told = ended.side == TRANSFER_OUT && ended.end == TRANSFER_DONE;
        if (ended.peer != TRANSFER_NO_PEER && !told)
            tell_end(carriers, place, ended.peer, ended.ticket, ended.end, now_ns);
    }
    tell_owners(carriers, place, now_ns);
}

static bool stands_still(const struct fleet_carriers *carriers, uint32_t unit, int64_t now_ns) {
    return carriers->frozen_ns[unit] > now_ns;
}

void fleet_carriers_run(struct fleet_carriers *carriers, int64_t now_ns) {
    struct fleet_parcel *first;
    while ((first = first_parcel(carriers)) && first->due_ns <= now_ns) {
        struct fleet_parcel parcel = take_parcel(carriers, 0);
        if (stands_still(carriers, parcel.at.unit, now_ns)) {
            parcel.due_ns = carriers->frozen_ns[parcel.at.unit];
            add_parcel(carriers, &parcel);
            continue;
        }
        happen(carriers, &parcel, now_ns);
    }
    for (uint32_t unit = 0; unit < FLEET_UNITS_MAX; unit++)
        for (uint32_t rank = 0; rank < FLEET_RANKS_MAX; rank++) {
            const struct fleet_carrier *carrier = &carriers->places[unit][rank];
            if (!carrier->up || carrier->dead || stands_still(carriers, unit, now_ns)) continue;
            if (carrier->ledger.open_count == 0) continue;
            tend(carriers, (struct fleet_place){(uint8_t)unit, (uint8_t)rank, carrier->life},
                 now_ns);
        }
}

int64_t fleet_carriers_next_ns(const struct fleet_carriers *carriers) {
    const struct fleet_parcel *first = first_parcel(carriers);
    int64_t next_ns = first ? first->due_ns : MACHINE_NEVER;
    for (uint32_t unit = 0; unit < FLEET_UNITS_MAX; unit++)
        for (uint32_t rank = 0; rank < FLEET_RANKS_MAX; rank++) {
            const struct fleet_carrier *carrier = &carriers->places[unit][rank];
            if (!carrier->up || carrier->dead || carrier->ledger.open_count == 0) continue;
            int64_t due_ns = transfer_ledger_next_deadline(&carrier->ledger);
            if (carrier->stuck_ns < due_ns) due_ns = carrier->stuck_ns;
            if (due_ns < carriers->frozen_ns[unit]) due_ns = carriers->frozen_ns[unit];
            if (due_ns < next_ns) next_ns = due_ns;
        }
    return next_ns;
}

void fleet_carriers_take(struct fleet_carriers *carriers, uint32_t unit, uint32_t rank,
                         const struct record *record, int64_t now_ns) {
    struct fleet_carrier *carrier = &carriers->places[unit][rank];
    struct fleet_place place = {(uint8_t)unit, (uint8_t)rank, carrier->life};
    check(carrier->up);
    if (carrier->dead)
        answer_for_dead(carriers, place, record);
    else if (record->kind == RECORD_KV_EXPECT)
        expect(carriers, place, (const struct record_kv_expect *)record, now_ns);
    else if (record->kind == RECORD_KV_PUSH)
        push(carriers, place, (const struct record_kv_push *)record, now_ns);
    else
        cancel(carriers, carrier, record_request(record));
    if (!carrier->dead) tend(carriers, place, now_ns);
}

/* ---- faults ---------------------------------------------------------------------------------- */

static void break_links_of(struct fleet_carriers *carriers, uint32_t unit, uint32_t rank,
                           int64_t now_ns) {
    for (uint32_t i = 0; i < LINKS_MAX; i++) {
        struct fleet_link *link = &carriers->links[i];
        if (link->id == TRANSFER_NO_PEER) continue;
        if ((link->from.unit == unit && link->from.rank == rank) ||
            (link->to.unit == unit && link->to.rank == rank))
            break_link(carriers, link, now_ns);
    }
}

void fleet_carriers_bury(struct fleet_carriers *carriers, uint32_t unit, uint32_t rank,
                         int64_t now_ns) {
    struct fleet_carrier *carrier = &carriers->places[unit][rank];
    struct fleet_place place = {(uint8_t)unit, (uint8_t)rank, carrier->life};
    break_links_of(carriers, unit, rank, now_ns);
    carrier->dead = true;
    while (carrier->journey_count)
        end(carriers, place, &carrier->journeys[0], false, 0);
}

void fleet_carriers_stop(struct fleet_carriers *carriers, uint32_t unit, int64_t now_ns) {
    for (uint32_t rank = 0; rank < FLEET_RANKS_MAX; rank++) {
        if (!carriers->places[unit][rank].up) continue;
        break_links_of(carriers, unit, rank, now_ns);
        carriers->places[unit][rank].up = false;
        carriers->places[unit][rank].journey_count = 0;
    }
}

void fleet_carriers_cut(struct fleet_carriers *carriers, uint32_t unit, uint32_t other,
                        int64_t until_ns, int64_t now_ns) {
    carriers->cut_ns[unit][other] = carriers->cut_ns[other][unit] = until_ns;
    for (uint32_t i = 0; i < LINKS_MAX; i++) {
        struct fleet_link *link = &carriers->links[i];
        if (link->id == TRANSFER_NO_PEER) continue;
        if ((link->from.unit == unit && link->to.unit == other) ||
            (link->from.unit == other && link->to.unit == unit))
            break_link(carriers, link, now_ns);
    }
}

/* ---- audit ----------------------------------------------------------------------------------- */

uint32_t fleet_carriers_open_count(const struct fleet_carriers *carriers, uint32_t unit) {
    uint32_t count = 0;
    for (uint32_t rank = 0; rank < FLEET_RANKS_MAX; rank++) {
        const struct fleet_carrier *carrier = &carriers->places[unit][rank];
        if (carrier->up && !carrier->dead)
            count += carrier->journey_count + carrier->ledger.open_count;
    }
    return count;
}

void fleet_carriers_audit(const struct fleet_carriers *carriers) {
    for (uint32_t unit = 0; unit < FLEET_UNITS_MAX; unit++)
        for (uint32_t rank = 0; rank < FLEET_RANKS_MAX; rank++) {
            const struct fleet_carrier *carrier = &carriers->places[unit][rank];
            if (!carrier->up || carrier->dead) continue;
            transfer_ledger_audit(&carrier->ledger);
            check(carrier->ledger.open_count >= carrier->journey_count);
        }
}
