/* SPDX-License-Identifier: Apache-2.0
 * Each call goes to the carrier that was opened. What is carried is timed here. Where each rank is
 * to have a link of a given rate and latency (struct exchange_link), transfers are held back until
 * such a link would have brought them.
 */
#include "compute/exchange/carrier.h"

#include "base/clock.h"
#include "base/heartbeat.h"

#include <sched.h>
#include <string.h>
#include <sys/prctl.h>

/* At most so long at a time, while waiting for a slow link: other ranks may need our progress. */
#define NAP_NS 100000
#define LATE_NS 100000 /* a sleeper may wake so much later than it asked; 50 us are usual */

void exchange_close(struct exchange *exchange) {
    if (exchange) exchange->carrier->close(exchange);
}

void exchange_split_replicas(struct exchange *exchange, bool splits) {
    exchange->splits_replicas = splits;
}

void exchange_go_by_nodes(struct exchange *exchange, bool by_nodes) {
    exchange->goes_by_nodes = by_nodes;
}

bool exchange_forwards(const struct exchange *exchange) {
    return exchange->carrier->forwards;
}

/* Notes the counts so far: a transfer's own bytes are the difference at its end. */
static void begin_transfer(const struct exchange *exchange, struct exchange_transfer *transfer) {
    if (!exchange->carrier->forwards) return;
    *transfer = (struct exchange_transfer){.began_ns = clock_now_ns(),
                                           .bytes_sent = exchange->counts.bytes_sent,
                                           .bytes_received = exchange->counts.bytes_received};
}

static struct exchange_link *exchange_link_of(const struct exchange *exchange, bool near) {
    const struct exchange_options *options = &exchange->options;
    return near && options->near ? options->near : options->link;
}

struct exchange_span exchange_take_link(struct exchange *exchange, bool near, uint64_t bytes) {
    struct exchange_link *link = exchange_link_of(exchange, near);
    struct exchange_span leaves = {.began_ns = clock_now_ns(), .bytes = bytes};
    if (leaves.began_ns < link->free_ns) leaves.began_ns = link->free_ns;
    leaves.ended_ns = leaves.began_ns + (int64_t)((double)bytes * link->ns_per_byte);
    link->free_ns = leaves.ended_ns;
    return leaves;
}

/* When the last byte of what came over that link is here; 0: nothing came. */
static int64_t end_ns_of(const struct exchange *exchange, bool near,
                         const struct exchange_span *leaves) {
    const struct exchange_link *link = exchange_link_of(exchange, near);
    if (leaves->ended_ns == 0) return 0;
    int64_t last_ns = leaves->began_ns + (int64_t)((double)leaves->bytes * link->ns_per_byte);
    return (last_ns > leaves->ended_ns ? last_ns : leaves->ended_ns) + link->latency_ns;
}

bool exchange_is_through(const struct exchange *exchange, bool near,
                         const struct exchange_span *leaves) {
    return end_ns_of(exchange, near, leaves) <= clock_now_ns();
}

/* When the last byte of what came over either link is here; 0: nothing came. */
static int64_t arrival_ns(const struct exchange *exchange) {
    int64_t far_ns = end_ns_of(exchange, false, &exchange->leaves[false]);
    int64_t near_ns = end_ns_of(exchange, true, &exchange->leaves[true]);
    return far_ns > near_ns ? far_ns : near_ns;
}

/* The earliest departure of a received row; valid if there was one. */
static int64_t first_left_ns(const struct exchange *exchange) {
    const struct exchange_span *far = &exchange->leaves[false], *near = &exchange->leaves[true];
    if (!far->ended_ns || (near->ended_ns && near->began_ns < far->began_ns)) return near->began_ns;
    return far->began_ns;
}

/* A receiver takes its bytes in no faster than they leave a sender. */
static int64_t link_ns_of(const struct exchange *exchange) {
    int64_t most_ns = exchange->link_ns;
    for (int near = 0; near < 2; near++) {
        int64_t in_ns = (int64_t)((double)exchange->leaves[near].bytes *
                                  exchange_link_of(exchange, near)->ns_per_byte);
        if (in_ns > most_ns) most_ns = in_ns;
    }
    return most_ns + exchange->options.link->latency_ns;
}

/* Ends when it is time, not when that suits other timers: the last of it is not slept. */
static void exchange_nap(int64_t left_ns) {
    static _Thread_local bool sharp;
    if (!sharp) sharp = prctl(PR_SET_TIMERSLACK, 1000UL) == 0;
    left_ns -= LATE_NS;
    if (left_ns > 0)
        nanosleep(&(struct timespec){.tv_nsec = left_ns < NAP_NS ? left_ns : NAP_NS}, NULL);
    else
        sched_yield();
}

static void exchange_wait_until(struct exchange *exchange, int64_t end_ns) {
    for (int64_t left_ns; (left_ns = end_ns - clock_now_ns()) > 0;) {
        exchange_progress(exchange);
        exchange_nap(left_ns);
    }
}

