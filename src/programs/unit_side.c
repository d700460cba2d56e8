/* SPDX-License-Identifier: Apache-2.0 */
#include "programs/unit_side.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/check.h"
#include "compute/exchange/job.h"
#include "compute/model/kv_pages.h"
#include "host/process/log/log.h"
#include "host/process/memory_fit.h"
#include "serving/policy/balance/balance.h"
#include "serving/policy/evict_pages.h"
#include "serving/policy/speculate.h"

#define PROMPTS_BYTES ((size_t)1 << 30)          /* for prompts in memory, divided among ranks */
#define STORAGE_QUEUE_BYTES ((uint64_t)64 << 20) /* of blocks waiting to be written, divided, too */
#define STORAGE_SEGMENTS 16 /* per rank in --kv-disk: as many as with a single rank */

bool unit_side_misused(const struct unit_side_values *values, int *exit_code_out) {
    if (values->max_batch_tokens >= values->max_batch_rows + KV_BLOCK_TOKENS) return false;
    *exit_code_out = command_misused("--max-batch-tokens must be at least --max-batch-rows + %d",
                                     KV_BLOCK_TOKENS);
    return true;
}

/* ---- opening ---- */

static enum status unit_side_no_memory(struct error *error, const char *what) {
    return error_set(error, STATUS_NO_MEMORY, "no memory for %s", what);
}

uint32_t unit_side_requests(const struct unit_side_values *values, uint64_t ranks) {
    uint64_t wanted = values->max_batch_rows + divide_up(values->queue, ranks);
    return wanted < LIMIT_UNIT_REQUESTS ? (uint32_t)wanted : LIMIT_UNIT_REQUESTS;
}

static enum speculate_mode speculate_mode(const struct unit_side *side) {
    if (!model_has_mtp(rank_group_model(side->group))) return SPECULATE_NEVER;
    return strcmp(side->values->mtp, "on") == 0 ? SPECULATE_ALWAYS : SPECULATE_MEASURED;
}

static enum status open_rebalancer(struct unit_side *side, struct error *error) {
    struct rebalancer_options options = rank_job_rebalance(side->job);
    options.measured = strcmp(side->values->rebalance, "on") == 0;
    options.seconds = side->values->rebalance_seconds;
    options.role = side->role;
    options.says = true;
    return rebalancer_open(side->group, &options, &side->rebalancer, error);
}

/* Refuses a --kv-memory that holds no page of each rank. */
static enum status check_kv_memory(const struct unit_side_values *values, uint64_t ranks,
                                   uint64_t block_bytes, struct error *error) {
    if (values->kv_memory / ranks >= block_bytes) return STATUS_OK;
    return error_set(error, STATUS_TOO_LARGE,
                     "--kv-memory: expected at least %" PRIu64 " bytes, one page of %d tokens for "
                     "each of %" PRIu64 " ranks, found %" PRIu64,
                     block_bytes * ranks, KV_BLOCK_TOKENS, ranks, values->kv_memory);
}

/* Refuses a --max-context that no request could use. */
static enum status check_context(const struct unit_side_values *values, uint64_t ranks,
                                 const char *directory, const struct shape *shape,
                                 uint64_t block_bytes, struct error *error) {
    uint64_t pages = divide_up(values->max_context, KV_BLOCK_TOKENS);
    uint64_t held = values->kv_memory / ranks / block_bytes;
    if (values->max_context > shape->context_max)
        return error_set(error, STATUS_TOO_LARGE,
                         "--max-context %" PRIu64 ": the model has at most %u tokens "
                         "(max_position_embeddings of %.300s/config.json); give that or less",
                         values->max_context, shape->context_max, directory);
    if (pages <= held) return STATUS_OK;
    return error_set(error, STATUS_TOO_LARGE,
                     "--max-context %" PRIu64 ": --kv-memory holds %" PRIu64 " tokens on a rank; "
                     "give --kv-memory %" PRIu64 "MiB or more, or a smaller context",
                     values->max_context, held * KV_BLOCK_TOKENS,
                     (uint64_t)divide_up(pages * block_bytes * ranks, 1 << 20));
}

