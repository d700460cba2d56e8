/* SPDX-License-Identifier: Apache-2.0 */
#include "host/transfer/kv_carrier.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "contract/record_kv.h"

/* A request's transfer. */
struct kv_transfer {
    struct request_id request;
    uint32_t rank;
    struct transfer_ticket ticket;
    enum transfer_side side;
    bool failed; /* it has no ticket; its end is still to be told */
    uint32_t first_block, block_count, token_count;
    struct page_id *pages; /* [block_count]; in: all; out: those named so far */
    /* Out: the first whole_count blocks stand, the others are being written by `step`. Blocks are
     * handed to the transport in parts, slice by slice: of the part [part_first, part_end) the
     * first part_pushed slices of all blocks, and the next slice of those before part_at. */
    uint32_t whole_count, part_first, part_end, part_pushed, part_at;
    uint64_t step;
    bool named, finished; /* all blocks; and the transport knows it */
};

struct kv_carrier {
    struct kv_carrier_options options;
    struct event *readable, *progress; /* of the transport, of the engine */
    struct kv_transfer *transfers;     /* [count] */
    uint32_t count, capacity;
};

static struct kv_transfer *find(struct kv_carrier *carrier, struct request_id request) {
    for (uint32_t i = 0; i < carrier->count; i++)
        if (request_id_equal(carrier->transfers[i].request, request)) return &carrier->transfers[i];
    return NULL;
}

static struct kv_transfer *find_ticket(struct kv_carrier *carrier,
                                       const struct transfer_ended *ended) {
    for (uint32_t i = 0; i < carrier->count; i++)
        if (carrier->transfers[i].side == ended->side &&
            transfer_ticket_equal(carrier->transfers[i].ticket, ended->ticket))
            return &carrier->transfers[i];
    return NULL;
}

static struct kv_transfer *begin(struct kv_carrier *carrier, const struct record *record,
                                 const uint64_t ticket[2], enum transfer_side side) {
    if (carrier->count == carrier->capacity) {
        carrier->capacity = carrier->capacity ? 2 * carrier->capacity : 16;
        carrier->transfers =
            realloc(carrier->transfers, carrier->capacity * sizeof *carrier->transfers);
        check(carrier->transfers);
    }
    struct kv_transfer *transfer = &carrier->transfers[carrier->count++];
    *transfer = (struct kv_transfer){.request = record_request(record),
                                     .rank = record_kv_rank(record),
                                     .ticket = {.high = ticket[0], .low = ticket[1]},
                                     .side = side};
    return transfer;
}

/* Its one and only end. */
static void end(struct kv_carrier *carrier, struct kv_transfer *transfer, bool arrived,
                uint32_t blocks) {
    struct record_kv_done done = {.record = record_head(RECORD_KV_DONE, sizeof done),
                                  .request = transfer->request,
                                  .rank = transfer->rank,
                                  .arrived = arrived,
                                  .blocks = blocks};
    free(transfer->pages);
    *transfer = carrier->transfers[--carrier->count];
    carrier->options.say(carrier->options.context, &done.record);
}

static void add_pages(struct kv_transfer *transfer, const struct page_id *pages, uint32_t count) {
    uint32_t all = transfer->block_count + count;
    if (count == 0) return;
    transfer->pages = realloc(transfer->pages, all * sizeof *transfer->pages);
    check(transfer->pages);
    memcpy(transfer->pages + transfer->block_count, pages, count * sizeof *pages);
    transfer->block_count = all;
}

static uint32_t rows_of(const struct kv_transfer *transfer, uint32_t block) {
    return kv_block_rows(transfer->token_count, transfer->first_block + block);
}

/* ---- in ---- */

