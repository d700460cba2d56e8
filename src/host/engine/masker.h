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
#ifndef HOST_ENGINE_MASKER_H
#define HOST_ENGINE_MASKER_H

#include "host/engine/engine.h"

#define MASKER_WAIT_NS 2000000 /* of a step behind its layers, for all of its rows together */
#define MASKER_IDLE_NS 4000000 /* of a step that has no rows and waits for what is compiled */

struct masker;

struct masker_options {
    const char *directory; /* the checkpoint's, with its tokenizer */
    uint32_t vocab;        /* rows of the model's logits */
    uint32_t slots;        /* of the rank's unit */
    uint32_t context_tokens_max;
    int64_t wait_ns_max; /* usually MASKER_WAIT_NS */
};

/* STATUS_NO_MEMORY. Costs nothing before the first constraint comes: memory is taken lazily, and the
 * threads begin then. */
enum status masker_open(const struct masker_options *options, struct masker **masker_out,
                        struct error *error) MUST_USE;
/* The engine has no step under way, and will have none. */
void masker_close(struct masker *masker);

struct engine_masks masker_masks(struct masker *masker);

struct masker_counts {
    uint64_t masks, late; /* late: rows and drafts with masks that were late */
    uint64_t mask_ns;     /* the threads' time for all of them */
    uint64_t forced;      /* tokens */
    uint64_t compiled, found;
};
struct masker_counts masker_look(struct masker *masker);

#endif
