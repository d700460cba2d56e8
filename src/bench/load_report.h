/* SPDX-License-Identifier: Apache-2.0
 * The results of a load: figures as a table for people or JSON for programs.
 */
#pragma once

#include "bench/harness.h"
#include "bench/load.h"

/* Figures of the requests that succeeded, times in seconds. */
struct load_report {
    size_t count, failed, left;
    size_t failures[LOAD_FAILURE_COUNT];
    uint64_t prompt_tokens, cached_tokens, output_tokens;
    struct stats first; /* arrival to first token (TTFT) */
    struct stats token; /* mean time from token to token of an answer, after its first (TPOT) */
    struct stats gap;   /* each time from event to event (ITL) */
    struct stats whole; /* arrival to end (E2E) */
    struct stats queue; /* arrival to sending: how long the client waited for a connection */
    struct stats prompt_lengths, output_lengths;
};

/* Sorts the outcome's gaps. May return STATUS_NO_MEMORY. */
enum status load_report_make(struct load_outcome *outcome, size_t request_count,
                             struct load_report *report_out, struct error *error);

/* Prints the members of an open object, or a table. `each`: also prints each request; NULL: not. */
void load_report_print(struct json_print *out, const struct load_report *report,
                       const struct load_outcome *outcome, const struct load_options *options,
                       const struct load_request *each);
