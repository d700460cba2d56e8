/* SPDX-License-Identifier: Apache-2.0
 * An event happens at one end of a connection: a slice leaves, arrives or has been written, the end
 * of a transfer arrives, or this end detects that the connection is broken.
 */
#include "simulate/pages/fleet_carriers.h"

#include "base/check.h"
#include "base/format.h"
#include "base/number.h"
#include "contract/kv_block.h"

enum { LINKS_MAX = 256, TICKETS_MAX = 24 };

#define EVENTS_BYTES ((size_t)8 << 20)

#define DRAIN_NS_MAX FLEET_SECOND

/* A fault strikes 1 in N slices, with these N. */
enum { LOST_OF = 250, DAMAGED_OF = 250, DOUBLED_OF = 60, SLOW_OF = 40, SLOW_WRITE_OF = 200 };

struct fleet_link { /* from a sender to a receiver */
    uint64_t id;    /* the same at both ends; TRANSFER_NO_PEER: unused */
    struct fleet_place from, to;
    bool broken;
    int64_t ready_ns, next_ns; /* when it is open; when its last slice has left */
};

enum fleet_link_event_kind {
    LINK_EVENT_LEAVES, /* a slice leaves its sender */
    LINK_EVENT_COMES,  /* a slice arrives at its receiver */
    LINK_EVENT_WRITTEN,
    LINK_EVENT_FINISH,
    LINK_EVENT_END,   /* the other side's grant ends */
    LINK_EVENT_BROKEN /* this end detects that the link is broken */
};

struct fleet_link_event {
    struct record record; /* for kernel/post; only its size is used */
    int64_t due_ns;
    enum fleet_link_event_kind kind;
    struct fleet_place at; /* the rank where the event happens */
    uint64_t link;
    struct transfer_grant grant;
    uint32_t block, slice, row_count;
    struct page_id page;         /* LEAVES: the page of the slice */
    uint32_t slot;               /* LEAVES: the slot in the ledger */
    struct transfer_write write; /* WRITTEN */
    uint64_t slice_count;        /* FINISH */
    enum transfer_end end;
    uint64_t checksum, salt;
    struct fleet_slice content;
};

static const struct transfer_limits limits_max = {TICKETS_MAX, FLEET_PAGES_MAX, FLEET_SLICES};

static size_t ledger_bytes(void) {
    return round_up(transfer_ledger_bytes(&limits_max), 64);
}

bool fleet_carriers_open(struct fleet_carriers *carriers, struct arena *arena, uint64_t seed) {
    *carriers = (struct fleet_carriers){.dice = {.seed = seed, .stream = 1}};
    carriers->links = arena_take_zeroed(arena, LINKS_MAX * sizeof *carriers->links);
    bool all = carriers->links && post_open(&carriers->events, arena, EVENTS_BYTES);
    for (uint32_t unit = 0; unit < FLEET_UNITS_MAX; unit++)
        for (uint32_t rank = 0; rank < FLEET_RANKS_MAX; rank++) {
            carriers->places[unit][rank].memory = arena_take(arena, ledger_bytes());
            all = all && carriers->places[unit][rank].memory;
        }
    return all;
}

/* ---- events ---- */

/* The pending event at an offset, by time, or NULL after the last one. */
static const struct fleet_link_event *event_at(const struct fleet_carriers *carriers, size_t at) {
    const struct post_message *message = post_at(&carriers->events, at);
    return message ? (const void *)&message->record : NULL;
}

static size_t event_after(const struct fleet_carriers *carriers, size_t at) {
    return at + post_at(&carriers->events, at)->bytes;
}

static void fleet_carriers_add_event(struct fleet_carriers *carriers,
                                     struct fleet_link_event *event) {
    event->record.bytes = sizeof *event;
    post_send(&carriers->events, event->due_ns, 0, &event->record);
}

static struct fleet_link_event fleet_carriers_take_event(struct fleet_carriers *carriers,
                                                         size_t at) {
    struct fleet_link_event event = *event_at(carriers, at);
    post_drop(&carriers->events, at);
    return event;
}

/* ---- places ---- */

