/* SPDX-License-Identifier: Apache-2.0
 * The engine: the one place of the serving system where a step plan becomes tensors and a token
 * comes out. Synchronous: runs a plan and returns its result. Owns the model, the logits and the
 * sampler's room; the thread around it, and when it runs, is the caller's business.
 *
 * Where the tensors are computed is the model's affair (compute/model/model.h): on a CPU.
 */
#ifndef HOST_ENGINE_ENGINE_H
#define HOST_ENGINE_ENGINE_H

#include "contract/step_plan.h"
#include "host/engine/step_progress.h"

struct engine;

/* STATUS_UNSUPPORTED: no model of this program can be computed there. `device`: "cpu" or "cuda". */
enum status engine_check_device(const char *device, struct error *error) MUST_USE;

enum status engine_open(const struct model_options *options, struct engine **engine_out,
                        struct error *error) MUST_USE;
void engine_close(struct engine *engine);

/* What it runs: for the unit's hello and its page count. */
struct model *engine_model(const struct engine *engine);

/* How far its steps are; lives as long as the engine. */
struct step_progress *engine_progress(const struct engine *engine);

/* Who fills pages that rows wait for. */
struct engine_loads {
    void *context;
    /* As model_follower's; false: they are not all there. */
    bool (*await)(void *context, uint32_t slot, uint32_t slices);
    /* At the row's end: takes the end of what it waited for. False: it is not over. */
    bool (*take_end)(void *context, uint32_t slot, struct load_end *end_out);
};
/* Between two steps; copied. */
void engine_set_loads(struct engine *engine, const struct engine_loads *loads);

/* STATUS_INVALID: a plan that breaks a rule; every engine on this model says the same. */
enum status engine_check(const struct engine *engine, const struct step_plan *plan,
                         struct error *error) MUST_USE;

/* Runs the plan; `result` has room for step_result_bytes_max of its rows and tokens. A plan that
 * breaks a rule gives a result with failed = 1, and the reason in *error. */
void engine_run(struct engine *engine, const struct step_plan *plan, struct step_result *result,
                struct error *error);

#endif
