/* SPDX-License-Identifier: Apache-2.0
 * A unit of several DP ranks, as one machine: a unit (unit.h) for each rank, with pages and turns
 * of its own, and one step for all.
 *
 * A request waits in one line for all ranks (serving/unit/waiting_line.h) until a rank is about to
 * take it. That rank is chosen by serving/policy/balance_prefill: where the prompt would be done
 * first, counting what is ahead of it there and what the rank's cache holds of it. From then on all
 * records of the request go to that rank. It stays there, unless the rank runs out of pages and
 * another has room for it (serving/policy/balance_decode). The rank is chosen as soon as the
 * request comes if the request is a RESERVE, if there is one rank, with bind_on_arrival, and with
 * the simple methods of serving/policy/balance.
 *
 * A step is formed when none is in flight, of every rank that has work: RUN_STEP comes out once for
 * each rank, in the order of ranks, without rows for those that have none (their engine still
 * computes for the others). The next one is formed when all STEP_DONEs have come back. UNIT_HELLO
 * and UNIT_LOAD speak for all ranks together.
 */
#ifndef SERVING_UNIT_RANK_UNITS_H
#define SERVING_UNIT_RANK_UNITS_H

#include "serving/unit/unit.h"

struct rank_units;

/* `options` are those of each rank's unit; pids: one for each. */
size_t rank_units_memory_bytes(const struct unit_options *options, uint32_t ranks);

/* As unit_create. */
enum status rank_units_create(struct arena *arena, const struct unit_options *options,
                              uint32_t ranks, struct rank_units **units_out,
                              struct error *error) MUST_USE;

struct machine rank_units_machine(struct rank_units *units);

/* The unit of one rank, for tests. */
struct unit *rank_units_unit(const struct rank_units *units, uint32_t rank);

#endif