/* The carrier of a rank, or NULL if the unit has another incarnation now. */
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
        limits.grant_count = 1 + fleet_dice_below(&carriers->dice, 4);
    enum status status = transfer_ledger_open(&carrier->ledger, &arena, &limits);
    check(status == STATUS_OK);
    carrier->orders = (struct transfer_orders){.orders = carrier->order_places,
                                               .capacity = FLEET_TRANSFERS_MAX,
                                               .slice_count = FLEET_SLICES};
    for (uint32_t i = 0; i < FLEET_TRANSFERS_MAX; i++)
        carrier->order_places[i] = (struct transfer_order){
            .pages = carrier->pages[i], .page_capacity = FLEET_PROMPT_BLOCKS_MAX};
    carrier->step = 0;
    carrier->written = 0;
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

/* Reads the digits up to a blank or the end of the text. */
static uint32_t fleet_carriers_take_number(const char **text) {
    uint32_t value = 0;
    while (**text >= '0' && **text <= '9')
        value = value * 10 + (uint32_t)(*(*text)++ - '0');
    while (**text == ' ')
        ++*text;
    return value;
}

static struct fleet_place fleet_carriers_place_of(const char *address) {
    struct fleet_place place = {.unit = (uint8_t)fleet_carriers_take_number(&address)};
    place.rank = (uint8_t)fleet_carriers_take_number(&address);
    place.life = fleet_carriers_take_number(&address);
    check(place.unit < FLEET_UNITS_MAX && place.rank < FLEET_RANKS_MAX);
    return place;
}

/* ---- links ---- */

static struct fleet_link *fleet_carriers_link_of(struct fleet_carriers *carriers, uint64_t id) {
    for (uint32_t i = 0; i < LINKS_MAX; i++)
        if (carriers->links[i].id == id) return &carriers->links[i];
    return NULL;
}

static bool is_broken(struct fleet_carriers *carriers, uint64_t id) {
    const struct fleet_link *link = fleet_carriers_link_of(carriers, id);
    return !link || link->broken;
}

static void notice(struct fleet_carriers *carriers, const struct fleet_link *link,
                   struct fleet_place at, int64_t due_ns) {
    struct fleet_link_event event = {
        .due_ns = due_ns, .kind = LINK_EVENT_BROKEN, .at = at, .link = link->id};
    fleet_carriers_add_event(carriers, &event);
}

/* Breaks a link. Slices in transit are lost. Each end detects the break at a different time. */
static void break_link(struct fleet_carriers *carriers, struct fleet_link *link, int64_t now_ns) {
    if (link->broken) return;
    link->broken = true;
    const struct fleet_link_event *event;
    for (size_t at = 0; (event = event_at(carriers, at));) {
        if (event->link == link->id &&
            (event->kind == LINK_EVENT_COMES || event->kind == LINK_EVENT_FINISH ||
             event->kind == LINK_EVENT_END))
            post_drop(&carriers->events, at);
        else
            at = event_after(carriers, at);
    }
    struct fleet_place ends[2] = {link->from, link->to};
    for (int i = 0; i < 2; i++)
        notice(carriers, link, ends[i],
               now_ns + fleet_dice_time(&carriers->dice, 0, 3 * FLEET_SECOND));
}

