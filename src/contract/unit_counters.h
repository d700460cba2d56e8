/* SPDX-License-Identifier: Apache-2.0
 * The counters of a unit since its start. One line of UNIT_COUNTERS defines a counter: its member
 * in struct unit_counters, its sum over ranks and units, its place in the load report and its
 * sample in /metrics. The rest of the code only increments it.
 *
 *   X(member, ranks, where, metric, labels, help)
 *
 * `ranks`: a COUNTED_BY_EACH counter is summed over the ranks of a unit. All ranks count a
 * COUNTED_BY_ALL counter equally, and the unit has the largest value. `where`: COUNTED_EVERYWHERE,
 * or COUNTED_WITH_STORAGE for units that have a KV storage. Lines of one metric are adjacent, and
 * the first one has its help text.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum counted_ranks { COUNTED_BY_EACH, COUNTED_BY_ALL };
enum counted_where { COUNTED_EVERYWHERE, COUNTED_WITH_STORAGE };

#define UNIT_COUNTERS(X)                                                                           \
    X(steps, COUNTED_BY_ALL, COUNTED_EVERYWHERE, "fathom_steps_total", "",                         \
      "Steps the engine has run.")                                                                 \
    X(prompt_tokens, COUNTED_BY_EACH, COUNTED_EVERYWHERE, "fathom_step_prompt_tokens_total", "",   \
      "Prompt tokens computed.")                                                                   \
    X(output_tokens, COUNTED_BY_EACH, COUNTED_EVERYWHERE, "fathom_step_output_tokens_total", "",   \
      "Tokens generated.")                                                                         \
    X(recomputed_tokens, COUNTED_BY_EACH, COUNTED_EVERYWHERE,                                      \
      "fathom_step_recomputed_tokens_total", "", "Tokens computed again after an interruption.")   \
    X(drafts, COUNTED_BY_EACH, COUNTED_EVERYWHERE, "fathom_drafts_total", "",                      \
      "Tokens guessed ahead by the MTP layer.")                                                    \
    X(drafts_right, COUNTED_BY_EACH, COUNTED_EVERYWHERE, "fathom_drafts_accepted_total", "",       \
      "Guessed tokens that were right, each a token without a step of its own.")                   \
    X(preemptions, COUNTED_BY_EACH, COUNTED_EVERYWHERE, "fathom_preemptions_total", "",            \
      "Running requests interrupted because no KV page was left.")                                 \
    X(evicted_pages, COUNTED_BY_EACH, COUNTED_EVERYWHERE, "fathom_kv_pages_evicted_total", "",     \
      "Cached KV pages that made room.")                                                           \
    X(transfers_arrived, COUNTED_BY_EACH, COUNTED_EVERYWHERE, "fathom_kv_transfers_total",         \
      "{end=\"arrived\"}",                                                                         \
      "Prompts' KV blocks on their way to the unit that answers: all arrived, or not.")            \
    X(transfers_failed, COUNTED_BY_EACH, COUNTED_EVERYWHERE, "fathom_kv_transfers_total",          \
      "{end=\"failed\"}", "")                                                                      \
    X(loaded_disk_tokens, COUNTED_BY_EACH, COUNTED_WITH_STORAGE, "fathom_kv_loaded_tokens_total",  \
      "{tier=\"disk\"}", "Tokens with KV rows loaded from the storage, by tier.")                  \
    X(loaded_host_tokens, COUNTED_BY_EACH, COUNTED_WITH_STORAGE, "fathom_kv_loaded_tokens_total",  \
      "{tier=\"host\"}", "")                                                                       \
    X(loads_in_step, COUNTED_BY_EACH, COUNTED_WITH_STORAGE, "fathom_kv_loads_in_step_total",       \
      "{end=\"whole\"}",                                                                           \
      "Rows that waited in a step for their blocks, layer by layer, by whether all came.")         \
    X(loads_in_step_lost, COUNTED_BY_EACH, COUNTED_WITH_STORAGE, "fathom_kv_loads_in_step_total",  \
      "{end=\"lost\"}", "")                                                                        \
    X(kept_blocks, COUNTED_BY_EACH, COUNTED_WITH_STORAGE, "fathom_kv_blocks_kept_total", "",       \
      "KV blocks given to the storage.")                                                           \
    X(dropped_blocks, COUNTED_BY_EACH, COUNTED_WITH_STORAGE, "fathom_kv_blocks_dropped_total", "", \
      "KV blocks that it did not take, for want of room or time.")

struct unit_counters {
#define UNIT_COUNTER_MEMBER(member, ranks, where, metric, labels, help) uint64_t member;
    UNIT_COUNTERS(UNIT_COUNTER_MEMBER)
#undef UNIT_COUNTER_MEMBER
};

struct unit_counter {
    size_t offset; /* offset of a uint64_t in struct unit_counters */
    enum counted_ranks ranks;
    enum counted_where where;
    const char *metric, *labels, *help;
};

/* In the order of UNIT_COUNTERS. */
extern const struct unit_counter unit_counter_table[];
extern const size_t unit_counter_count;

uint64_t unit_counters_value(const struct unit_counters *counters,
                             const struct unit_counter *counter);

/* Replaces a rank's counters `before` by `now` in the sum over a unit's ranks (`before` zero: the
 * rank was not in the sum). COUNTED_BY_ALL counters never decrease. */
void unit_counters_renew_rank(struct unit_counters *sum, const struct unit_counters *before,
                              const struct unit_counters *now);

void unit_counters_add_unit(struct unit_counters *sum, const struct unit_counters *unit);
