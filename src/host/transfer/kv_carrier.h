/* SPDX-License-Identifier: Apache-2.0
 * Performs a unit's orders for transfers of KV blocks between prefill and decode. KV_EXPECT,
 * KV_PUSH and KV_CANCEL become calls of a KV transport (host/transfer/kv_transport.h) on the pages
 * of one rank. The end of a transfer becomes KV_DONE. serving/cache/transfer_orders.h decides when
 * each slice is sent.
 * Blocks that have arrived are reported even if the step or the transfer fails. Orders for a
 * transfer that come after its KV_DONE are ignored. Runs in the event loop's thread; the transport
 * has its own.
 */
#pragma once

#include "contract/record.h"
#include "host/engine/step_progress.h"
#include "host/transfer/kv_transport.h"

struct event_base;
struct kv_carrier;

struct kv_carrier_options {
    struct kv_transport *transport; /* over these pages; both must outlive the carrier */
    const struct kv_pages *pages;
    struct step_progress *progress; /* of the engine that writes the pages; NULL: blocks are sent at
                                     * the end of the step that makes them */
    int64_t transfer_ns_max;        /* timeout of a transfer */
    void *context;
    void (*say)(void *context, const struct record *record); /* KV_DONE */
};

enum status kv_carrier_open(const struct kv_carrier_options *options, struct event_base *base,
                            struct kv_carrier **carrier_out, struct error *error) MUST_USE;

/* Drops all transfers without KV_DONE. The caller closes the transport. */
void kv_carrier_close(struct kv_carrier *carrier);

/* Performs KV_EXPECT, KV_PUSH or KV_CANCEL. */
void kv_carrier_take(struct kv_carrier *carrier, const struct record *record);

/* The number of transfers in progress. */
uint32_t kv_carrier_count(const struct kv_carrier *carrier);
