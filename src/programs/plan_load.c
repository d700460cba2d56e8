/* SPDX-License-Identifier: Apache-2.0 */
#include "programs/plan_load.h"

#include "base/hash.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DRAWN 8192 /* prompts that are sampled from a steady load */

static double plan_load_row_tokens(const struct load_trace_row *row) {
    return (double)row->prompt_tokens + row->output_tokens;
}

/* The start of the window with the most tokens. Windows begin with a request. */
static double busiest(const struct load_trace *trace, double seconds) {
    double sum = 0, most = -1, found = 0;
    size_t end = 0;
    for (size_t i = 0; i < trace->count; i++) {
        double begin = trace->rows[i].arrival;
        for (; end < trace->count && trace->rows[end].arrival < begin + seconds; end++)
            sum += plan_load_row_tokens(&trace->rows[end]);
        if (sum > most) {
            most = sum;
            found = begin;
        }
        if (end == trace->count) break;
        sum -= plan_load_row_tokens(&trace->rows[i]);
    }
    return found;
}

enum status plan_load_window(struct load_trace *trace, struct plan_window *window_out,
                             struct error *error) {
    double last = trace->count ? trace->rows[trace->count - 1].arrival : 0;
    struct plan_window window = {.trace = *trace, .measure_s = PLAN_WINDOW_S};
    if (trace->count < 2 || !trace->has_arrivals || last <= 0)
        return error_set(error, STATUS_INVALID, "the trace has no arrival times: set --rate");
    double begin = busiest(trace, PLAN_WINDOW_S);
    double from = begin > PLAN_WINDOW_S ? begin - PLAN_WINDOW_S : 0;
    size_t first = 0;
    while (trace->rows[first].arrival < from)
        first++;
    from = trace->rows[first].arrival;
    window.trace.rows += first;
    window.trace.count -= first;
    window.warm_s = begin - from;
    if (window.measure_s > last - begin) window.measure_s = last - begin + 1e-3;
    for (size_t i = 0; i < window.trace.count; i++)
        window.trace.rows[i].arrival -= from;
    *window_out = window;
    return STATUS_OK;
}

/* ---- the steady load ---- */

struct blocks_seen { /* a hash table with open addressing; 0: an empty place */
    uint64_t *slots;
    size_t mask;
};

/* Adds a block. Returns true if it was there before. */
static bool plan_load_see(struct blocks_seen *seen, uint64_t block) {
    uint64_t key = block + 1;
    size_t at = (size_t)hash_mix(key) & seen->mask;
    while (seen->slots[at] && seen->slots[at] != key)
        at = (at + 1) & seen->mask;
    bool known = seen->slots[at] == key;
    seen->slots[at] = key;
    return known;
}

/* Tokens of the row's prompt that hit in an infinite prefix cache. */
static double plan_load_hits_of(struct blocks_seen *seen, const struct load_trace *trace,
                                const struct load_trace_row *row) {
    uint32_t leading = 0;
    bool all = true;
    for (uint32_t i = 0; i < row->block_count; i++) {
        all &= plan_load_see(seen, trace->blocks[row->block_index + i]);
        leading += all;
    }
    double tokens = (double)leading * LOAD_TRACE_BLOCK_TOKENS;
    return tokens < row->prompt_tokens ? tokens : row->prompt_tokens - 1;
}

enum status plan_load_moments(const struct plan_window *window, struct size_load *load_out,
                              struct plan_prompts *prompts_out, struct error *error) {
    const struct load_trace *trace = &window->trace;
    double count = 0, prompts = 0, squares = 0, answers = 0, hits = 0, kv = 0;
    struct blocks_seen seen = {.mask = 1};
    memset(prompts_out, 0, sizeof *prompts_out);
    while (seen.mask < 2 * trace->block_count + 16)
        seen.mask *= 2;
    seen.slots = calloc(seen.mask--, sizeof *seen.slots);
    if (!seen.slots) return error_set(error, STATUS_NO_MEMORY, "no memory for the trace's blocks");
    for (size_t i = 0; i < trace->count; i++) {
        const struct load_trace_row *row = &trace->rows[i];
        double hit = plan_load_hits_of(&seen, trace, row), answer = row->output_tokens;
        if (row->arrival < window->warm_s) continue;
        if (row->arrival >= window->warm_s + window->measure_s) break;
        count++;
        prompts += row->prompt_tokens;
        squares += (double)row->prompt_tokens * row->prompt_tokens;
        answers += answer;
        hits += hit;
        spread_add(&prompts_out->lengths, row->prompt_tokens);
        spread_add(&prompts_out->computed, (int64_t)(row->prompt_tokens - hit));
        kv += answer * (row->prompt_tokens + answer / 2);
    }
    free(seen.slots);
    if (count == 0 || answers == 0)
        return error_set(error, STATUS_INVALID, "no answers in the trace's busiest window");
    double mean = prompts / count, variance = squares / count - mean * mean;
    *load_out = (struct size_load){.rate = count / window->measure_s,
                                   .prompt_mean = mean,
                                   .prompt_cv = sqrt(variance > 0 ? variance : 0) / mean,
                                   .answer_mean = answers / count,
                                   .hit_share = hits / prompts,
                                   .dry_share = hits / prompts,
                                   .kv_mean = kv / answers};
    return STATUS_OK;
}

void plan_load_draw(const struct day_lengths *lengths, uint64_t seed,
                    struct plan_prompts *prompts_out) {
    struct day_load load = {.lengths = *lengths, .rate = 1, .end_ns = INT64_MAX, .seed = seed};
    struct simulator_source source = day_load_source(&load);
    struct simulator_request request;
    memset(prompts_out, 0, sizeof *prompts_out);
    for (int i = 0; i < DRAWN && source.next(source.self, &request); i++) {
        spread_add(&prompts_out->lengths, request.prompt_tokens);
        spread_add(&prompts_out->computed, request.prompt_tokens - request.stored_tokens);
    }
}

bool plan_load_seconds(const char *text, double *seconds_out) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || !(value > 0) || value > 1e6) return false;
    if (!strcmp(end, "ms"))
        value *= 1e-3;
    else if (*end && strcmp(end, "s") != 0)
        return false;
    *seconds_out = value;
    return true;
}