enum status unit_side_check_form(const struct shape *shape, bool apart, uint64_t ranks,
                                 const struct unit_side_values *values, struct error *error) {
    const char *asked = apart             ? "prefill apart from decode"
                        : ranks > 1       ? "several ranks"
                        : values->kv_dir  ? "--kv-dir"
                        : values->kv_host ? "--kv-host"
                                          : NULL;
    if (!shape_is_compressed(shape) || !asked) return STATUS_OK;
    return error_set(
        error, STATUS_UNSUPPORTED,
        "%s: a sequence of this model keeps windows outside of its KV blocks, and these "
        "cannot be stored or sent yet; leave out %s",
        shape_architecture_name(shape->architecture), asked);
}

enum status unit_side_check(const struct model_run_values *run,
                            const struct unit_side_values *values, uint64_t ranks,
                            struct shape *shape_out, struct error *error) {
    const char *directory;
    enum activations activations;
    enum status status = model_run_directory(run->model, &directory, error);
    if (!status) status = activations_named(run->activations, &activations, error);
    if (!status) status = model_run_shape(directory, shape_out, error);
    if (status) return status;
    const struct kv_format format =
        kv_pages_format(shape_out, activations, shape_out->layers, 0); /* MTP may be absent */
    uint64_t block_bytes = kv_format_block_bytes(&format);
    status = unit_side_check_form(shape_out, false, ranks, values, error);
    if (!status) status = check_kv_memory(values, ranks, block_bytes, error);
    return status ? status : check_context(values, ranks, directory, shape_out, block_bytes, error);
}

static uint32_t context_tokens(const struct unit_side *side) {
    const struct model *model = rank_group_model(side->group);
    uint64_t most = (uint64_t)model_page_count(model) * KV_BLOCK_TOKENS;
    uint64_t wanted =
        side->values->max_context ? side->values->max_context : model_shape(model)->context_max;
    if (wanted > most) wanted = most;
    return wanted < LIMIT_CONTEXT ? (uint32_t)wanted : LIMIT_CONTEXT;
}

enum status unit_side_options(const struct model_run_values *run, const struct rank_job_values *job,
                              const struct unit_side_values *values,
                              struct model_options *options_out, struct error *error) {
    enum status status = model_run_options(run, options_out, error);
    if (!status) status = rank_job_options(job, options_out, error);
    options_out->kv_bytes = values->kv_memory / job->ranks;
    options_out->step_tokens_max = (uint32_t)values->max_batch_tokens;
    options_out->step_rows_max = (uint32_t)values->max_batch_rows;
    options_out->mtp = strcmp(values->mtp, "off") != 0;
    options_out->mtp_required = strcmp(values->mtp, "on") == 0;
    options_out->slots_max = unit_side_requests(values, job->ranks);
    struct memory_fit *fit = options_out->fits_context;
    if (!status && fit) fit->has_kv_option = true;
    if (job_exists() && !job->rendezvous) options_out->fits = NULL; /* an agent has checked */
    return status;
}

static enum status open_engine(struct unit_side *side, struct error *error) {
    struct model_options options = {0};
    struct model_run_progress progress;
    enum status status = unit_side_options(side->run, side->job, side->values, &options, error);
    if (status) return status;
    model_run_progress_begin_logged(&progress, &options);
    status = rank_group_open_engines(&options, &side->group, error);
    if (!status) model_run_progress_end(&progress);
    if (!status) status = open_rebalancer(side, error);
    if (status) return status;
    side->directory = options.directory;
    struct step_thread_limits limits = {.step_rows_max = options.step_rows_max,
                                        .step_tokens_max = options.step_tokens_max,
                                        .slots_max = options.slots_max,
                                        .context_tokens_max = context_tokens(side),
                                        .step_ns_min = (int64_t)(side->values->step_ms_min * 1e6)};
    return step_thread_open(&side->thread, side->group, side->rebalancer, side->run->schedule,
                            &limits, error);
}

static enum status take_pids(struct unit_side *side, struct error *error) {
    uint32_t ranks = rank_group_count(side->group);
    struct rank_report *reports = calloc(ranks, sizeof *reports);
    side->pids = calloc(ranks, sizeof *side->pids);
    if (!reports || !side->pids) {
        free(reports);
        return unit_side_no_memory(error, "the ranks' reports");
    }
    rank_group_report(side->group, reports);
    for (uint32_t rank = 0; rank < ranks; rank++)
        side->pids[rank] = reports[rank].pid;
    free(reports);
    return STATUS_OK;
}

