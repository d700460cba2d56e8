/* SPDX-License-Identifier: Apache-2.0
 * Moves experts between the slots of a group of ranks while it steps. Rank 0 calls rebalancer_turn
 * between two steps; most turns do nothing.
 *
 * Periodically it asks every rank for the load of its slots (host/engine/expert_load), and less
 * often computes the gain of a new map, a layer a turn (serving/policy/balance/rebalance). A new map is
 * applied in waves of whole layers, as many as fit into the ranks' spare memory: all ranks receive
 * the moves, steps continue while weights are transferred, and when every rank has its experts, all
 * adopt the layers between the same two steps. If an expert did not arrive intact, its layer stays
 * unchanged.
 *
 * A masked rank is to hold no expert: the next map leaves its slots empty.
 */
#ifndef HOST_ENGINE_REBALANCER_H
#define HOST_ENGINE_REBALANCER_H

#include "contract/record_unit.h"
#include "host/engine/rank_group.h"

struct rebalancer_options {
    enum replica_choice replicas; /* how a step's tokens are split over them */
    enum level_choice levels;     /* how its rows go to other nodes */
    bool measured;                /* from loads; else experts move only for masked ranks */
    bool from_checkpoint;         /* weights come from there, not from other ranks */
    double seconds;               /* between two looks at the loads */
    double gain;                  /* that is worth a new map; see struct rebalance_rule */
    uint64_t bytes_per_second;    /* that each rank gives at most; 0: any */
    uint64_t reshuffle_steps;     /* not 0: after so many steps, a new map by chance: to see that it
                                   * changes nothing. Its moves are over after one more step */
    enum unit_role role;          /* where prompts are computed, groups of experts stay on nodes */
    bool says;                    /* each new map, in a line of the log */
};

/* Since it was opened. Balance: mean rank load by largest, over all layers. */
struct rebalancer_counts {
    uint64_t rebalances, moves, bytes, failures; /* maps carried out; experts that came to a rank */
    int64_t stall_ns, stall_ns_max; /* of steps, while all ranks adopted; once at most */
    double balance;                 /* at the last look, of the map as it was then; 0: none yet */
    double balance_before, balance_after; /* of the last new map, by the loads it was made for */
    uint64_t version;                     /* counts adopted layers' waves */
};

struct rebalancer;

/* The group outlives it. */
enum status rebalancer_open(struct rank_group *group, const struct rebalancer_options *options,
                            struct rebalancer **rebalancer_out, struct error *error) MUST_USE;
void rebalancer_close(struct rebalancer *rebalancer);

/* To be called between any two steps. */
void rebalancer_turn(struct rebalancer *rebalancer);

/* The unit has got another role. */
void rebalancer_set_role(struct rebalancer *rebalancer, enum unit_role role);

/* True: call rebalancer_turn soon, even if there is no step. */
bool rebalancer_is_busy(const struct rebalancer *rebalancer);

/* Masks a rank, or ends that, from the next look at the loads on, which is at once. STATUS_INVALID:
 * no such rank, or the others lack slots; the line says how many redundant experts it takes. */
enum status rebalancer_mask(struct rebalancer *rebalancer, uint32_t rank, bool masked,
                            struct error *error) MUST_USE;
/* Ranks have died or come back, and the group has regrouped. The experts' replicas of those that died
 * take over, and experts without one are read from the checkpoint, here and now. Those that came back
 * are masked no more. STATUS_GONE: another rank has died meanwhile. What else goes wrong is final: no
 * step may follow. Counts those that were read. */
enum status rebalancer_regroup(struct rebalancer *rebalancer, uint32_t *read_out,
                               struct error *error) MUST_USE;
/* True if the rank holds no expert. */
bool rebalancer_is_empty(const struct rebalancer *rebalancer, uint32_t rank);

/* For the record of kind RECORD_EXPERTS; false: nothing has changed since it was last asked. */
bool rebalancer_report(struct rebalancer *rebalancer, struct record_experts *record_out);

struct rebalancer_counts rebalancer_counts(const struct rebalancer *rebalancer);

#endif
