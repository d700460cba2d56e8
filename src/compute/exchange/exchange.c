/* SPDX-License-Identifier: Apache-2.0
 * Forwards each call to the backend, and measures the transfers. If the link is slow (struct
 * exchange_link), a transfer ends no earlier than such a link would have delivered it.
 */
#include "compute/exchange/exchange_backend.h"

#include "base/clock.h"
#include "base/heartbeat.h"

#include <sched.h>
#include <string.h>
#include <sys/prctl.h>

/* The longest sleep while waiting for a slow link: other ranks may need this rank's progress. */
#define NAP_NS 100000
#define LATE_NS 100000 /* how much later than requested a sleep may end; 50 us are usual */

void exchange_close(struct exchange *exchange) {
    if (exchange) exchange->backend->close(exchange);
}

void exchange_split_replicas(struct exchange *exchange, bool splits) {
    exchange->splits_replicas = splits;
}

void exchange_set_two_levels(struct exchange *exchange, bool by_nodes) {
    exchange->two_levels = by_nodes;
}

bool exchange_moves_rows(const struct exchange *exchange) {
    return exchange->backend->moves_rows;
}

/* Begins a transfer. Its bytes are the difference of the counts at its end. */
static void begin_transfer(const struct exchange *exchange, struct exchange_transfer *transfer) {
    if (!exchange->backend->moves_rows) return;
    *transfer = (struct exchange_transfer){.began_ns = clock_now_ns(),
                                           .bytes_sent = exchange->counts.bytes_sent,
                                           .bytes_received = exchange->counts.bytes_received};
}

static struct exchange_link *exchange_link_of(const struct exchange *exchange, bool within_node) {
    const struct exchange_options *options = &exchange->options;
    return within_node && options->node_link ? options->node_link : options->link;
}

struct exchange_span exchange_occupy_link(struct exchange *exchange, bool within_node,
                                          uint64_t bytes) {
    struct exchange_link *link = exchange_link_of(exchange, within_node);
    struct exchange_span departures = {.began_ns = clock_now_ns(), .bytes = bytes};
    if (departures.began_ns < link->free_ns) departures.began_ns = link->free_ns;
    departures.ended_ns = departures.began_ns + (int64_t)((double)bytes * link->ns_per_byte);
    link->free_ns = departures.ended_ns;
    return departures;
}

/* When the last byte of the messages over a link has arrived; 0: there are none. */
static int64_t end_ns_of(const struct exchange *exchange, bool within_node,
                         const struct exchange_span *departures) {
    const struct exchange_link *link = exchange_link_of(exchange, within_node);
    if (departures->ended_ns == 0) return 0;
    int64_t last_ns =
        departures->began_ns + (int64_t)((double)departures->bytes * link->ns_per_byte);
    return (last_ns > departures->ended_ns ? last_ns : departures->ended_ns) + link->latency_ns;
}

bool exchange_link_delivered(const struct exchange *exchange, bool within_node,
                             const struct exchange_span *departures) {
    return end_ns_of(exchange, within_node, departures) <= clock_now_ns();
}

/* The same for both links. */
static int64_t arrival_ns(const struct exchange *exchange) {
    int64_t far_ns = end_ns_of(exchange, false, &exchange->departures[false]);
    int64_t near_ns = end_ns_of(exchange, true, &exchange->departures[true]);
    return far_ns > near_ns ? far_ns : near_ns;
}

/* The earliest departure of a received message; valid if there is one. */
static int64_t first_left_ns(const struct exchange *exchange) {
    const struct exchange_span *between_nodes = &exchange->departures[false],
                               *within_node = &exchange->departures[true];
    if (!between_nodes->ended_ns ||
        (within_node->ended_ns && within_node->began_ns < between_nodes->began_ns))
        return within_node->began_ns;
    return between_nodes->began_ns;
}

