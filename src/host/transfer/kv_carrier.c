/* SPDX-License-Identifier: Apache-2.0 */
#include "host/transfer/kv_carrier.h"

#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "host/process/log/log.h"
#include "host/process/log/log_request.h"
#include "serving/cache/transfer_orders.h"

struct kv_carrier {
    struct kv_carrier_options options;
    struct event *readable, *progress; /* events of the transport and of the engine */
    struct transfer_orders orders;
};

static struct transfer_order *begin(struct kv_carrier *carrier, const struct record *record) {
    struct transfer_orders *orders = &carrier->orders;
    if (orders->count == orders->capacity) {
        orders->capacity = orders->capacity ? 2 * orders->capacity : 16;
        orders->orders = realloc(orders->orders, orders->capacity * sizeof *orders->orders);
        check(orders->orders);
        memset(orders->orders + orders->count, 0,
               (orders->capacity - orders->count) * sizeof *orders->orders);
    }
    return transfer_orders_begin(orders, record);
}

/* Makes room for `count` more pages. */
static void kv_carrier_extend(struct transfer_order *order, uint32_t count) {
    uint32_t all = order->block_count + count;
    if (all <= order->page_capacity) return;
    order->pages = realloc(order->pages, all * sizeof *order->pages);
    order->page_capacity = all;
    check(order->pages);
}

static void say_failure(const struct transfer_order *order, uint32_t arrived, const char *why) {
    char name[LOG_REQUEST_BYTES];
    log_request_name(order->request, name);
    if (order->side == TRANSFER_OUT)
        log_say(LOG_WARNING, "transfer",
                "KV blocks did not all leave rank=%u request=%s blocks=%u why=%s", order->rank,
                name, order->block_count, why);
    else
        log_say(LOG_WARNING, "transfer",
                "KV blocks did not all come, others are loaded or computed again rank=%u "
                "request=%s blocks=%u arrived=%u why=%s",
                order->rank, name, order->block_count, arrived, why);
}

/* Ends an order and reports KV_DONE. Each order ends exactly once. */
static void end(struct kv_carrier *carrier, struct transfer_order *order, bool arrived,
                uint32_t blocks) {
    struct record_kv_done done = transfer_orders_end(&carrier->orders, order, arrived, blocks);
    carrier->options.say(carrier->options.context, &done.record);
}

/* ---- receiving ---- */

static void kv_carrier_expect(struct kv_carrier *carrier, const struct record_kv_expect *record) {
    struct transfer_order *order = begin(carrier, &record->record);
    struct transfer_block *blocks = calloc(record->page_count, sizeof *blocks);
    struct error error;
    check(blocks);
    kv_carrier_extend(order, record->page_count);
    transfer_orders_expect(order, record, blocks);
    int64_t deadline_ns = clock_now_ns() + carrier->options.transfer_ns_max;
    if (kv_transport_expect(carrier->options.transport, order->grant, blocks, order->block_count,
                            deadline_ns, &error)) {
        say_failure(order, 0, error.text);
        end(carrier, order, false, 0);
    }
    free(blocks);
}

/* Writes the headers of blocks that have arrived, as for computed blocks. */
static void kv_carrier_note_pages(struct kv_carrier *carrier, const struct transfer_order *order,
                                  uint32_t block_count) {
    struct kv_pages pages = *carrier->options.pages;
    for (uint32_t i = 0; i < block_count; i++)
        kv_pages_note(&pages, order->pages[i].index, transfer_orders_rows(order, i));
}

/* ---- sending ---- */

/* Pushes computed slices until the transport is full. Its file is readable when it has room. */
static void kv_carrier_push_on(struct kv_carrier *carrier, struct transfer_order *order) {
    struct kv_transport *transport = carrier->options.transport;
    struct step_progress *progress = carrier->options.progress;
    uint32_t block, slice, written = progress ? step_progress_written(progress, order->step) : 0;
    while (transfer_orders_next(order, written, &block, &slice)) {
        uint32_t page = order->pages[block].index;
        void *memory = kv_pages_slice(carrier->options.pages, page, slice);
        kv_pages_take(carrier->options.pages, page, slice, 1);
        if (kv_transport_push(transport, order->grant, block, slice, memory,
                              transfer_orders_rows(order, block)))
            return; /* the queue is full, or the ticket has ended, which is reported later */
        transfer_orders_advance(order);
    }
    if (transfer_orders_finish(order) && kv_transport_finish(transport, order->grant, NULL, 0))
        return; /* the ticket has ended, which is reported later */
}

/* Continues all sends. While an order waits for slices, the engine signals its progress. This is
 * switched on before the progress is read, so that no slice is missed. */
