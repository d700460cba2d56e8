/* SPDX-License-Identifier: Apache-2.0
 * Runs sequences on a model without a unit: for the command line, benchmarks and tests. Keeps each
 * sequence's length and pages (a fixed share each, deliberately not in order); the caller says
 * which tokens go into each step. On rank 0 of a job, sequences are dealt out to the ranks in turn.
 */
#pragma once

#include "compute/model/forward.h"
#include "host/engine/rebalancer.h"

struct solo_options {
    struct model_options model; /* kv_bytes and step_rows_max are filled in by solo_open */
    uint32_t sequences;
    uint32_t context_max;                /* tokens a sequence may have */
    const char *schedule;                /* as micro_batches_named takes it; NULL: sequential */
    struct rebalancer_options rebalance; /* among ranks; zeros: experts stay */
};

struct solo_row {
    uint32_t sequence;
    enum mla_mode form;
    const uint32_t *tokens; /* they follow what the sequence already holds */
    uint32_t token_count;
    uint32_t logits_count; /* of the last so many tokens */
};

struct solo;

enum status solo_open(const struct solo_options *options, struct solo **solo_out,
                      struct error *error) MUST_USE;
void solo_close(struct solo *solo);

struct model *solo_model(const struct solo *solo); /* rank 0's */
struct rank_group *solo_group(const struct solo *solo);

/* Forgets a sequence's tokens, or those behind its first `length`. */
void solo_reset(struct solo *solo, uint32_t sequence);
void solo_truncate(struct solo *solo, uint32_t sequence, uint32_t length);

/* The schedule from the next step on. What was measured stays, until it is forgotten. */
void solo_set_schedule(struct solo *solo, const char *schedule);
void solo_forget_measured(struct solo *solo);
/* Whether what steps take, from the next on, counts for the choice of a schedule; so at first. */
void solo_set_measured(struct solo *solo, bool measured);
/* The last step's schedule, and why it was chosen. */
struct choose_overlap_choice solo_schedule(const struct solo *solo);

/* Another schedule and its cuts for the next step alone, on every rank; see struct step_plan. */
void solo_cut_next(struct solo *solo, enum overlap_kind overlap,
                   const struct step_cut cuts[OVERLAP_MICRO_BATCHES - 1]);

/* One step; logits and probe as in forward_run. */
enum status solo_step(struct solo *solo, const struct solo_row *rows, uint32_t row_count,
                      float *logits, const struct model_probe *probe, struct error *error) MUST_USE;

/* A prompt in chunks of at most `chunk` tokens, rounded down to whole blocks (0: as large as a step
 * may be); the last token's logits. */
enum status solo_prefill(struct solo *solo, uint32_t sequence, const uint32_t *tokens,
                         uint32_t token_count, uint32_t chunk, float *logits,
                         struct error *error) MUST_USE;

/* The size of the next chunk of a prompt of which `done` tokens are computed. */
uint32_t solo_chunk(const struct solo *solo, uint32_t token_count, uint32_t done, uint32_t chunk);