static void expect(struct kv_carrier *carrier, const struct record_kv_expect *record) {
    const struct kv_pages *pages = carrier->options.pages;
    struct kv_transfer *transfer = begin(carrier, &record->record, record->ticket, TRANSFER_IN);
    struct transfer_block *blocks = calloc(record->page_count, sizeof *blocks);
    struct error error;
    check(blocks);
    transfer->first_block = record->first_block;
    transfer->token_count = record->token_count;
    add_pages(transfer, kv_expect_pages(record), record->page_count);
    for (uint32_t i = 0; i < record->page_count; i++)
        blocks[i] = (struct transfer_block){.page = transfer->pages[i],
                                            .row_count = rows_of(transfer, i),
                                            .slice_count = pages->slice_count};
    int64_t deadline_ns = clock_now_ns() + carrier->options.transfer_ns_max;
    if (kv_transport_expect(carrier->options.transport, transfer->ticket, blocks,
                            record->page_count, deadline_ns, &error)) {
        fprintf(stderr, "KV blocks cannot be received: %s\n", error.text);
        end(carrier, transfer, false, 0);
    }
    free(blocks);
}

/* What has arrived says itself how far it reaches, as what was computed here does. */
static void note_pages(struct kv_carrier *carrier, const struct kv_transfer *transfer,
                       uint32_t block_count) {
    struct kv_pages pages = *carrier->options.pages;
    for (uint32_t i = 0; i < block_count; i++)
        kv_pages_note(&pages, transfer->pages[i].index, rows_of(transfer, i));
}

/* ---- out ---- */

/* How many of the part's slices may be read. */
static uint32_t part_slices(const struct kv_carrier *carrier, const struct kv_transfer *transfer) {
    uint32_t all = carrier->options.pages->slice_count;
    if (transfer->part_end <= transfer->whole_count) return all;
    if (!carrier->options.progress) return 0;
    uint32_t written = step_progress_written(carrier->options.progress, transfer->step);
    return written < all ? written : all;
}

static bool part_is_done(const struct kv_carrier *carrier, const struct kv_transfer *transfer) {
    return transfer->part_first == transfer->part_end ||
           transfer->part_pushed == carrier->options.pages->slice_count;
}

/* The next part is what stands already, or what is being made. */
static void next_part(struct kv_transfer *transfer) {
    bool stands = transfer->part_end < transfer->whole_count;
    transfer->part_first = transfer->part_at = transfer->part_end;
    transfer->part_end = stands ? transfer->whole_count : transfer->block_count;
    transfer->part_pushed = 0;
}

static enum status push_slice(struct kv_carrier *carrier, struct kv_transfer *transfer) {
    const struct kv_pages *pages = carrier->options.pages;
    uint32_t block = transfer->part_at, slice = transfer->part_pushed;
    enum status status = kv_transport_push(
        carrier->options.transport, transfer->ticket, block, slice,
        kv_pages_slice(pages, transfer->pages[block].index, slice), rows_of(transfer, block));
    if (status) return status;
    if (++transfer->part_at < transfer->part_end) return STATUS_OK;
    transfer->part_at = transfer->part_first;
    transfer->part_pushed++;
    return STATUS_OK;
}

/* Hands over as much as is written and the transport takes, which calls again when it has room. */
static void push_on(struct kv_carrier *carrier, struct kv_transfer *transfer) {
    for (;;) {
        if (part_is_done(carrier, transfer)) {
            if (transfer->part_end == transfer->block_count) break;
            next_part(transfer);
        }
        if (transfer->part_pushed >= part_slices(carrier, transfer)) return;
        if (push_slice(carrier, transfer)) return; /* full; or it has ended, and says so */
    }
    if (!transfer->named || transfer->finished) return;
    transfer->finished = true;
    if (kv_transport_finish(carrier->options.transport, transfer->ticket, NULL, 0))
        return; /* it has ended, and says so */
}

/* True if it waits for the engine. */
static bool follows(const struct kv_carrier *carrier, const struct kv_transfer *transfer) {
    bool all = transfer->part_end == transfer->block_count && part_is_done(carrier, transfer);
    return transfer->side == TRANSFER_OUT && transfer->whole_count < transfer->block_count && !all;
}

/* All that can go on now. The engine wakes us while blocks are being made that are not all in the
 * transport's hands; what it has written before it knew that is looked at behind it. */
static void push_all(struct kv_carrier *carrier) {
    bool follow = false;
    for (uint32_t i = 0; i < carrier->count && carrier->options.progress; i++)
        follow |= follows(carrier, &carrier->transfers[i]);
    if (carrier->options.progress) step_progress_watch(carrier->options.progress, follow);
    for (uint32_t i = 0; i < carrier->count; i++)
        if (carrier->transfers[i].side == TRANSFER_OUT) push_on(carrier, &carrier->transfers[i]);
}

