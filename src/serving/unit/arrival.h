/* SPDX-License-Identifier: Apache-2.0
 * A request's arrival at a rank: from a SUBMIT, or from another rank that has too few pages for it.
 * It then has a slot and memory for its sequence, and waits. unit.h has the memory that all ranks
 * share, and unit_move.
 */
#pragma once

#include "serving/unit/state.h"

/* Copies the submission into a free slot. Returns false if the prompts' memory is out. */
bool arrival_begin(struct unit *unit, const struct record_submit *submit, int64_t now_ns);

/* True if the request may be moved to another rank now. */
bool arrival_may_move(const struct unit_request *request);
