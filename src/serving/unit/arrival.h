/* SPDX-License-Identifier: Apache-2.0
 * Accepts a request at a rank, from a SUBMIT or from another rank that has too few pages for it.
 * The request gets a slot and memory for its sequence, and then waits. unit.h declares the memory
 * that all ranks share, and unit_move.
 */
#pragma once

#include "serving/unit/state.h"

/* Copies the SUBMIT into a free slot. Returns false if the memory for prompts is exhausted. */
bool arrival_begin(struct unit *unit, const struct record_submit *submit, int64_t now_ns);

/* True if the request may be moved to another rank now. */
bool arrival_may_move(const struct unit_request *request);
