/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/cache/transfer_orders.h"

#include <string.h>

#include "base/check.h"
#include "contract/kv_block.h"

struct transfer_order *transfer_orders_find(struct transfer_orders *orders,
                                            struct request_id request) {
    for (uint32_t i = 0; i < orders->count; i++)
        if (request_id_equal(orders->orders[i].request, request)) return &orders->orders[i];
    return NULL;
}

struct transfer_order *transfer_orders_ended(struct transfer_orders *orders,
                                             const struct transfer_ended *ended) {
    for (uint32_t i = 0; i < orders->count; i++)
        if (orders->orders[i].side == ended->side &&
            transfer_grant_equal(orders->orders[i].grant, ended->grant))
            return &orders->orders[i];
    return NULL;
}

struct transfer_order *transfer_orders_begin(struct transfer_orders *orders,
                                             const struct record *record) {
    const struct record_kv_expect *expect = (const void *)record;
    const struct record_kv_push *push = (const void *)record;
    bool in = record->kind == RECORD_KV_EXPECT;
    const uint64_t *grant = in ? expect->grant : push->route.grant;
    check(orders->count < orders->capacity &&
          !transfer_orders_find(orders, record_request(record)));
    struct transfer_order *order = &orders->orders[orders->count++];
    *order = (struct transfer_order){.request = record_request(record),
                                     .rank = record_kv_rank(record),
                                     .slice_count = orders->slice_count,
                                     .grant = {.high = grant[0], .low = grant[1]},
                                     .side = in ? TRANSFER_IN : TRANSFER_OUT,
                                     .first_block = in ? expect->first_block : push->first_block,
                                     .pages = order->pages,
                                     .page_capacity = order->page_capacity};
    return order;
}

struct record_kv_done transfer_orders_end(struct transfer_orders *orders,
                                          struct transfer_order *order, bool arrived,
                                          uint32_t blocks) {
    struct transfer_order ended = *order;
    *order = orders->orders[--orders->count];
    orders->orders[orders->count] = ended;
    return (struct record_kv_done){.record =
                                       record_head(RECORD_KV_DONE, sizeof(struct record_kv_done)),
                                   .request = ended.request,
                                   .rank = ended.rank,
                                   .arrived = arrived,
                                   .blocks = blocks};
}

static void add_pages(struct transfer_order *order, const struct page_id *pages, uint32_t count) {
    check(order->block_count + count <= order->page_capacity);
    if (count) memcpy(order->pages + order->block_count, pages, count * sizeof *pages);
    order->block_count += count;
}

void transfer_orders_push(struct transfer_order *order, const struct record_kv_push *record) {
    check(record->first_block == order->first_block + order->block_count);
    order->token_count = record->token_count;
    add_pages(order, kv_push_pages(record), record->page_count);
    order->whole_count = order->block_count - record->making_count;
    order->step = record->step;
    order->named = record->last;
}

uint32_t transfer_orders_rows(const struct transfer_order *order, uint32_t block) {
    return kv_block_rows(order->token_count, order->first_block + block);
}

void transfer_orders_expect(struct transfer_order *order, const struct record_kv_expect *record,
                            struct transfer_block *blocks_out) {
    order->token_count = record->token_count;
    add_pages(order, kv_expect_pages(record), record->page_count);
    for (uint32_t i = 0; i < order->block_count; i++)
        blocks_out[i] = (struct transfer_block){.page = order->pages[i],
                                                .row_count = transfer_orders_rows(order, i),
                                                .slice_count = order->slice_count};
}

static bool part_is_done(const struct transfer_order *order) {
    return order->part_first == order->part_end || order->part_slices == order->slice_count;
}

static bool all_handed_over(const struct transfer_order *order) {
    return order->part_end == order->block_count && part_is_done(order);
}

bool transfer_orders_next(struct transfer_order *order, uint32_t written, uint32_t *block_out,
                          uint32_t *slice_out) {
    if (all_handed_over(order)) return false;
    /* the next part consists of the complete blocks, or of those being computed */
    if (part_is_done(order)) {
        bool stands = order->part_end < order->whole_count;
        order->part_first = order->part_at = order->part_end;
        order->part_end = stands ? order->whole_count : order->block_count;
        order->part_slices = 0;
    }
    if (order->part_end > order->whole_count && order->part_slices >= written) return false;
    *block_out = order->part_at;
    *slice_out = order->part_slices;
    return true;
}

void transfer_orders_advance(struct transfer_order *order) {
    if (++order->part_at < order->part_end) return;
    order->part_at = order->part_first;
    order->part_slices++;
}

bool transfer_orders_waits(const struct transfer_order *order) {
    return order->side == TRANSFER_OUT && order->whole_count < order->block_count &&
           !all_handed_over(order);
}

bool transfer_orders_finish(struct transfer_order *order) {
    if (order->finished || !order->named || !all_handed_over(order)) return false;
    return order->finished = true;
}