/* How long the transfer occupied a link. A receiver needs as long for its bytes as their sender. */
static int64_t link_ns_of(const struct exchange *exchange) {
    int64_t most_ns = exchange->link_ns;
    for (int within_node = 0; within_node < 2; within_node++) {
        int64_t in_ns = (int64_t)((double)exchange->departures[within_node].bytes *
                                  exchange_link_of(exchange, within_node)->ns_per_byte);
        if (in_ns > most_ns) most_ns = in_ns;
    }
    return most_ns + exchange->options.link->latency_ns;
}

/* Sleeps, with an accurate timer, but spins for the last LATE_NS. */
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

/* Ends a transfer that the backend has received; over a slow link it first waits for the computed
 * end. */
static void exchange_end_transfer(struct exchange *exchange, struct exchange_transfer *transfer,
                                  int64_t from_ns) {
    if (!exchange->backend->moves_rows) return;
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
        memset(exchange->departures, 0, sizeof exchange->departures);
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
    if (!exchange->backend->moves_rows) return 0;
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
    exchange->backend->dispatch_begin(exchange, layer, experts, weights, tokens, activations);
}

void exchange_dispatch_finish(struct exchange *exchange, struct exchange_received *received_out) {
    int64_t from_ns = wait_began_ns(exchange);
    heartbeat_set(HEARTBEAT_WAITS);
    exchange->backend->dispatch_finish(exchange, received_out);
    exchange_end_transfer(exchange, &exchange->dispatch, from_ns);
    heartbeat_set(HEARTBEAT_COMPUTES);
    /* from here, because a rank without rows never calls exchange_combine_begin */
    begin_transfer(exchange, &exchange->combine);
}

void exchange_pair_slots(const struct exchange *exchange, uint32_t *slots_out, uint32_t pairs) {
    exchange->backend->pair_slots(exchange, slots_out, pairs);
}

uint32_t exchange_nodes(const struct exchange *exchange) {
    return exchange->backend->nodes(exchange);
}

uint32_t exchange_relayed(const struct exchange *exchange, uint32_t node, uint32_t *slots_out,
                          const char **rows_out) {
    return exchange->backend->relayed(exchange, node, slots_out, rows_out);
}

char *exchange_result(struct exchange *exchange, uint32_t row) {
    return exchange->backend->result(exchange, row);
}

/* Adds the time since the rows were received, or since the last exchange_combine_begin. */
static void count_experts(struct exchange *exchange) {
    if (exchange->backend->moves_rows)
        exchange->counts.experts_ns += clock_now_ns() - exchange->combine.began_ns;
}

void exchange_combine_begin(struct exchange *exchange, uint32_t first_row, uint32_t row_count) {
    count_experts(exchange);
    if (exchange->backend->moves_rows) /* the last results leave now */
        exchange->combine.began_ns = clock_now_ns();
    exchange->backend->combine_begin(exchange, first_row, row_count);
}

void exchange_combine_finish(struct exchange *exchange, struct exchange_returned *returned_out) {
    int64_t from_ns = wait_began_ns(exchange);
    heartbeat_set(HEARTBEAT_WAITS);
    exchange->backend->combine_finish(exchange, returned_out);
    exchange_end_transfer(exchange, &exchange->combine, from_ns);
    heartbeat_set(HEARTBEAT_COMPUTES);
}

/* When the transfer in progress arrives, if that is known; INT64_MAX: not yet. */
static int64_t known_arrival_ns(struct exchange *exchange) {
    if (!exchange->backend->moves_rows) return 0;
    if (!exchange->backend->arrived(exchange)) return INT64_MAX;
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

struct exchange_transfer exchange_last_transfer(const struct exchange *exchange) {
    return exchange->last;
}

void exchange_progress(struct exchange *exchange) {
    if (exchange->backend->progress) exchange->backend->progress(exchange);
}

struct exchange_counts exchange_counts(const struct exchange *exchange) {
    return exchange->counts;
}
