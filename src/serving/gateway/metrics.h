/* SPDX-License-Identifier: Apache-2.0
 * The gateway's counters, and GET /metrics in Prometheus' text format, version 0.0.4. The names of
 * counters end in _total, and counters only grow. For KV pages, free + held = total always holds.
 */
#pragma once

#include "base/histogram.h"
#include "base/json_writer.h"
#include "contract/record_unit.h"
#include "serving/gateway/accounts.h"
#include "serving/gateway/endpoint.h"
#include "serving/gateway/fleet.h"

/* The HTTP statuses that the gateway sends, 499 (the client left before the answer), and all
 * others. */
#define METRICS_STATUS_COUNT 14

struct metrics {
    uint64_t answers[ENDPOINT_COUNT][METRICS_STATUS_COUNT];
    uint64_t arrived_answers, arrived_tokens; /* prompt tokens of all requests, refused or not */
    uint64_t prompt_hit_tokens, prompt_miss_tokens, output_tokens; /* tokens of ended requests */
    uint64_t cancelled;                                            /* requests that clients left */
    uint64_t ended[FINISH_REASON_COUNT];
    struct histogram first_token_ns;                 /* time to first token */
    struct histogram queue_ns;                       /* queue time of requests that a unit began */
    struct histogram token_ns, whole_ns;             /* per output token, and end to end;
                                                      * complete answers */
    struct histogram prompt_lengths, output_lengths; /* tokens of complete answers */
    struct histogram step_ns, step_rows, step_tokens;
};

/* The times of a request by the gateway's clock. */
struct metrics_times {
    int64_t arrived_ns;
    int64_t first_token_ns, last_token_ns;
    bool has_token; /* the two times of tokens are set */
};

struct metrics_gauges { /* present values */
    int64_t uptime_ns;
    uint32_t requests_held;
    uint32_t requests_queued; /* held requests that wait for a unit */
    uint64_t requests_resumed;
    const struct fleet *fleet;
    const struct accounts *accounts;          /* NULL: none */
    uint32_t page_count;                      /* KV pages of all units */
    struct bytes model, version, numerics_id; /* numerics_id: the fleet's main numerics */
    struct record_unit_load load;             /* sums over all units; zeros before the first */
};

void metrics_count_answer(struct metrics *metrics, enum endpoint_number endpoint,
                          uint32_t http_status);

/* Counts an accepted prompt and its answers as arrived load, whatever happens to them later. */
void metrics_count_prompt(struct metrics *metrics, uint64_t tokens, uint32_t answers);

/* Call when tokens of a request have arrived. */
void metrics_count_tokens(struct metrics *metrics, struct metrics_times *times, int64_t now_ns);

/* Counts the end of an answer. `stopped`: the gateway ended it, e.g. at a stop string, which units
 * do not see. */
void metrics_count_end(struct metrics *metrics, const struct metrics_times *times,
                       const struct record_finished *record, bool stopped, int64_t now_ns);

/* Counts the step between two load reports of a unit, if there is one. */
void metrics_count_step(struct metrics *metrics, const struct record_unit_load *before,
                        const struct record_unit_load *load);

void metrics_write(struct json_writer *writer, const struct metrics *metrics,
                   const struct metrics_gauges *gauges);
