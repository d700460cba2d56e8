/* SPDX-License-Identifier: Apache-2.0
 * The engine: the one place of the serving system where a step plan becomes tensors and a token
 * comes out. Synchronous: runs a plan and returns its result. Owns the model, the logits and the
 * sampler's room; the thread around it, and when it runs, is the caller's business.
 *
 * Where the tensors are computed is the model's affair (compute/model/model.h).
 */
#ifndef HOST_ENGINE_ENGINE_H
#define HOST_ENGINE_ENGINE_H

#include "contract/step_plan.h"
#include "host/engine/step_progress.h"

struct engine;

/* Whether this program can compute models on `device`, "cpu" or "cuda". STATUS_INVALID: an unknown name.
 * STATUS_UNSUPPORTED: the program has no kernels for GPUs, or there is no GPU. */
enum status engine_check_device(const char *device, struct error *error) MUST_USE;
/* engine_check_device that also sets *device_out, for struct model_options. */
enum status engine_find_device(const char *device, const struct model_device **device_out,
                               struct error *error) MUST_USE;

enum status engine_open(const struct model_options *options, struct engine **engine_out,
                        struct error *error) MUST_USE;
void engine_close(struct engine *engine);

/* The model that it runs: for the unit's hello and its page count. */
struct model *engine_model(const struct engine *engine);

/* How far its steps are; lives as long as the engine. */
struct step_progress *engine_progress(const struct engine *engine);

/* Who fills pages that rows wait for. */
struct engine_loads {
    void *context;
    /* Waits for slices like model_follower's; false: some are missing. */
    bool (*await)(void *context, uint32_t slot, uint32_t slices);
    /* At the row's end: takes the end of the load that it waited for. False: the load goes on. */
    bool (*take_end)(void *context, uint32_t slot, struct load_end *end_out);
};
/* Between two steps; copied. */
void engine_set_loads(struct engine *engine, const struct engine_loads *loads);

/* The tokens that constraints allow. */
enum engine_mask {
    ENGINE_MASK_FREE, /* every token may come */
    ENGINE_MASK_SET,  /* those of the mask */
    ENGINE_MASK_LATE, /* not known yet */
    ENGINE_MASK_STUCK /* none ever will */
};

enum engine_mask_want { ENGINE_WANTS_NOTHING, ENGINE_WANTS_MASK, ENGINE_WANTS_FORCED };

/* Who follows constraints. */
struct engine_masks {
    void *context;
    /* Before the plan's layers: takes its constraints in, and begins with its rows' masks. */
    void (*begin)(void *context, const struct step_plan *plan);
    /* Behind the plan's layers, for a constrained row's slot; waits, but for all rows of a step
     * together no longer than a time of its own. `mask_out` [vocab / 64, rounded up], until its
     * next call. */
    enum engine_mask (*await)(void *context, uint32_t slot, const uint64_t **mask_out);
    /* The slot's answer has got a token; `want` is what will be asked for behind that one. */
    void (*push)(void *context, uint32_t slot, uint32_t token, enum engine_mask_want want);
    /* The tokens that must come behind those pushed, [LIMIT_FORCED]; returns how many it took, which
     * are pushed thereby. Waits as await does; 0: it is not known, or was not wanted. */
    uint32_t (*take_forced)(void *context, uint32_t slot, uint32_t *tokens_out);
    /* At the end of a step: the slots with a ready constraint or mask that a request waits for, as in
     * step_result_ready, [LIMIT_UNIT_REQUESTS]; returns how many. `waits`: for a moment,
     * until there is one that was not reported before. */
    uint32_t (*take_ready)(void *context, bool waits, uint32_t *slots_out);
};
/* Between two steps; copied. Without them, plans with constrained rows break a rule. */
void engine_set_masks(struct engine *engine, const struct engine_masks *masks);

/* STATUS_INVALID: a plan that breaks a rule; every engine on this model says the same. */
enum status engine_check(const struct engine *engine, const struct step_plan *plan,
                         struct error *error) MUST_USE;

/* Runs the plan; `result` has room for step_result_bytes_max of its rows and tokens. A plan that
 * breaks a rule gives a result with failed = 1, and the reason in *error. */
void engine_run(struct engine *engine, const struct step_plan *plan, struct step_result *result,
                struct error *error);

#endif
