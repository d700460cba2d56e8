/* SPDX-License-Identifier: Apache-2.0
 * The masks of one rank's constrained answers (struct engine_masks), made by two threads while a
 * step's layers are computed, on the constraints of host/engine/constraint_store. What is asked for
 * is made even if it comes too late for its step: the row comes again when the mask is there. A
 * constraint is held from when it came ahead of its slot's first row.
 *
 * No answer waits for another's slow mask. Among waiting jobs, the constraint with the cheapest
 * masks runs first, and at most one of the threads works on one that is known to be slow. A
 * constraint that was never slow before can still block one thread; the other continues with the
 * rest.
 */
#ifndef HOST_ENGINE_GRAMMAR_MASK_WORKER_H
#define HOST_ENGINE_GRAMMAR_MASK_WORKER_H

#include "host/engine/engine.h"

#define GRAMMAR_MASK_WORKER_WAIT_NS                                                                \
    2000000 /* of a step behind its layers, for all of its rows together */
#define GRAMMAR_MASK_WORKER_IDLE_NS                                                                \
    4000000 /* of a step that has no rows and waits for what is compiled */

struct grammar_mask_worker;

struct grammar_mask_worker_options {
    const char *directory; /* the checkpoint's, with its tokenizer */
    uint32_t vocab;        /* rows of the model's logits */
    uint32_t slots;        /* of the rank's unit */
    uint32_t context_tokens_max;
    int64_t wait_ns_max; /* usually GRAMMAR_MASK_WORKER_WAIT_NS */
};

/* STATUS_NO_MEMORY. Costs nothing before the first constraint comes: memory is taken lazily, and the
 * threads begin then. */
enum status grammar_mask_worker_open(const struct grammar_mask_worker_options *options,
                                     struct grammar_mask_worker **grammar_mask_worker_out,
                                     struct error *error) MUST_USE;
/* The engine has no step under way, and will have none. */
void grammar_mask_worker_close(struct grammar_mask_worker *grammar_mask_worker);

struct engine_masks grammar_mask_worker_masks(struct grammar_mask_worker *grammar_mask_worker);

struct grammar_mask_worker_counts {
    uint64_t masks, late; /* late: rows and drafts with masks that were late */
    uint64_t mask_ns;     /* the threads' time for all of them */
    uint64_t forced;      /* tokens */
    uint64_t compiled, found;
};
struct grammar_mask_worker_counts
grammar_mask_worker_look(struct grammar_mask_worker *grammar_mask_worker);

#endif
