/* SPDX-License-Identifier: Apache-2.0
 * The compiled constraints of one rank, by their texts, and the memory for the state of answers. A
 * thread compiles them, so callers never wait. It reads the checkpoint's tokenizer with the first
 * constraint, because a rank without constraints does not need it.
 *
 * Clients take turns by the time that their constraints took (serving/policy/share_time): a client
 * with many large constraints delays others only by the one that is being compiled. A loan keeps
 * its constraint in memory. Constraints without loans stay while there is room. If there is none,
 * the least recently used one of the client with the most memory is evicted. The memory of loans is
 * limited, too: a client's next constraint is compiled when the client leaves enough memory to the
 * others (fair_queue_admits).
 */
#pragma once

#include "serving/constraint/constrained_rows.h"

struct constraint_store;

struct constraint_store_options {
    const char *directory; /* the checkpoint's, with its tokenizer; copied */
    uint32_t vocab;        /* rows of the model's logits */
    uint32_t loans_max;
    size_t bytes_max; /* limit of loans, above which none is compiled; 0: the default */
    void *context;
    void (*compiled)(void *context); /* a constraint was compiled; called on the store's thread */
};

/* The thread starts with the first request for a constraint. */
enum status constraint_store_open(const struct constraint_store_options *options,
                                  struct constraint_store **store_out,
                                  struct error *error) MUST_USE;
/* Called after the end of all loans. Waits for the constraint that is being compiled. */
void constraint_store_close(struct constraint_store *store);

/* The lender for serving/constraint. Any thread may call `ask` and `give_back`; only the holder of
 * the turn of the loan's grammar may call `ready`. */
struct constrained_lender constraint_store_lender(struct constraint_store *store);

/* True if `ready` would return true. Returns at once. */
bool constraint_store_is_ready(const struct constrained_loan *loan);

/* Only one thread at a time may use a grammar, and loans of equal constraints share one. This is
 * the turn of its users; the store only keeps it. */
struct constraint_turn {
    bool is_taken;
    int64_t cost_ns; /* recent cost of a mask */
};
struct constraint_turn *constraint_store_turn(struct constrained_loan *loan);

struct constraint_store_counts {
    uint64_t compiled, failed, found; /* found: requested, and an equal one existed */
    uint32_t kept;                    /* in memory */
    size_t lent_bytes;                /* of those with loans */
};
struct constraint_store_counts constraint_store_get_counts(struct constraint_store *store);