/* The carrier has brought it; over a slow link, it still takes its time. */
static void exchange_end_transfer(struct exchange *exchange, struct exchange_transfer *transfer,
                                  int64_t from_ns) {
    if (!exchange->carrier->forwards) return;
    transfer->bytes_sent = exchange->counts.bytes_sent - transfer->bytes_sent;
    transfer->bytes_received = exchange->counts.bytes_received - transfer->bytes_received;
    transfer->ended_ns = exchange->seen_ns ? exchange->seen_ns : clock_now_ns();
    transfer->link_ns = transfer->ended_ns - transfer->began_ns;
    if (exchange_is_slow(exchange)) {
        int64_t end_ns = arrival_ns(exchange);
        exchange_wait_until(exchange, end_ns);
        transfer->ended_ns = transfer->began_ns;
        if (end_ns) transfer->began_ns = first_left_ns(exchange);
        if (end_ns) transfer->ended_ns = end_ns;
        transfer->link_ns = end_ns ? link_ns_of(exchange) : 0;
        memset(exchange->leaves, 0, sizeof exchange->leaves);
        exchange->link_ns = 0;
    }
    transfer->waited_ns = clock_now_ns() - from_ns;
    exchange->idle_ns = exchange->seen_ns = 0;
    exchange->counts.transfer_ns += transfer->link_ns;
    if (transfer == &exchange->dispatch) exchange->counts.dispatch_ns += transfer->link_ns;
    exchange->counts.waited_ns += transfer->waited_ns;
    exchange->last = *transfer;
}

static int64_t wait_began_ns(const struct exchange *exchange) {
    if (!exchange->carrier->forwards) return 0;
    return exchange->idle_ns ? exchange->idle_ns : clock_now_ns();
}

uint32_t exchange_group_run(const uint32_t *experts, uint32_t count, uint32_t group_experts) {
    uint32_t run = 0;
    while (run < count && experts[run] / group_experts == experts[0] / group_experts)
        run++;
    return run;
}

void exchange_dispatch_begin(struct exchange *exchange, uint32_t layer, const uint32_t *experts,
                             const float *weights, uint32_t tokens, const char *activations) {
    begin_transfer(exchange, &exchange->dispatch);
    exchange->carrier->dispatch_begin(exchange, layer, experts, weights, tokens, activations);
}

void exchange_dispatch_finish(struct exchange *exchange, struct exchange_received *received_out) {
    int64_t from_ns = wait_began_ns(exchange);
    heartbeat_set(HEARTBEAT_WAITS);
    exchange->carrier->dispatch_finish(exchange, received_out);
    exchange_end_transfer(exchange, &exchange->dispatch, from_ns);
    heartbeat_set(HEARTBEAT_COMPUTES);
    begin_transfer(exchange, &exchange->combine); /* already here: this rank may have no results */
}

void exchange_pair_slots(const struct exchange *exchange, uint32_t *slots_out, uint32_t pairs) {
    exchange->carrier->pair_slots(exchange, slots_out, pairs);
}

uint32_t exchange_nodes(const struct exchange *exchange) {
    return exchange->carrier->nodes(exchange);
}

uint32_t exchange_relayed(const struct exchange *exchange, uint32_t node, uint32_t *slots_out,
                          const char **rows_out) {
    return exchange->carrier->relayed(exchange, node, slots_out, rows_out);
}

char *exchange_result(struct exchange *exchange, uint32_t row) {
    return exchange->carrier->result(exchange, row);
}

/* Adds the time since rows were received or last handed over. */
static void count_experts(struct exchange *exchange) {
    if (exchange->carrier->forwards)
        exchange->counts.experts_ns += clock_now_ns() - exchange->combine.began_ns;
}

void exchange_combine_begin(struct exchange *exchange, uint32_t first_row, uint32_t row_count) {
    count_experts(exchange);
    if (exchange->carrier->forwards) /* results leave with the last of them */
        exchange->combine.began_ns = clock_now_ns();
    exchange->carrier->combine_begin(exchange, first_row, row_count);
}

void exchange_combine_finish(struct exchange *exchange, struct exchange_returned *returned_out) {
    int64_t from_ns = wait_began_ns(exchange);
    heartbeat_set(HEARTBEAT_WAITS);
    exchange->carrier->combine_finish(exchange, returned_out);
    exchange_end_transfer(exchange, &exchange->combine, from_ns);
    heartbeat_set(HEARTBEAT_COMPUTES);
}

/* When the transfer under way will be here, as far as that is known; INT64_MAX: not yet. */
static int64_t known_arrival_ns(struct exchange *exchange) {
    if (!exchange->carrier->forwards) return 0;
    if (!exchange->carrier->arrived(exchange)) return INT64_MAX;
    if (exchange->seen_ns == 0) exchange->seen_ns = clock_now_ns();
    return exchange_is_slow(exchange) ? arrival_ns(exchange) : 0;
}

bool exchange_arrived(struct exchange *exchange) {
    int64_t end_ns = known_arrival_ns(exchange);
    return end_ns == 0 || (end_ns != INT64_MAX && end_ns <= clock_now_ns());
}

struct exchange *exchange_wait_any(struct exchange *const *exchanges, uint32_t count) {
    heartbeat_set(HEARTBEAT_WAITS);
    for (int64_t from_ns = clock_now_ns();;) {
        int64_t first_ns = INT64_MAX;
        for (uint32_t i = 0; i < count; i++) {
            int64_t end_ns = known_arrival_ns(exchanges[i]);
            if (end_ns <= clock_now_ns()) {
                exchanges[i]->idle_ns = from_ns;
                heartbeat_set(HEARTBEAT_COMPUTES);
                return exchanges[i];
            }
            if (end_ns < first_ns) first_ns = end_ns;
        }
        if (first_ns != INT64_MAX) exchange_nap(first_ns - clock_now_ns());
    }
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
