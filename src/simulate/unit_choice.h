/* SPDX-License-Identifier: Apache-2.0
 * The units of a fleet behind one gateway in virtual time, for what the choice of a unit does to
 * the prefix cache: each unit computes prompts one after the other, at a fixed time a token that is
 * not cached, and keeps the last blocks that it used in its own pages. The choices are the real
 * ones (serving/policy/balance_units, serving/cache/prefix_affinity), made late, as the gateway
 * makes them.
 *
 * Everything lies in the caller's arena. The same input gives the same report.
 */
#ifndef SIMULATE_UNIT_CHOICE_H
#define SIMULATE_UNIT_CHOICE_H

#include "base/arena.h"
#include "simulate/ranks.h"

enum unit_choice_method {
    UNIT_CHOICE_PREFIX,
    UNIT_CHOICE_LOAD,
    UNIT_CHOICE_TURNS,
    UNIT_CHOICE_METHOD_COUNT
};

/* "prefix" (load, and what was computed where), "load" (the smallest share alone), "turns" */
const char *unit_choice_method_name(enum unit_choice_method method);

struct unit_choice_options {
    enum unit_choice_method method;
    uint32_t unit_count;    /* 1..LIMIT_FLEET_UNITS */
    uint32_t block_ids;     /* numbers of blocks lie below */
    uint32_t unit_blocks;   /* that a unit's pages keep, of RANKS_BLOCK_TOKENS */
    uint32_t table_entries; /* of the gateway's table: a power of two */
    double token_ns;        /* of a token that a unit computes */
};

struct unit_choice_report {
    uint64_t prompt_tokens, cached_tokens; /* of all prompts; of them, found in pages */
    double spread;                         /* tokens computed: most of any unit / mean */
};

/* Fills ready_ns_out[count]: when each prompt was done. STATUS_NO_MEMORY: the arena is too small.
 */
enum status unit_choice_run(const struct unit_choice_options *options,
                            const struct ranks_request *requests, uint32_t count,
                            struct arena *arena, int64_t *ready_ns_out,
                            struct unit_choice_report *report_out) MUST_USE;

#endif