static enum kv_choice kv_choice(const struct unit_side_values *values) {
    if (strcmp(values->kv_load, "always") == 0) return KV_CHOICE_LOAD;
    return strcmp(values->kv_load, "never") == 0 ? KV_CHOICE_COMPUTE : KV_CHOICE_MEASURED;
}

static enum balance_method rank_balance(const struct unit_side_values *values) {
    enum balance_method method = BALANCE_WORK;
    while (strcmp(values->rank_balance, balance_method_name(method)) != 0)
        method++;
    return method;
}

void unit_side_name_pages(struct kv_ranks_options *kv, const struct engine *engine) {
    struct model *model = engine_model(engine);
    kv->pages = model_kv_pages(model);
    kv->model_id = model_identity(model);
    kv->numerics_id = model_numerics_id(model);
    kv->progress = engine_progress(engine);
}

static uint64_t unit_side_share(uint64_t whole, uint64_t ranks) {
    return whole && whole < ranks ? 1 : whole / ranks; /* 0 would mean no limit */
}

struct kv_store_options unit_side_storage(const struct unit_side_values *values, uint64_t ranks) {
    return (struct kv_store_options){
        .directory = values->kv_dir,
        .disk_bytes = values->kv_disk,
        .host_bytes = unit_side_share(values->kv_host, ranks),
        .write_bytes_per_s = unit_side_share(values->kv_write_rate, ranks),
        .read_bytes_per_s = unit_side_share(values->kv_read_rate, ranks),
        .write_queue_bytes = unit_side_share(STORAGE_QUEUE_BYTES, ranks),
        .segment_bytes = unit_side_share(values->kv_disk, STORAGE_SEGMENTS * ranks),
    };
}

static uint32_t unit_side_memory_blocks(const struct unit_side_values *values, uint64_t ranks,
                                        uint64_t block_bytes) {
    uint64_t blocks = unit_side_share(values->kv_host, ranks) / block_bytes;
    return blocks < UINT32_MAX ? (uint32_t)blocks : UINT32_MAX;
}

/* All ranks have the same block size, so the same number of parts. */
static uint32_t load_parts(const struct unit_side *side) {
    const struct kv_store *store = side->kv_ranks ? kv_ranks_store(side->kv_ranks) : NULL;
    bool overlaps = strcmp(side->values->kv_overlap, "on") == 0;
    return store && overlaps ? kv_store_load_parts(store) : 0;
}

/* Each start is a new instance, even if the unit has a name. */
static uint64_t choose_instance(const struct unit_side_values *values) {
    uint64_t random_bits, name = values->instance ? strtoull(values->instance, NULL, 16) : 0;
    check(getrandom(&random_bits, sizeof random_bits, 0) == sizeof random_bits);
    return record_unit_instance(values->instance ? &name : NULL, random_bits);
}

