/* SPDX-License-Identifier: Apache-2.0
 * The KV transfers that a unit has ordered for the pages of one rank, with their progress: which
 * blocks the transport has been given so far. A request has at most one order at a rank, incoming
 * or outgoing. An order begins with the KV_EXPECT or the first KV_PUSH of the request, and ends
 * with exactly one KV_DONE.
 *
 * Complete blocks are sent at once. Blocks that a step is computing are sent slice by slice, as the
 * step writes them. An outgoing order is finished when the unit has named all blocks, after the
 * last step.
 */
#pragma once

#include "contract/record_kv.h"
#include "serving/cache/transfer_ledger.h"

struct transfer_order {
    struct request_id request;
    uint32_t rank, slice_count;
    struct transfer_grant grant;
    enum transfer_side side;
    uint32_t first_block, block_count, token_count;
    /* [page_capacity] the first block_count are used. In: pages of all blocks; out: of the named
     * ones */
    struct page_id *pages;
    uint32_t page_capacity;
    /* Out: the first whole_count blocks are complete, and `step` is writing the others. Blocks are
     * sent in parts, and a part slice by slice. Of the part [part_first, part_end), the first
     * part_slices slices of all blocks are sent, and the next slice of the blocks before
     * part_at. */
    uint32_t whole_count, part_first, part_end, part_slices, part_at;
    uint64_t step;
    bool named, finished; /* all blocks are named; the transport was notified of the end */
};

/* The caller provides the memory of the orders and of their pages. Page arrays keep their place,
 * whichever order uses them. */
struct transfer_orders {
    struct transfer_order *orders; /* [capacity] the first `count` are open */
    uint32_t count, capacity;
    uint32_t slice_count; /* slices of a block */
};

/* Find an open order, by request or by the end of its transfer. NULL if there is none. */
struct transfer_order *transfer_orders_find(struct transfer_orders *orders,
                                            struct request_id request);
struct transfer_order *transfer_orders_ended(struct transfer_orders *orders,
                                             const struct transfer_ended *ended);

/* Begins an order, still without blocks, for a KV_EXPECT or a first KV_PUSH. A free order must be
 * available. */
struct transfer_order *transfer_orders_begin(struct transfer_orders *orders,
                                             const struct record *record);

/* Ends an order and returns the report for the unit. The pointer becomes invalid. */
struct record_kv_done transfer_orders_end(struct transfer_orders *orders,
                                          struct transfer_order *order, bool arrived,
                                          uint32_t blocks);

/* Add the blocks of a KV_PUSH or a KV_EXPECT. The order must have capacity for the pages.
 * blocks_out[page_count]: the blocks for transfer_ledger_expect. */
void transfer_orders_push(struct transfer_order *order, const struct record_kv_push *record);
void transfer_orders_expect(struct transfer_order *order, const struct record_kv_expect *record,
                            struct transfer_block *blocks_out);

/* The number of rows of the order's block. */
uint32_t transfer_orders_rows(const struct transfer_order *order, uint32_t block);

/* Out: returns the block and the slice to send next, after order->step has written `written`
 * slices. False if there is none now. */
bool transfer_orders_next(struct transfer_order *order, uint32_t written, uint32_t *block_out,
                          uint32_t *slice_out);

/* Marks the slice from transfer_orders_next as sent. */
void transfer_orders_advance(struct transfer_order *order);

/* Out: true if named blocks wait for a step to write them. */
bool transfer_orders_waits(const struct transfer_order *order);

/* Out: returns true once, when all blocks are named and sent. The caller then notifies the
 * transport. */
bool transfer_orders_finish(struct transfer_order *order);
