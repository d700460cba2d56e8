/* SPDX-License-Identifier: Apache-2.0
 * The gateway's counters, and GET /metrics in Prometheus' text format, version 0.0.4. Counters end
 * in _total and only grow. Pages of KV memory: free + held = total, always.
 */
#pragma once

#include "base/histogram.h"
#include "base/json_writer.h"
#include "contract/record_unit.h"
#include "serving/gateway/accounts.h"
#include "serving/gateway/endpoint.h"
#include "serving/gateway/fleet.h"

/* Each status that the gateway sends, and 499: the client left before the answer. */
#define METRICS_STATUS_COUNT 14

struct metrics {
    uint64_t answers[ENDPOINT_COUNT][METRICS_STATUS_COUNT];
    uint64_t arrived_answers, arrived_tokens; /* prompt tokens of all requests, refused or not */
    uint64_t prompt_hit_tokens, prompt_miss_tokens, output_tokens; /* of requests that ended */
    uint64_t cancelled;                                            /* by their clients */
    uint64_t ended[FINISH_REASON_COUNT];
    struct histogram first_token_ns;                 /* of requests, at their first token */
    struct histogram queue_ns;                       /* of requests that were computed at all */
    struct histogram token_ns, whole_ns;             /* of answers that came to their end */
    struct histogram prompt_lengths, output_lengths; /* of those, too */
    struct histogram step_ns, step_rows, step_tokens;
};

/* The times of a request as the gateway saw them. */
struct metrics_times {
    int64_t arrived_ns;
    int64_t first_token_ns, last_token_ns;
    bool has_token; /* those two are set */
};

struct metrics_gauges { /* present values */
    int64_t uptime_ns;
    uint32_t requests_held;
    uint32_t requests_queued; /* of them, wait for a unit */
    uint64_t requests_resumed;
    const struct fleet *fleet;
    const struct accounts *accounts;          /* NULL: none */
    uint32_t page_count;                      /* of all units */
    struct bytes model, version, numerics_id; /* the main numerics */
    struct record_unit_load load;             /* of all units; zeros before the first */
};

void metrics_count_answer(struct metrics *metrics, enum endpoint_number endpoint,
                          uint32_t http_status);

/* Counts a prompt that fits, for so many answers. It counts as load whatever happens later. */
void metrics_count_prompt(struct metrics *metrics, uint64_t tokens, uint32_t answers);

/* Tokens have arrived for the request. */
void metrics_count_tokens(struct metrics *metrics, struct metrics_times *times, int64_t now_ns);

/* An answer has ended as `record` says. `stopped`: at a stop string, which its unit did not
 * know. */
void metrics_count_end(struct metrics *metrics, const struct metrics_times *times,
                       const struct record_finished *record, bool stopped, int64_t now_ns);

/* Counts the step between two load reports, if there is one. */
void metrics_count_step(struct metrics *metrics, const struct record_unit_load *before,
                        const struct record_unit_load *load);

void metrics_write(struct json_writer *writer, const struct metrics *metrics,
                   const struct metrics_gauges *gauges);