static struct fleet_link *fleet_carriers_open_link(struct fleet_carriers *carriers,
                                                   struct fleet_place from, struct fleet_place to,
                                                   int64_t now_ns) {
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

/* Frees a link if each end is gone or has detected the break. */
static void forget_link(struct fleet_carriers *carriers, uint64_t id) {
    struct fleet_link *link = fleet_carriers_link_of(carriers, id);
    const struct fleet_link_event *event;
    for (size_t at = 0; (event = event_at(carriers, at)); at = event_after(carriers, at))
        if (event->kind == LINK_EVENT_BROKEN && event->link == id) return;
    if (link) link->id = TRANSFER_NO_PEER;
}

/* ---- transfers ---- */

/* Ends a transfer. This happens exactly once. */
static void end(struct fleet_carriers *carriers, struct fleet_place place,
                struct transfer_order *order, bool arrived, uint32_t blocks) {
    struct fleet_carrier *carrier = carrier_at(carriers, place);
    carriers->counts.arrived += arrived && order->side == TRANSFER_IN;
    carriers->counts.failed += !arrived && order->side == TRANSFER_IN;
    struct record_kv_done done = transfer_orders_end(&carrier->orders, order, arrived, blocks);
    carriers->say(carriers->context, place.unit, &done.record);
}

static void fleet_carriers_expect(struct fleet_carriers *carriers, struct fleet_place place,
                                  const struct record_kv_expect *record, int64_t now_ns) {
    struct fleet_carrier *carrier = carrier_at(carriers, place);
    struct transfer_order *order = transfer_orders_begin(&carrier->orders, &record->record);
    struct transfer_block blocks[FLEET_PROMPT_BLOCKS_MAX];
    struct error error;
    transfer_orders_expect(order, record, blocks);
    if (transfer_ledger_expect(&carrier->ledger, order->grant, blocks, order->block_count,
                               now_ns + carriers->transfer_ns_max, &error))
        end(carriers, place, order, false, 0);
}

static void fleet_carriers_send_slice(struct fleet_carriers *carriers, struct fleet_place place,
                                      const struct transfer_order *order, uint32_t block,
                                      uint32_t slice, int64_t now_ns) {
    struct fleet_carrier *carrier = carrier_at(carriers, place);
    struct fleet_link_event event = {.kind = LINK_EVENT_LEAVES,
                                     .at = place,
                                     .grant = order->grant,
                                     .block = block,
                                     .slice = slice,
                                     .row_count = transfer_orders_rows(order, block),
                                     .page = order->pages[block]};
    if (!transfer_ledger_hold(&carrier->ledger, order->grant, &event.slot)) return;
    event.link = transfer_ledger_peer(&carrier->ledger, event.slot);
    struct fleet_link *link = fleet_carriers_link_of(carriers, event.link);
    check(link);
    if (link->next_ns < now_ns) link->next_ns = now_ns;
    link->next_ns += fleet_dice_time(&carriers->dice, FLEET_MS / 100, carriers->slice_ns_max);
    event.due_ns = link->next_ns;
    fleet_carriers_add_event(carriers, &event);
}

static void send_finish(struct fleet_carriers *carriers, struct fleet_place place,
                        struct transfer_grant grant, int64_t now_ns) {
    struct fleet_carrier *carrier = carrier_at(carriers, place);
    struct fleet_link_event event = {.kind = LINK_EVENT_FINISH, .grant = grant};
    if (!transfer_ledger_finish_sending(&carrier->ledger, grant, &event.link, &event.slice_count))
        return;
    struct fleet_link *link = fleet_carriers_link_of(carriers, event.link);
    if (!link || link->broken) return;
    event.at = link->to;
    event.due_ns = (link->next_ns > now_ns ? link->next_ns : now_ns) +
                   fleet_dice_time(&carriers->dice, 0, carriers->latency_ns_max);
    fleet_carriers_add_event(carriers, &event);
}

static void fleet_carriers_push_on(struct fleet_carriers *carriers, struct fleet_place place,
                                   struct transfer_order *order, int64_t now_ns) {
    struct fleet_carrier *carrier = carrier_at(carriers, place);
    uint32_t block, slice, written = carrier->step == order->step ? carrier->written : 0;
    while (transfer_orders_next(order, written, &block, &slice)) {
        fleet_carriers_send_slice(carriers, place, order, block, slice, now_ns);
        transfer_orders_advance(order);
    }
    if (transfer_orders_finish(order)) send_finish(carriers, place, order->grant, now_ns);
}

static void push(struct fleet_carriers *carriers, struct fleet_place place,
                 const struct record_kv_push *record, int64_t now_ns) {
    struct fleet_carrier *carrier = carrier_at(carriers, place);
    struct transfer_order *order = transfer_orders_find(&carrier->orders, record->request);
    struct error error;
    if (!order && !record->first) return; /* the transfer has already ended */
    if (!order) {
        struct fleet_place to = fleet_carriers_place_of(record->route.address);
        struct fleet_link *link = fleet_carriers_open_link(carriers, place, to, now_ns);
        order = transfer_orders_begin(&carrier->orders, &record->record);
        if (transfer_ledger_offer(&carrier->ledger, order->grant, link->id,
                                  now_ns + carriers->transfer_ns_max, &error)) {
            end(carriers, place, order, false, 0);
            return;
        }
    }
    transfer_orders_push(order, record);
    fleet_carriers_push_on(carriers, place, order, now_ns);
}

void fleet_carriers_progress(struct fleet_carriers *carriers, uint32_t unit, uint32_t rank,
                             uint64_t step, uint32_t slices, int64_t now_ns) {
    struct fleet_carrier *carrier = &carriers->places[unit][rank];
    struct fleet_place place = {(uint8_t)unit, (uint8_t)rank, carrier->life};
    carrier->step = step;
    carrier->written = slices;
    for (uint32_t i = 0; i < carrier->orders.count && !carrier->dead; i++) {
        struct transfer_order *order = &carrier->orders.orders[i];
        if (order->side == TRANSFER_OUT) fleet_carriers_push_on(carriers, place, order, now_ns);
    }
}

static void fleet_carriers_cancel(struct fleet_carriers *carriers, struct fleet_carrier *carrier,
                                  struct request_id request) {
    const struct transfer_order *order = transfer_orders_find(&carrier->orders, request);
    if (order)
        transfer_ledger_end(&carrier->ledger, order->side, order->grant, TRANSFER_CANCELLED,
                            "cancelled");
}

/* Answers for a rank without a process: its transfers begin and end at once, as failed. */
static void answer_for_dead(struct fleet_carriers *carriers, struct fleet_place place,
                            const struct record *record) {
    bool begins =
        record->kind == RECORD_KV_EXPECT ||
        (record->kind == RECORD_KV_PUSH && ((const struct record_kv_push *)record)->first);
    struct transfer_orders *orders = &carrier_at(carriers, place)->orders;
    if (begins) end(carriers, place, transfer_orders_begin(orders, record), false, 0);
}

/* ---- events that are due ---- */

static void fleet_carriers_report_end(struct fleet_carriers *carriers, struct fleet_place from,
                                      uint64_t link_id, struct transfer_grant grant,
                                      enum transfer_end how, int64_t now_ns) {
    struct fleet_link *link = fleet_carriers_link_of(carriers, link_id);
    struct fleet_link_event event = {
        .kind = LINK_EVENT_END, .link = link_id, .grant = grant, .end = how};
    if (!link || link->broken) return;
    event.at = same_place(from, link->from) ? link->to : link->from;
    event.due_ns =
        now_ns + fleet_dice_time(&carriers->dice, FLEET_MS / 100, carriers->latency_ns_max);
    fleet_carriers_add_event(carriers, &event);
}

/* Reads a slice from its page and sends it. */
static void fleet_carriers_leave(struct fleet_carriers *carriers, struct fleet_carrier *carrier,
                                 struct fleet_link_event *event) {
    struct fleet_dice *dice = &carriers->dice;
    bool open = transfer_ledger_is_open(&carrier->ledger, event->slot);
    struct fleet_link *link = fleet_carriers_link_of(carriers, event->link);
    const struct fleet_page *page = &carrier->engine->pages[event->page.index];
    fleet_engine_copy(&event->content, &page->slices[event->slice], 0, event->row_count);
    transfer_ledger_release(&carrier->ledger, event->slot);
    if (!open || !link || link->broken) return;
    event->salt = page->salt;
    event->checksum = fleet_engine_checksum(&event->content, event->row_count);
    event->kind = LINK_EVENT_COMES;
    event->at = link->to;
    bool slow = fleet_dice_below(dice, SLOW_OF) == 0;
    event->due_ns +=
        fleet_dice_time(dice, FLEET_MS / 100, carriers->latency_ns_max * (slow ? 50 : 1));
    if (carriers->faults && fleet_dice_below(dice, DOUBLED_OF) == 0) {
        struct fleet_link_event second = *event;
        second.due_ns += fleet_dice_time(dice, 0, 3 * FLEET_SECOND);
        fleet_carriers_add_event(carriers, &second);
    }
    if (carriers->faults && fleet_dice_below(dice, LOST_OF) == 0) return;
    if (carriers->faults && fleet_dice_below(dice, DAMAGED_OF) == 0) {
        uint32_t at = fleet_dice_below(dice, FLEET_GROUPS * event->row_count);
        event->content.groups[at / event->row_count][at % event->row_count] ^= 1;
    }
    fleet_carriers_add_event(carriers, event);
}

static void write_half(struct fleet_carrier *carrier, const struct fleet_link_event *event,
                       uint32_t from, uint32_t end) {
    struct fleet_page *page = &carrier->engine->pages[event->write.page.index];
    page->salt = event->salt;
    fleet_engine_copy(&page->slices[event->slice], &event->content, from, end);
}

static void come(struct fleet_carriers *carriers, struct fleet_carrier *carrier,
                 struct fleet_link_event *event, int64_t now_ns) {
    enum transfer_verdict verdict =
        transfer_ledger_arrive(&carrier->ledger, event->link, event->grant, event->block,
                               event->slice, event->row_count, &event->write);
    if (verdict == TRANSFER_UNKNOWN || verdict == TRANSFER_FOREIGN)
        fleet_carriers_report_end(carriers, event->at, event->link, event->grant, TRANSFER_REFUSED,
                                  now_ns);
    carriers->counts.late += verdict == TRANSFER_UNKNOWN || verdict == TRANSFER_LATE;
    if (verdict != TRANSFER_ACCEPT) return;
    write_half(carrier, event, 0, event->row_count / 2);
    bool slow = carriers->faults && fleet_dice_below(&carriers->dice, SLOW_WRITE_OF) == 0;
    event->kind = LINK_EVENT_WRITTEN;
    event->due_ns = now_ns + fleet_dice_time(&carriers->dice, FLEET_MS / 100,
                                             slow ? 2 * FLEET_SECOND : FLEET_MS);
    fleet_carriers_add_event(carriers, event);
}

static void fleet_carriers_written(struct fleet_carriers *carriers, struct fleet_carrier *carrier,
                                   const struct fleet_link_event *event) {
    enum transfer_written how = TRANSFER_BROKEN;
    if (!is_broken(carriers, event->link)) {
        const struct fleet_page *page = &carrier->engine->pages[event->write.page.index];
        write_half(carrier, event, event->row_count / 2, event->row_count);
        bool fits =
            fleet_engine_checksum(&page->slices[event->slice], event->row_count) == event->checksum;
        how = fits ? TRANSFER_WRITTEN : TRANSFER_SPOILT;
    }
    transfer_ledger_written(&carrier->ledger, &event->write, how);
}

/* Drops the slices of this link that are being written. */
static void give_up_writes(struct fleet_carriers *carriers, struct fleet_place place,
                           uint64_t link) {
    struct fleet_carrier *carrier = carrier_at(carriers, place);
    const struct fleet_link_event *event;
    for (size_t at = 0; (event = event_at(carriers, at));) {
        if (event->kind != LINK_EVENT_WRITTEN || event->link != link ||
            !same_place(event->at, place)) {
            at = event_after(carriers, at);
            continue;
        }
        struct fleet_link_event given = fleet_carriers_take_event(carriers, at);
        transfer_ledger_written(&carrier->ledger, &given.write, TRANSFER_BROKEN);
    }
}

static void fleet_carriers_happen(struct fleet_carriers *carriers, struct fleet_link_event *event,
                                  int64_t now_ns) {
    struct fleet_carrier *carrier = carrier_at(carriers, event->at);
    if (carrier && carrier->dead) carrier = NULL;
    if (!carrier && event->kind != LINK_EVENT_BROKEN) return;
    switch (event->kind) {
    case LINK_EVENT_LEAVES:
        event->due_ns = now_ns;
        fleet_carriers_leave(carriers, carrier, event);
        break;
    case LINK_EVENT_COMES:
        come(carriers, carrier, event, now_ns);
        break;
    case LINK_EVENT_WRITTEN:
        fleet_carriers_written(carriers, carrier, event);
        break;
    case LINK_EVENT_FINISH: {
        enum transfer_verdict verdict = transfer_ledger_finish(
            &carrier->ledger, event->link, event->grant, event->slice_count, NULL, 0);
        if (verdict == TRANSFER_UNKNOWN || verdict == TRANSFER_FOREIGN)
            fleet_carriers_report_end(carriers, event->at, event->link, event->grant,
                                      TRANSFER_REFUSED, now_ns);
        break;
    }
    case LINK_EVENT_END: {
        const struct fleet_link *link = fleet_carriers_link_of(carriers, event->link);
        bool ours = link && same_place(link->from, event->at);
        transfer_ledger_end_by(&carrier->ledger, ours ? TRANSFER_OUT : TRANSFER_IN, event->link,
                               event->grant, event->end, "the peer says so");
        break;
    }
    case LINK_EVENT_BROKEN:
        if (carrier) {
            transfer_ledger_end_peer(&carrier->ledger, event->link, TRANSFER_PEER_LOST, NULL);
            give_up_writes(carriers, event->at, event->link);
        }
        forget_link(carriers, event->link);
    }
}

/* Drops the slices of grants that have ended. */
static void fleet_carriers_prune(struct fleet_carriers *carriers, struct fleet_place place) {
    struct fleet_carrier *carrier = carrier_at(carriers, place);
    const struct fleet_link_event *event;
    for (size_t at = 0; (event = event_at(carriers, at));) {
        if (event->kind != LINK_EVENT_LEAVES || !same_place(event->at, place) ||
            transfer_ledger_is_open(&carrier->ledger, event->slot)) {
            at = event_after(carriers, at);
            continue;
        }
        struct fleet_link_event pruned = fleet_carriers_take_event(carriers, at);
        transfer_ledger_release(&carrier->ledger, pruned.slot);
    }
}

static void notify_owners(struct fleet_carriers *carriers, struct fleet_place place,
                          int64_t now_ns) {
    struct fleet_carrier *carrier = carrier_at(carriers, place);
    struct transfer_ended ended;
    while (transfer_ledger_take(&carrier->ledger, &ended)) {
        struct transfer_order *order = transfer_orders_ended(&carrier->orders, &ended);
        if (!order) continue;
        fleet_log_request(carriers->log, now_ns, transfer_ledger_end_name(ended.end), place.unit,
                          place.rank, order->request, ended.side, ended.end);
        end(carriers, place, order, ended.end == TRANSFER_DONE, ended.blocks);
    }
}

static void tend(struct fleet_carriers *carriers, struct fleet_place place, int64_t now_ns) {
    struct fleet_carrier *carrier = carrier_at(carriers, place);
    struct transfer_ledger *ledger = &carrier->ledger;
    struct transfer_ended ended;
    transfer_ledger_expire(ledger, now_ns);
    if (ledger->finishing_count) fleet_carriers_prune(carriers, place);
    uint64_t stuck = transfer_ledger_stuck(ledger, DRAIN_NS_MAX, now_ns, &carrier->stuck_ns);
    struct fleet_link *link =
        stuck == TRANSFER_NO_PEER ? NULL : fleet_carriers_link_of(carriers, stuck);
    if (link) {
        break_link(carriers, link, now_ns);
        give_up_writes(carriers, place, stuck);
    }
    while (transfer_ledger_announce(ledger, &ended)) {
        bool reported = ended.side == TRANSFER_OUT && ended.end == TRANSFER_DONE;
        if (ended.peer != TRANSFER_NO_PEER && !reported)
            fleet_carriers_report_end(carriers, place, ended.peer, ended.grant, ended.end, now_ns);
    }
    notify_owners(carriers, place, now_ns);
}

static bool stands_still(const struct fleet_carriers *carriers, uint32_t unit, int64_t now_ns) {
    return carriers->frozen_ns[unit] > now_ns;
}

void fleet_carriers_run(struct fleet_carriers *carriers, int64_t now_ns) {
    while (post_next_ns(&carriers->events) <= now_ns) {
        struct fleet_link_event event = fleet_carriers_take_event(carriers, 0);
        if (stands_still(carriers, event.at.unit, now_ns)) {
            event.due_ns = carriers->frozen_ns[event.at.unit];
            fleet_carriers_add_event(carriers, &event);
            continue;
        }
        fleet_carriers_happen(carriers, &event, now_ns);
    }
    for (uint32_t unit = 0; unit < FLEET_UNITS_MAX; unit++)
        for (uint32_t rank = 0; rank < FLEET_RANKS_MAX; rank++) {
            const struct fleet_carrier *carrier = &carriers->places[unit][rank];
            if (!carrier->up || carrier->dead || stands_still(carriers, unit, now_ns)) continue;
            if (carrier->ledger.used_count == 0) continue;
            tend(carriers, (struct fleet_place){(uint8_t)unit, (uint8_t)rank, carrier->life},
                 now_ns);
        }
}

int64_t fleet_carriers_next_ns(const struct fleet_carriers *carriers) {
    int64_t next_ns = post_next_ns(&carriers->events);
    for (uint32_t unit = 0; unit < FLEET_UNITS_MAX; unit++)
        for (uint32_t rank = 0; rank < FLEET_RANKS_MAX; rank++) {
            const struct fleet_carrier *carrier = &carriers->places[unit][rank];
            if (!carrier->up || carrier->dead || carrier->ledger.used_count == 0) continue;
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
        fleet_carriers_expect(carriers, place, (const struct record_kv_expect *)record, now_ns);
    else if (record->kind == RECORD_KV_PUSH)
        push(carriers, place, (const struct record_kv_push *)record, now_ns);
    else
        fleet_carriers_cancel(carriers, carrier, record_request(record));
    if (!carrier->dead) tend(carriers, place, now_ns);
}

/* ---- faults ---- */

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
    while (carrier->orders.count)
        end(carriers, place, &carrier->order_places[0], false, 0);
}

/* Discards all transfers that the previous process began with its pages. */
void fleet_carriers_return(struct fleet_carriers *carriers, uint32_t unit, uint32_t rank) {
    struct fleet_carrier *carrier = &carriers->places[unit][rank];
    struct fleet_place place = {(uint8_t)unit, (uint8_t)rank, carrier->life};
    const struct fleet_link_event *event;
    for (size_t at = 0; (event = event_at(carriers, at));) {
        if (event->kind != LINK_EVENT_BROKEN && same_place(event->at, place))
            post_drop(&carriers->events, at);
        else
            at = event_after(carriers, at);
    }
    carrier->dead = false;
    open_books(carriers, carrier);
}

void fleet_carriers_stop(struct fleet_carriers *carriers, uint32_t unit, int64_t now_ns) {
    for (uint32_t rank = 0; rank < FLEET_RANKS_MAX; rank++) {
        if (!carriers->places[unit][rank].up) continue;
        break_links_of(carriers, unit, rank, now_ns);
        carriers->places[unit][rank].up = false;
        carriers->places[unit][rank].orders.count = 0;
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

/* ---- audit ---- */

uint32_t fleet_carriers_open_count(const struct fleet_carriers *carriers, uint32_t unit) {
    uint32_t count = 0;
    for (uint32_t rank = 0; rank < FLEET_RANKS_MAX; rank++) {
        const struct fleet_carrier *carrier = &carriers->places[unit][rank];
        if (carrier->up && !carrier->dead)
            count += carrier->orders.count + carrier->ledger.used_count;
    }
    return count;
}

void fleet_carriers_audit(const struct fleet_carriers *carriers) {
    for (uint32_t unit = 0; unit < FLEET_UNITS_MAX; unit++)
        for (uint32_t rank = 0; rank < FLEET_RANKS_MAX; rank++) {
            const struct fleet_carrier *carrier = &carriers->places[unit][rank];
            if (!carrier->up || carrier->dead) continue;
            transfer_ledger_audit(&carrier->ledger);
            check(carrier->ledger.used_count >= carrier->orders.count);
        }
}
