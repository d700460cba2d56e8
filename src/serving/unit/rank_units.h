/* SPDX-License-Identifier: Apache-2.0
 * A unit with several DP ranks, as one machine. Each rank has a unit of its own (unit.h), with its
 * own pages and queue. All ranks step together.
 *
 * A request waits in one line for all ranks (serving/unit/waiting_line.h) until a rank is about to
 * accept it. serving/policy/balance/balance_prefill chooses the rank that would finish the prompt
 * first, given the work already bound there and the prefix cache of the rank. From then on all
 * records of the request go to that rank. It stays there unless the rank runs out of pages and
 * another has enough (serving/policy/balance/balance_decode). In some cases the rank is chosen on
 * arrival: for a RESERVE, in a unit with one rank, with bind_on_arrival, and with the simple
 * methods of serving/policy/balance/balance.
 *
 * A step is planned when none is in flight and any rank has work. Each rank gets one RUN_STEP, in
 * the order of ranks. A rank without work gets a plan without rows, because its engine still
 * computes for the others. The next step is planned when all STEP_DONEs have arrived. UNIT_HELLO
 * and UNIT_LOAD represent all ranks together.
 */
#pragma once

#include "serving/unit/unit.h"

struct rank_units;

/* `options` apply to the unit of each rank, and have one pid per rank. */
size_t rank_units_memory_bytes(const struct unit_options *options, uint32_t ranks);

/* Like unit_create, for several ranks. */
enum status rank_units_create(struct arena *arena, const struct unit_options *options,
                              uint32_t ranks, struct rank_units **units_out,
                              struct error *error) MUST_USE;

struct machine rank_units_machine(struct rank_units *units);

/* The unit of one rank, for tests. */
struct unit *rank_units_unit(const struct rank_units *units, uint32_t rank);
