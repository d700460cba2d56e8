/* SPDX-License-Identifier: Apache-2.0
 * The engine on a CPU: the one place of the serving system where a step plan becomes tensors and a
 * token comes out. Synchronous: runs a plan and returns its result. Owns the model, the logits and
 * the sampler's room; the thread around it, and when it runs, is the caller's business.
 */
#ifndef HOST_ENGINE_CPU_H
#define HOST_ENGINE_CPU_H

#include "host/step_progress.h"

struct engine_cpu;

enum status engine_cpu_open(const struct model_options *options, struct engine_cpu **engine_out,
                            struct error *error) MUST_USE;
void engine_cpu_close(struct engine_cpu *engine);

/* What it runs: for the unit's hello and its page count. */
struct model *engine_cpu_model(const struct engine_cpu *engine);

/* How far its steps are; lives as long as the engine. */
struct step_progress *engine_cpu_progress(const struct engine_cpu *engine);

/* Who fills pages that rows wait for. */
struct engine_loads {
    void *context;
    /* As model_follower's; false: they are not all there. UINT32_MAX slices: all of it. */
    bool (*await)(void *context, uint32_t slot, uint32_t slices);
};
/* Between two steps; copied. */
void engine_cpu_set_loads(struct engine_cpu *engine, const struct engine_loads *loads);

/* What a result of so many rows needs at most. */
size_t engine_cpu_result_bytes(uint32_t rows_max);

/* STATUS_INVALID: a plan that breaks a rule; every engine on this model says the same. */
enum status engine_cpu_check(const struct engine_cpu *engine, const struct step_plan *plan,
                             struct error *error) MUST_USE;

/* Runs the plan; `result` has room for engine_cpu_result_bytes(plan->row_count). A plan that breaks
 * a rule gives a result with failed = 1, and the reason in *error. */
void engine_cpu_run(struct engine_cpu *engine, const struct step_plan *plan,
                    struct step_result *result, struct error *error);

#endif