static void push(struct kv_carrier *carrier, const struct record_kv_push *record) {
    struct kv_transfer *transfer = find(carrier, record->request);
    struct error error;
    if (!transfer && !record->first) return; /* it has ended meanwhile */
    if (!transfer) {
        transfer = begin(carrier, &record->record, record->route.ticket, TRANSFER_OUT);
        transfer->first_block = record->first_block;
        int64_t deadline_ns = clock_now_ns() + carrier->options.transfer_ns_max;
        if (kv_transport_offer(carrier->options.transport, transfer->ticket, record->route.address,
                               deadline_ns, &error)) {
            fprintf(stderr, "KV blocks cannot be sent: %s\n", error.text);
            end(carrier, transfer, false, 0);
            return;
        }
    }
    transfer->token_count = record->token_count;
    add_pages(transfer, kv_push_pages(record), record->page_count);
    transfer->whole_count = transfer->block_count - record->making_count;
    transfer->step = record->step;
    transfer->named = record->last;
    push_all(carrier);
}

/* ---- both ---- */

static void cancel(struct kv_carrier *carrier, struct request_id request) {
    struct kv_transfer *transfer = find(carrier, request);
    if (transfer) kv_transport_cancel(carrier->options.transport, transfer->side, transfer->ticket);
}

void kv_carrier_take(struct kv_carrier *carrier, const struct record *record) {
    switch ((enum record_kind)record->kind) {
    case RECORD_KV_EXPECT:
        expect(carrier, (const struct record_kv_expect *)record);
        break;
    case RECORD_KV_PUSH:
        push(carrier, (const struct record_kv_push *)record);
        break;
    case RECORD_KV_CANCEL:
        cancel(carrier, record_request(record));
        break;
    default:
        check(!"a record about KV blocks on their way");
    }
}

static void say_failure(const struct kv_transfer *transfer, const struct transfer_ended *ended) {
    if (ended->side == TRANSFER_OUT)
        fprintf(stderr, "KV blocks did not all arrive: %s\n", ended->reason);
    else
        fprintf(stderr, "%u of %u KV blocks arrived, the others are loaded or computed again: %s\n",
                ended->blocks, transfer->block_count, ended->reason);
}

static void on_readable(evutil_socket_t file, short what, void *context) {
    struct kv_carrier *carrier = context;
    struct transfer_ended ended;
    while (kv_transport_next(carrier->options.transport, &ended)) {
        struct kv_transfer *transfer = find_ticket(carrier, &ended);
        bool arrived = ended.end == TRANSFER_DONE;
        if (!transfer) continue;
        if (!arrived && ended.end != TRANSFER_CANCELLED) say_failure(transfer, &ended);
        if (ended.side == TRANSFER_IN) note_pages(carrier, transfer, ended.blocks);
        end(carrier, transfer, arrived, ended.blocks);
    }
    push_all(carrier);
}

static void on_progress(evutil_socket_t file, short what, void *context) {
    struct kv_carrier *carrier = context;
    step_progress_hush(carrier->options.progress);
    push_all(carrier);
}

static struct event *listen_to(struct kv_carrier *carrier, struct event_base *base, int file,
                               event_callback_fn call) {
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
        carrier->readable =
            listen_to(carrier, base, kv_transport_file(options->transport), on_readable);
        if (progress)
            carrier->progress = listen_to(carrier, base, step_progress_file(progress), on_progress);
        if (carrier->readable && (carrier->progress || !progress)) {
            *carrier_out = carrier;
            return STATUS_OK;
        }
    }
    kv_carrier_close(carrier);
    return error_set(error, STATUS_NO_MEMORY, "no memory for KV blocks on their way");
}

void kv_carrier_close(struct kv_carrier *carrier) {
    if (!carrier) return;
    for (uint32_t i = 0; i < carrier->count; i++)
        free(carrier->transfers[i].pages);
    if (carrier->readable) event_free(carrier->readable);
    if (carrier->progress) event_free(carrier->progress);
    free(carrier->transfers);
    free(carrier);
}

uint32_t kv_carrier_count(const struct kv_carrier *carrier) {
    return carrier->count;
}
