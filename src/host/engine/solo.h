/* SPDX-License-Identifier: Apache-2.0
 * Runs sequences on a model without a unit, for the command line, benchmarks and tests. It manages
 * each sequence's length and KV pages (a fixed share each, deliberately not in order); the caller
 * chooses the tokens of each step. On rank 0 of a job, sequences are assigned to ranks in turn.
 */
#pragma once

#include "compute/model/forward.h"
#include "host/engine/rebalancer.h"

struct solo_options {
    struct model_options model; /* kv_bytes and step_rows_max are filled in by solo_open */
    uint32_t sequences;
    uint32_t context_max;                /* limit of tokens per sequence */
    const char *schedule;                /* a name for micro_batches_named; NULL: sequential */
    struct rebalancer_options rebalance; /* among ranks; zeros: experts do not move */
};

struct solo_row {
    uint32_t sequence;
    enum mla_mode form;
    const uint32_t *tokens; /* appended to the sequence */
    uint32_t token_count;
    uint32_t logits_count; /* number of last tokens to compute logits for */
};

struct solo;

enum status solo_open(const struct solo_options *options, struct solo **solo_out,
                      struct error *error) MUST_USE;
void solo_close(struct solo *solo);

struct model *solo_model(const struct solo *solo); /* rank 0's */
struct rank_group *solo_group(const struct solo *solo);

/* Removes all tokens of a sequence, or all after its first `length`. */
void solo_reset(struct solo *solo, uint32_t sequence);
void solo_truncate(struct solo *solo, uint32_t sequence, uint32_t length);

/* Sets the schedule from the next step on. Measurements stay until solo_forget_measured. */
void solo_set_schedule(struct solo *solo, const char *schedule);
void solo_forget_measured(struct solo *solo);
/* Sets whether the times of further steps influence the choice of a schedule; true at first. */
void solo_set_measured(struct solo *solo, bool measured);
/* The last step's schedule, with the reason for it. */
struct choose_overlap_choice solo_schedule(const struct solo *solo);

/* Sets another schedule and its cuts for the next step alone, on every rank; see struct
 * step_plan. */
void solo_cut_next(struct solo *solo, enum overlap_kind overlap,
                   const struct step_cut cuts[OVERLAP_MICRO_BATCHES - 1]);

/* Runs one step; logits and probe as in forward_run. */
enum status solo_step(struct solo *solo, const struct solo_row *rows, uint32_t row_count,
                      float *logits, const struct model_probe *probe, struct error *error) MUST_USE;

/* Prefills a prompt in chunks of at most `chunk` tokens, rounded down to whole blocks (0: the
 * largest possible step). Returns the last token's logits. */
enum status solo_prefill(struct solo *solo, uint32_t sequence, const uint32_t *tokens,
                         uint32_t token_count, uint32_t chunk, float *logits,
                         struct error *error) MUST_USE;

/* The size of the next chunk of a prompt after its first `done` tokens. */
uint32_t solo_chunk(const struct solo *solo, uint32_t token_count, uint32_t done, uint32_t chunk);
