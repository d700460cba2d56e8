/* SPDX-License-Identifier: Apache-2.0
 * Moves experts between the slots of a group of ranks while it steps. Rank 0 calls rebalancer_turn
 * between two steps; most turns do nothing.
 *
 * Periodically it asks every rank for the load of its slots (host/engine/expert_load), and less
 * often computes the gain of a new map, a layer a turn (serving/policy/balance/rebalance). A new
 * map is applied in batches of whole layers, as many as fit into the ranks' spare memory: all ranks
 * receive the moves, steps continue while weights are transferred, and when every rank has its
 * experts, all adopt the layers between the same two steps. If an expert did not arrive intact, its
 * layer stays unchanged. The next map leaves a masked rank's slots empty.
 */
#pragma once

#include "contract/record_unit.h"
#include "host/engine/rank_group.h"

struct rebalancer_options {
    enum replica_choice replicas; /* how a step's tokens are split over replicas */
    enum level_choice levels;     /* whether rows for other nodes are sent once to each node */
    bool measured;                /* maps follow loads; else experts move only for masked ranks */
    bool from_checkpoint;         /* weights are read from it, not sent by other ranks */
    double seconds;               /* between two polls of the loads */
    double gain;                  /* the least gain of a new map; see struct rebalance_rule */
    uint64_t bytes_per_second;    /* the most that each rank sends; 0: no limit */
    uint64_t reshuffle_steps;     /* for tests: a random map every so many steps, which must not
                                   * change a result; its moves end within one more step. 0:
                                   * never */
    enum unit_role role;          /* if it computes prompts, groups of experts stay on nodes */
    bool says;                    /* logs each new map */
};

/* Counters since it was opened. Balance: mean rank load divided by the largest, over all layers. */
struct rebalancer_counts {
    uint64_t rebalances, moves, bytes, failures; /* maps applied; experts that a rank received */
    int64_t stall_ns, stall_ns_max; /* time that steps waited while ranks adopted: sum, longest */
    double balance;                 /* of the present map at the last poll; 0: none yet */
    double balance_before, balance_after; /* of the last new map, by the loads it was made for */
    uint64_t version;                     /* counts adopted batches of layers */
};

struct rebalancer;

/* The group must outlive it. */
enum status rebalancer_open(struct rank_group *group, const struct rebalancer_options *options,
                            struct rebalancer **rebalancer_out, struct error *error) MUST_USE;
void rebalancer_close(struct rebalancer *rebalancer);

/* Call it between every two steps. */
void rebalancer_turn(struct rebalancer *rebalancer);

/* Call it when the unit's role changes. */
void rebalancer_set_role(struct rebalancer *rebalancer, enum unit_role role);

/* True: rebalancer_turn must be called soon, even without a step. */
bool rebalancer_is_busy(const struct rebalancer *rebalancer);

/* Masks or unmasks a rank and polls the loads at once. STATUS_INVALID: no such rank, or the others
 * lack slots; the message has the number of redundant experts that it takes. */
enum status rebalancer_mask(struct rebalancer *rebalancer, uint32_t rank, bool masked,
                            struct error *error) MUST_USE;
/* Call it after ranks have died or come back and the group has regrouped. Replicas replace the dead
 * ranks' experts; experts without one are read from the checkpoint before it returns, *read_out
 * counts them. Returned ranks are unmasked. STATUS_GONE: another rank has died meanwhile. Any other
 * error is fatal: no step may follow. */
enum status rebalancer_regroup(struct rebalancer *rebalancer, uint32_t *read_out,
                               struct error *error) MUST_USE;
/* True if the rank holds no expert. */
bool rebalancer_is_empty(const struct rebalancer *rebalancer, uint32_t rank);

/* Fills RECORD_EXPERTS. False: nothing has changed since the last call. */
bool rebalancer_report(struct rebalancer *rebalancer, struct record_experts *record_out);

struct rebalancer_counts rebalancer_counts(const struct rebalancer *rebalancer);
