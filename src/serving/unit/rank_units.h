/* SPDX-License-Identifier: Apache-2.0
 * A unit of several DP ranks as one machine: a unit (unit.h) for each rank, with its own pages and
 * turns, and one common step.
 *
 * A request waits in one line for all ranks (serving/unit/waiting_line.h) until a rank is about to
 * accept it. serving/policy/balance/balance_prefill chooses the rank that would finish the prompt
 * first, including the work ahead of it there and the rank's cache. From then on all records of the
 * request go to that rank. It stays there, unless the rank runs out of pages and another has enough
 * (serving/policy/balance/balance_decode). The rank is chosen on arrival if the request is a
 * RESERVE, if there is one rank, with bind_on_arrival, and with the simple methods of
 * serving/policy/balance/balance.
 *
 * A step is planned when none is in flight, from every rank that has work: one RUN_STEP is sent to
 * each rank, in the order of ranks, without rows for ranks that have none (their engine still
 * computes for the others). The next step is planned when all STEP_DONEs have arrived. UNIT_HELLO
 * and UNIT_LOAD represent all ranks together.
 */
#pragma once

#include "serving/unit/unit.h"

struct rank_units;

/* `options` are those of each rank's unit, with one pid per rank. */
size_t rank_units_memory_bytes(const struct unit_options *options, uint32_t ranks);

/* unit_create for several ranks. */
enum status rank_units_create(struct arena *arena, const struct unit_options *options,
                              uint32_t ranks, struct rank_units **units_out,
                              struct error *error) MUST_USE;

struct machine rank_units_machine(struct rank_units *units);

/* The unit of one rank, for tests. */
struct unit *rank_units_unit(const struct rank_units *units, uint32_t rank);
