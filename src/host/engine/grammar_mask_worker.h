/* SPDX-License-Identifier: Apache-2.0
 * Computes the masks of one rank's constrained answers (struct engine_masks) in two threads, while
 * the layers of a step are computed, with the constraints of host/engine/constraint_store. A mask
 * that is too late for its step is still computed, and the row is scheduled again when it is ready.
 * A constraint is borrowed before the first row of its slot.
 *
 * No answer waits for another's slow mask. Among waiting jobs, the constraint with the cheapest
 * masks runs first, and at most one of the threads works on one that is known to be slow. A
 * constraint that was never slow before can still block one thread; the other continues with the
 * rest.
 */
#pragma once

#include "host/engine/engine.h"

#define GRAMMAR_MASK_WORKER_WAIT_NS 2000000 /* wait after a step's layers, for all its rows */
#define GRAMMAR_MASK_WORKER_IDLE_NS                                                                \
    4000000 /* wait of a step without rows for compiled constraints */

struct grammar_mask_worker;

struct grammar_mask_worker_options {
    const char *directory; /* the checkpoint's, with its tokenizer */
    uint32_t vocab;        /* rows of the model's logits */
    uint32_t slots;        /* of the rank's unit */
    uint32_t context_tokens_max;
    int64_t wait_ns_max; /* usually GRAMMAR_MASK_WORKER_WAIT_NS */
};

/* Memory and threads are allocated with the first constraint. */
enum status grammar_mask_worker_open(const struct grammar_mask_worker_options *options,
                                     struct grammar_mask_worker **grammar_mask_worker_out,
                                     struct error *error) MUST_USE;
/* The engine must run no step now or later. */
void grammar_mask_worker_close(struct grammar_mask_worker *grammar_mask_worker);

struct engine_masks grammar_mask_worker_masks(struct grammar_mask_worker *grammar_mask_worker);

struct grammar_mask_worker_counts {
    uint64_t masks, late; /* late: rows and drafts with masks that were late */
    uint64_t mask_ns;     /* the threads' time for all of them */
    uint64_t forced;      /* tokens */
    uint64_t compiled, found;
};
struct grammar_mask_worker_counts
grammar_mask_worker_get_counts(struct grammar_mask_worker *grammar_mask_worker);