static enum status unit_side_open_units(struct unit_side *side, struct error *error) {
    const struct model *model = rank_group_model(side->group);
    const struct unit_side_values *values = side->values;
    uint32_t ranks = rank_group_count(side->group);
    struct unit_options unit = {
        .requests_max = unit_side_requests(values, ranks),
        .page_count = model_page_count(model),
        .context_tokens_max = context_tokens(side),
        .step_rows_max = (uint32_t)values->max_batch_rows,
        .step_tokens_max = (uint32_t)values->max_batch_tokens,
        .vocab_count = model_shape(model)->vocab,
        /* V4: a prefix is of use only with its windows */
        .prefix_cache = values->prefix_cache && !shape_is_compressed(model_shape(model)),
        .reuse_generated = values->reuse_generated && !shape_is_compressed(model_shape(model)),
        .evict_rule = strcmp(values->evict, "deepest") == 0 ? EVICT_DEEPEST : EVICT_LEAST_RECENT,
        .speculate = speculate_mode(side),
        .tpot_stretch_percent = (uint32_t)values->tpot_stretch,
        .tpot_target_ns = (int64_t)(values->tpot_target_ms * 1e6),
        .prompt_patience_ns = (int64_t)(values->prompt_patience * 1e9),
        .priority_ns = (int64_t)(values->priority_seconds * 1e9),
        .kv_storage = side->kv_ranks && kv_ranks_store(side->kv_ranks),
        .kv_choice = kv_choice(values),
        .page_bytes = model_page_bytes(model),
        .kv_load_parts = load_parts(side),
        .kv_memory_blocks = unit_side_memory_blocks(values, ranks, model_page_bytes(model)),
        .rank_balance = rank_balance(values),
        .level_steps = strcmp(values->rank_steps, "levelled") == 0,
        .bind_on_arrival = strcmp(values->rank_binding, "arrival") == 0,
        .model_id = model_identity(model),
        .numerics_id = model_numerics_id(model),
        .pids = side->pids,
        .role = side->role,
        .kv_addresses = side->kv_ranks ? kv_ranks_addresses(side->kv_ranks) : NULL,
    };
    struct record_experts experts;
    unit.instance = choose_instance(values);
    if (rebalancer_report(side->rebalancer, &experts)) unit.experts = &experts;
    if (ranks > 1) unit.prompt_bytes = PROMPTS_BYTES / ranks;
    size_t bytes = rank_units_memory_bytes(&unit, ranks) + 64;
    struct arena arena;
    side->memory = lazy_memory_take(bytes);
    if (!side->memory.start) return unit_side_no_memory(error, "the unit");
    arena_over(&arena, side->memory.start, bytes);
    enum status status = rank_units_create(&arena, &unit, ranks, &side->units, error);
    if (status) return status;
    /* Huge pages are enabled only now. Otherwise the start of each table would take one, which
     * takes seconds at 144 ranks, without a heartbeat of rank 0. */
    if (ranks > 1) lazy_memory_widen(&side->memory);
    return recorded_machine_unit(side->record, &unit, ranks, side->directory, &side->recorder,
                                 error);
}

static void unit_side_notify_unit(void *context, const struct record *record) {
    struct unit_side *side = context;
    loop_notify_unit(side->loop, record);
}

/* The rank may still be alive, and the outcome of requests sent to it is unknown. Therefore the
 * unit ends and restarts. */
static void lose_rank(void *context, const struct error *error) {
    struct unit_side *side = context;
    loop_end(side->loop, STATUS_GONE, error);
}

static enum status open_kv_ranks(struct unit_side *side, const struct kv_ranks_options *kv,
                                 struct error *error) {
    struct kv_ranks_options options = *kv;
    unit_side_name_pages(&options, rank_group_engine(side->group));
    options.rank_count = rank_group_count(side->group);
    options.storage = unit_side_storage(side->values, options.rank_count);
    options.context = side;
    options.say = unit_side_notify_unit;
    options.lost = lose_rank;
    if (!kv_ranks_wanted(&options)) return STATUS_OK;
    enum status status = kv_ranks_open(&options, loop_base(side->loop), &side->kv_ranks, error);
    if (status) return status;
    struct engine_loads loads = kv_ranks_loads(side->kv_ranks);
    rank_group_set_loads(side->group, &loads);
    return STATUS_OK;
}

enum status unit_side_open_grammar_mask_worker(const struct model_run_values *run,
                                               const struct unit_side_values *values,
                                               uint64_t ranks, const struct engine *engine,
                                               struct grammar_mask_worker **grammar_mask_worker_out,
                                               struct error *error) {
    const struct model *model = engine_model(engine);
    uint64_t context = (uint64_t)model_page_count(model) * KV_BLOCK_TOKENS;
    struct grammar_mask_worker_options options = {
        .vocab = model_shape(model)->vocab,
        .slots = unit_side_requests(values, ranks),
        .context_tokens_max = context < LIMIT_CONTEXT ? (uint32_t)context : LIMIT_CONTEXT,
        .wait_ns_max = GRAMMAR_MASK_WORKER_WAIT_NS,
    };
    enum status status = model_run_directory(run->model, &options.directory, error);
    return status ? status : grammar_mask_worker_open(&options, grammar_mask_worker_out, error);
}

