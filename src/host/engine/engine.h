/* SPDX-License-Identifier: Apache-2.0
 * The engine runs a step plan on the model and returns the sampled tokens. It is the only module in
 * which a plan becomes tensors. A call is synchronous: it runs one plan. The engine owns the model,
 * the logits and the sampler's memory; the caller owns the thread.
 *
 * The model decides on which device tensors are computed (compute/model/model.h).
 */
#pragma once

#include "contract/step_plan.h"
#include "host/engine/step_progress.h"

struct engine;

/* Checks that this program can run models on `device`, "cpu" or "cuda". STATUS_INVALID: an unknown
 * name. STATUS_UNSUPPORTED: the program has no kernels for GPUs, or there is no GPU. */
enum status engine_check_device(const char *device, struct error *error) MUST_USE;
/* engine_check_device that also sets *device_out, for struct model_options. */
enum status engine_find_device(const char *device, const struct model_device **device_out,
                               struct error *error) MUST_USE;

enum status engine_open(const struct model_options *options, struct engine **engine_out,
                        struct error *error) MUST_USE;
void engine_close(struct engine *engine);

/* The model of the engine. */
struct model *engine_model(const struct engine *engine);

/* The progress of steps; it lives as long as the engine. */
struct step_progress *engine_progress(const struct engine *engine);

/* The loads of KV blocks for which rows wait. */
struct engine_loads {
    void *context;
    /* Waits for slices as that of model_follower does. Returns false if some are missing. */
    bool (*await)(void *context, uint32_t slot, uint32_t slices);
    /* Called at the end of a row: returns the end of its load, or false if the load continues. */
    bool (*take_end)(void *context, uint32_t slot, struct load_end *end_out);
};
/* Called between two steps; the struct is copied. */
void engine_set_loads(struct engine *engine, const struct engine_loads *loads);

/* The tokens that constraints allow. */
enum engine_mask {
    ENGINE_MASK_FREE, /* all tokens are allowed */
    ENGINE_MASK_SET,  /* tokens in the mask are allowed */
    ENGINE_MASK_LATE, /* the mask is not ready yet */
    ENGINE_MASK_STUCK /* no token is allowed */
};

enum engine_mask_want { ENGINE_WANTS_NOTHING, ENGINE_WANTS_MASK, ENGINE_WANTS_FORCED };

/* The constraints of rows. */
struct engine_masks {
    void *context;
    /* Called before the plan's layers: adds its constraints and starts its rows' masks. */
    void (*begin)(void *context, const struct step_plan *plan);
    /* Called after the plan's layers for the slot of a constrained row. Waits for the mask, with
     * one time limit for all rows of a step. `mask_out` [vocab / 64, rounded up] is valid until the
     * next call. */
    enum engine_mask (*await)(void *context, uint32_t slot, const uint64_t **mask_out);
    /* Reports the next token of the slot's answer; `want` is the next request for it. */
    void (*push)(void *context, uint32_t slot, uint32_t token, enum engine_mask_want want);
    /* Returns the tokens that the constraint forces next, up to LIMIT_FORCED, and pushes them.
     * Waits as `await` does. 0: none, not known yet, or not wanted. */
    uint32_t (*take_forced)(void *context, uint32_t slot, uint32_t *tokens_out);
    /* Called at the end of a step: returns the slots, up to LIMIT_UNIT_REQUESTS, with a constraint
     * or mask that is ready now and for which a request waits, as in step_result_ready. `waits`:
     * waits a short time for one that was not reported before. */
    uint32_t (*take_ready)(void *context, bool waits, uint32_t *slots_out);
};
/* Called between two steps; the struct is copied. Without it, plans with constrained rows are
 * invalid. */
void engine_set_masks(struct engine *engine, const struct engine_masks *masks);

/* Returns STATUS_INVALID for an invalid plan. All engines on a model return the same. */
enum status engine_check(const struct engine *engine, const struct step_plan *plan,
                         struct error *error) MUST_USE;

/* Runs the plan. `result` has room for step_result_bytes_max of its rows and tokens. For an invalid
 * plan the result has failed = 1, and *error has the reason. */
void engine_run(struct engine *engine, const struct step_plan *plan, struct step_result *result,
                struct error *error);
