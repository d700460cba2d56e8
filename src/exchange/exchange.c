/* SPDX-License-Identifier: Apache-2.0
 * The door itself: each call goes to the carrier that was opened. What is carried is timed here,
 * and slowed down if the link is to be slow.
 */
#include "exchange/carrier.h"

#include <time.h>

#define NAP_NS 100000 /* of a wait for a slow link; other ranks may need our progress meanwhile */

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void exchange_close(struct exchange *exchange) {
    if (exchange) exchange->carrier->close(exchange);
}

bool exchange_carries(const struct exchange *exchange) {
    return exchange->carrier->carries;
}

/* Counts are taken at the begin; a transfer's own are the difference. */
static void begin_transfer(const struct exchange *exchange, struct exchange_transfer *transfer) {
    if (!exchange->carrier->carries) return;
    *transfer = (struct exchange_transfer){.began_ns = now_ns(),
                                           .bytes_sent = exchange->counts.bytes_sent,
                                           .bytes_received = exchange->counts.bytes_received};
}

static void wait_until(struct exchange *exchange, int64_t end_ns) {
    for (int64_t left_ns; (left_ns = end_ns - now_ns()) > 0;) {
        exchange_progress(exchange);
        nanosleep(&(struct timespec){.tv_nsec = left_ns < NAP_NS ? left_ns : NAP_NS}, NULL);
    }
}

/* When a transfer's last byte arrives over the slow link, which it then leaves to the next. */
static int64_t arrival_ns(struct exchange_link *link, const struct exchange_transfer *transfer) {
    uint64_t bytes = transfer->bytes_sent > transfer->bytes_received ? transfer->bytes_sent
                                                                     : transfer->bytes_received;
    if (bytes == 0) return transfer->began_ns;
    int64_t start_ns = transfer->began_ns > link->free_ns ? transfer->began_ns : link->free_ns;
    link->free_ns = start_ns + (int64_t)((double)bytes * link->ns_per_byte);
    return link->free_ns + link->latency_ns;
}

/* The carrier has been waiting for it since `from_ns`. */
static void end_transfer(struct exchange *exchange, struct exchange_transfer *transfer,
                         int64_t from_ns) {
    if (!exchange->carrier->carries) return;
    transfer->bytes_sent = exchange->counts.bytes_sent - transfer->bytes_sent;
    transfer->bytes_received = exchange->counts.bytes_received - transfer->bytes_received;
    transfer->ended_ns = now_ns();
    if (exchange->options.link &&
        (exchange->options.link->ns_per_byte > 0 || exchange->options.link->latency_ns > 0)) {
        int64_t end_ns = arrival_ns(exchange->options.link, transfer);
        wait_until(exchange, end_ns);
        if (end_ns > transfer->began_ns) transfer->ended_ns = end_ns;
    }
    transfer->waited_ns = now_ns() - from_ns;
    exchange->counts.transfer_ns += transfer->ended_ns - transfer->began_ns;
    exchange->counts.waited_ns += transfer->waited_ns;
    exchange->last = *transfer;
}

void exchange_dispatch_begin(struct exchange *exchange, uint32_t layer, const uint32_t *experts,
                             uint32_t tokens, const char *activations) {
    begin_transfer(exchange, &exchange->dispatch);
    exchange->carrier->dispatch_begin(exchange, layer, experts, tokens, activations);
}

void exchange_dispatch_finish(struct exchange *exchange, struct exchange_received *received_out) {
    int64_t from_ns = exchange->carrier->carries ? now_ns() : 0;
    exchange->carrier->dispatch_finish(exchange, received_out);
    end_transfer(exchange, &exchange->dispatch, from_ns);
    begin_transfer(exchange, &exchange->combine); /* this rank may have nothing to hand over */
}

char *exchange_result(struct exchange *exchange, uint32_t row) {
    return exchange->carrier->result(exchange, row);
}

void exchange_combine_begin(struct exchange *exchange, uint32_t first_row, uint32_t row_count) {
    begin_transfer(exchange, &exchange->combine); /* results leave with the last of them */
    exchange->carrier->combine_begin(exchange, first_row, row_count);
}

void exchange_combine_finish(struct exchange *exchange, struct exchange_returned *returned_out) {
    int64_t from_ns = exchange->carrier->carries ? now_ns() : 0;
    exchange->carrier->combine_finish(exchange, returned_out);
    end_transfer(exchange, &exchange->combine, from_ns);
}

struct exchange_transfer exchange_last(const struct exchange *exchange) {
    return exchange->last;
}

void exchange_progress(struct exchange *exchange) {
    if (exchange->carrier->progress) exchange->carrier->progress(exchange);
}

struct exchange_counts exchange_counts(const struct exchange *exchange) {
    return exchange->counts;
}