static void kv_carrier_push_all(struct kv_carrier *carrier) {
    struct transfer_orders *orders = &carrier->orders;
    bool wait = false;
    for (uint32_t i = 0; i < orders->count; i++)
        wait |= transfer_orders_waits(&orders->orders[i]);
    if (carrier->options.progress) step_progress_watch(carrier->options.progress, wait);
    for (uint32_t i = 0; i < orders->count; i++)
        if (orders->orders[i].side == TRANSFER_OUT) kv_carrier_push_on(carrier, &orders->orders[i]);
}

static void push(struct kv_carrier *carrier, const struct record_kv_push *record) {
    struct transfer_order *order = transfer_orders_find(&carrier->orders, record->request);
    struct error error;
    if (!order && !record->first) return; /* the transfer has ended meanwhile */
    if (!order) {
        order = begin(carrier, &record->record);
        int64_t deadline_ns = clock_now_ns() + carrier->options.transfer_ns_max;
        if (kv_transport_offer(carrier->options.transport, order->grant, record->route.address,
                               deadline_ns, &error)) {
            say_failure(order, 0, error.text);
            end(carrier, order, false, 0);
            return;
        }
    }
    kv_carrier_extend(order, record->page_count);
    transfer_orders_push(order, record);
    kv_carrier_push_all(carrier);
}

/* ---- both ---- */

static void kv_carrier_cancel(struct kv_carrier *carrier, struct request_id request) {
    const struct transfer_order *order = transfer_orders_find(&carrier->orders, request);
    if (order) kv_transport_cancel(carrier->options.transport, order->side, order->grant);
}

void kv_carrier_take(struct kv_carrier *carrier, const struct record *record) {
    switch ((enum record_kind)record->kind) {
    case RECORD_KV_EXPECT:
        kv_carrier_expect(carrier, (const struct record_kv_expect *)record);
        break;
    case RECORD_KV_PUSH:
        push(carrier, (const struct record_kv_push *)record);
        break;
    case RECORD_KV_CANCEL:
        kv_carrier_cancel(carrier, record_request(record));
        break;
    default:
        check(!"a record about KV blocks on their way");
    }
}

static void kv_carrier_on_readable(evutil_socket_t file, short what, void *context) {
    struct kv_carrier *carrier = context;
    struct transfer_ended ended;
    while (kv_transport_next(carrier->options.transport, &ended)) {
        struct transfer_order *order = transfer_orders_ended(&carrier->orders, &ended);
        bool arrived = ended.end == TRANSFER_DONE;
        if (!order) continue;
        if (!arrived && ended.end != TRANSFER_CANCELLED)
            say_failure(order, ended.blocks, ended.reason);
        if (ended.side == TRANSFER_IN) kv_carrier_note_pages(carrier, order, ended.blocks);
        end(carrier, order, arrived, ended.blocks);
    }
    kv_carrier_push_all(carrier);
}

static void on_progress(evutil_socket_t file, short what, void *context) {
    struct kv_carrier *carrier = context;
    step_progress_hush(carrier->options.progress);
    kv_carrier_push_all(carrier);
}

static struct event *kv_carrier_listen_to(struct kv_carrier *carrier, struct event_base *base,
                                          int file, event_callback_fn call) {
    struct event *event = event_new(base, file, EV_READ | EV_PERSIST, call, carrier);
    if (event && event_add(event, NULL) == 0) return event;
    if (event) event_free(event);
    return NULL;
}

enum status kv_carrier_open(const struct kv_carrier_options *options, struct event_base *base,
                            struct kv_carrier **carrier_out, struct error *error) {
    struct kv_carrier *carrier = calloc(1, sizeof *carrier);
    if (carrier) {
        struct step_progress *progress = options->progress;
        carrier->options = *options;
        carrier->orders.slice_count = options->pages->format.slice_count;
        carrier->readable = kv_carrier_listen_to(
            carrier, base, kv_transport_file(options->transport), kv_carrier_on_readable);
        if (progress)
            carrier->progress =
                kv_carrier_listen_to(carrier, base, step_progress_file(progress), on_progress);
        if (carrier->readable && (carrier->progress || !progress)) {
            *carrier_out = carrier;
            return STATUS_OK;
        }
    }
    kv_carrier_close(carrier);
    return error_set(error, STATUS_NO_MEMORY, "no memory for transfers of KV blocks");
}

void kv_carrier_close(struct kv_carrier *carrier) {
    if (!carrier) return;
    for (uint32_t i = 0; i < carrier->orders.capacity; i++)
        free(carrier->orders.orders[i].pages);
    if (carrier->readable) event_free(carrier->readable);
    if (carrier->progress) event_free(carrier->progress);
    free(carrier->orders.orders);
    free(carrier);
}

uint32_t kv_carrier_count(const struct kv_carrier *carrier) {
    return carrier->orders.count;
}