static enum status open_grammar_mask_worker(struct unit_side *side, struct error *error) {
    enum status status = unit_side_open_grammar_mask_worker(
        side->run, side->values, side->job->ranks, rank_group_engine(side->group),
        &side->grammar_mask_worker, error);
    if (status) return status;
    const struct engine_masks masks = grammar_mask_worker_masks(side->grammar_mask_worker);
    rank_group_set_masks(side->group, &masks);
    return STATUS_OK;
}

enum status unit_side_open(struct unit_side *side, const struct model_run_values *run,
                           const struct rank_job_values *job, const struct unit_side_values *values,
                           const struct recorded_values *record, enum unit_role role,
                           const struct kv_ranks_options *kv, struct loop *loop,
                           struct error *error) {
    *side = (struct unit_side){
        .run = run, .job = job, .values = values, .record = record, .role = role, .loop = loop};
    struct shape shape;
    enum status status = unit_side_check(run, values, job->ranks, &shape, error);
    const bool apart = role != UNIT_BOTH || kv->host;
    if (!status) status = unit_side_check_form(&shape, apart, job->ranks, values, error);
    if (!status) status = open_engine(side, error);
    if (!status) status = take_pids(side, error);
    if (!status) status = open_grammar_mask_worker(side, error);
    if (!status) status = open_kv_ranks(side, kv, error);
    return status ? status : unit_side_open_units(side, error);
}

void unit_side_leave(struct unit_side *side) {
    if (!side->loop || !loop_end_engine(side->loop)) return; /* it may be waiting for a load */
    kv_ranks_close(side->kv_ranks);
    side->kv_ranks = NULL;
}

void unit_side_close(struct unit_side *side) {
    struct error error;
    if (!side->values) return;
    recorder_close(side->recorder);
    step_thread_close(&side->thread);
    if (side->group && rank_job_write_trace(side->job, side->group, &error))
        command_failed(STATUS_IO, &error);
    rebalancer_close(side->rebalancer);
    grammar_mask_worker_close(side->grammar_mask_worker);
    rank_group_close(side->group);
    free(side->pids);
    lazy_memory_free(&side->memory);
}

static void unit_side_forward(void *context, const struct record *record) {
    struct unit_side *side = context;
    kv_ranks_take(side->kv_ranks, record);
}

void unit_side_join(struct unit_side *side, struct loop_parts *parts) {
    parts->unit = rank_units_machine(side->units);
    if (side->recorder) parts->unit = recorder_machine(side->recorder, &parts->unit);
    parts->engine = step_thread_take;
    parts->engine_context = &side->thread;
    if (!side->kv_ranks) return;
    parts->forward = unit_side_forward;
    parts->forward_context = side;
}

static void say_storage(const struct unit_side *side, struct kv_store *store) {
    struct kv_store_stats stats = kv_store_get_stats(store);
    if (!stats.on_disk) {
        bool keeps = side->values->kv_host > 0;
        log_say(LOG_INFO, "storage",
                keeps ? "is open in memory alone host_bytes=%" PRIu64
                      : "keeps nothing host_bytes=%" PRIu64,
                side->values->kv_host);
        return;
    }
    log_say(LOG_INFO, "storage",
            "is open directory=%s disk_blocks=%" PRIu64 " disk_bytes=%" PRIu64
            " host_bytes=%" PRIu64 " io=%s after_s=%.2f",
            side->values->kv_dir, stats.disk_blocks, stats.disk_bytes, side->values->kv_host,
            stats.io, (double)stats.open_ns * 1e-9);
}

void unit_side_say(const struct unit_side *side, const char *name) {
    const struct model *model = rank_group_model(side->group);
    log_say(LOG_INFO, "model",
            "is served name=%s numerics=%s ranks=%u weight_bytes=%" PRIu64 " pages=%u mtp=%s", name,
            model_numerics_id(model), rank_group_count(side->group), model_weight_bytes(model),
            model_page_count(model), model_has_mtp(model) ? side->values->mtp : "");
    struct kv_store *store = side->kv_ranks ? kv_ranks_store(side->kv_ranks) : NULL;
    if (store) say_storage(side, store);
}
