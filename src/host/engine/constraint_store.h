/* SPDX-License-Identifier: Apache-2.0
 * The compiled constraints of one rank, by their texts, and the memory for the state of answers. A
 * thread of its own compiles, so callers never wait. With the first constraint it reads the
 * checkpoint's tokenizer, which a rank without constraints does not need.
 *
 * Clients take turns by the time that their constraints took (serving/policy/share_time): a client
 * with many large ones delays others no longer than for the one being compiled. A loan keeps its
 * constraint for as long as it is held. Constraints without loans stay as long as there is room for them: of
 * the client that has most of it, the one that was used least recently goes first. What is lent is
 * bounded, too: a client's next one is compiled when what it holds leaves as much to the others
 * (fair_queue_admits).
 */
#ifndef HOST_ENGINE_CONSTRAINT_STORE_H
#define HOST_ENGINE_CONSTRAINT_STORE_H

#include "serving/constraint/constrained_rows.h"

struct constraint_store;

struct constraint_store_options {
    const char *directory; /* the checkpoint's, with its tokenizer; copied */
    uint32_t vocab;        /* rows of the model's logits */
    uint32_t loans_max;
    size_t bytes_max; /* of what is lent, before another one is compiled; 0: the usual */
    void *context;
    void (*compiled)(void *context); /* something was; on the store's thread */
};

/* STATUS_NO_MEMORY. No thread begins before the first constraint is asked for. */
enum status constraint_store_open(const struct constraint_store_options *options,
                                  struct constraint_store **store_out,
                                  struct error *error) MUST_USE;
/* All loans are back. Waits for what is being compiled. */
void constraint_store_close(struct constraint_store *store);

/* `ask` and `give_back` from any thread; `ready` by turns of the loan's grammar. */
struct constrained_lender constraint_store_lender(struct constraint_store *store);

/* `ready` would say true; never takes long. */
bool constraint_store_is_ready(const struct constrained_loan *loan);

/* A grammar is one thread's at a time: who has its turn follows or masks answers of it. Loans of
 * equal constraints share one. For those who give the turns; the store only keeps it. */
struct constraint_turn {
    bool is_taken;
    int64_t cost_ns; /* of a mask, lately */
};
struct constraint_turn *constraint_store_turn(struct constrained_loan *loan);

struct constraint_store_counts {
    uint64_t compiled, failed, found; /* found: asked for, and there was an equal one */
    uint32_t kept;                    /* in memory */
    size_t lent_bytes;                /* of those with loans */
};
struct constraint_store_counts constraint_store_look(struct constraint_store *store);

#endif
