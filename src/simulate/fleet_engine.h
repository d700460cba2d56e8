/* SPDX-License-Identifier: Apache-2.0
 * An engine that computes nothing but chains of numbers. A token's "KV row" is a number that
 * depends on every token before it and on the form in which each was computed; the next token
 * depends on that number, on the seed, the choice, the place in the answer, and on what penalties
 * would see. So an answer that goes on elsewhere with a token missing, doubled or computed in the
 * wrong form is another answer, and what the right one is can be told without any engine
 * (fleet_engine_answer).
 */
#ifndef SIMULATE_FLEET_ENGINE_H
#define SIMULATE_FLEET_ENGINE_H

#include "base/arena.h"
#include "contract/step_plan.h"

enum { FLEET_VOCAB = 1000, FLEET_STOP_TOKEN = 1 };

struct fleet_engine {
    uint64_t *rows; /* [pages][KV_BLOCK_TOKENS] what was written last, whoever owns the page */
    uint32_t page_count;
};

size_t fleet_engine_bytes(uint32_t page_count);

/* False when the arena is out of memory. */
bool fleet_engine_open(struct fleet_engine *engine, struct arena *arena, uint32_t page_count);

/* Bytes of the largest result of the plan. */
size_t fleet_engine_result_bytes(const struct step_plan *plan);

/* Runs the plan; `result` has room for the above. `fails`: it writes anything, and says so. */
void fleet_engine_run(struct fleet_engine *engine, const struct step_plan *plan, bool fails,
                      struct step_result *result);

/* The whole answer to a prompt: at most new_tokens_max tokens, up to the stop token, which counts.
 * Returns how many. */
uint32_t fleet_engine_answer(const uint32_t *prompt, uint32_t prompt_count,
                             const struct sampling *sampling, uint32_t new_tokens_max,
                             uint32_t *tokens_out);

#endif
