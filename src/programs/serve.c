/* SPDX-License-Identifier: Apache-2.0
 * fathom serve: the whole system in one process: an API server and a chat page, the gateway, one
 * combined unit, the engine on this machine's CPU.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "gateway/gateway.h"
#include "host/lanes.h"
#include "host/loop.h"
#include "host/model_text.h"
#include "host/web_assets.h"
#include "policy/evict_pages.h"
#include "policy/speculate.h"
#include "programs/model_run.h"
#include "programs/rank_job.h"
#include "unit/rank_units.h"

#define LONG_TEXT_BYTES_MAX ((size_t)8 << 20) /* what the tokenizer thread takes at once */
#define PROMPTS_BYTES ((size_t)1 << 30)       /* for the prompts held, among ranks */

struct serve_values {
    struct model_run_values run;
    struct rank_job_values job;
    const char *config, *host, *served_name, *allow_origin;
    uint64_t port, kv_memory, max_context, max_batch_tokens, max_batch_rows, queue;
    uint64_t tpot_stretch;
    double tpot_target_ms, prompt_patience, priority_seconds;
    const char *evict, *mtp;
    bool prefix_cache, reuse_generated;
};

#define AT(field) .offset = offsetof(struct serve_values, field)

static const struct option serve_rows[] = {
    MODEL_RUN_OPTIONS,
    RANK_JOB_OPTIONS(struct serve_values),
    {.name = "host",
     .type = OPTION_TEXT,
     .fallback = "127.0.0.1",
     .help = "address to listen on; 0.0.0.0 for all networks",
     AT(host)},
    {.name = "port",
     .type = OPTION_COUNT,
     .fallback = "8000",
     .help = "port to listen on; 0 takes a free one",
     .maximum = 65535,
     AT(port)},
    {.name = "kv-memory",
     .type = OPTION_BYTES,
     .fallback = "1GiB",
     .help = "memory for the KV cache, of all ranks together",
     AT(kv_memory)},
    {.name = "max-context",
     .type = OPTION_COUNT,
     .help = "tokens of a prompt and its answer; 0: what model and KV memory allow",
     .maximum = LIMIT_CONTEXT,
     AT(max_context)},
    {.name = "max-batch-tokens",
     .type = OPTION_COUNT,
     .fallback = "512",
     .help = "tokens computed in one step, on each rank; more speeds prompts up and makes running "
             "answers wait",
     .minimum = 2 * KV_BLOCK_TOKENS,
     .maximum = LIMIT_STEP_TOKENS,
     AT(max_batch_tokens)},
    {.name = "max-batch-rows",
     .type = OPTION_COUNT,
     .fallback = "64",
     .help = "requests that run at the same time, on each rank; at least 64 less than "
             "--max-batch-tokens",
     .minimum = 1,
     .maximum = LIMIT_STEP_ROWS,
     AT(max_batch_rows)},
    {.name = "queue",
     .type = OPTION_COUNT,
     .fallback = "256",
     .help = "requests that may wait; further ones are told to try again later",
     .maximum = LIMIT_UNIT_REQUESTS,
     AT(queue)},
    {.name = "prefix-cache",
     .type = OPTION_FLAG,
     .fallback = "true",
     .help = "keep the KV pages of prompts and answers, and do not compute them again",
     AT(prefix_cache)},
    {.name = "reuse-generated",
     .type = OPTION_FLAG,
     .fallback = "true",
     .help = "... also those of answers that come back in a later prompt, as in a talk; the next "
             "answer may then differ in a last bit from one computed afresh",
     AT(reuse_generated)},
    {.name = "evict",
     .type = OPTION_CHOICE,
     .fallback = "least-recent",
     .choices = "least-recent|deepest",
     .help = "which cached KV pages make room first",
     AT(evict)},
    {.name = "mtp",
     .type = OPTION_CHOICE,
     .fallback = "auto",
     .choices = "auto|on|off",
     .help =
         "draft tokens ahead with the model's MTP layer, which changes no answer: when measured "
         "to be faster, always, or never",
     AT(mtp)},
    {.name = "tpot-target-ms",
     .type = OPTION_NUMBER,
     .fallback = "0",
     .help = "time for each token of running answers beside which prompts are computed; 0: by "
             "--tpot-stretch",
     .maximum = 1e6,
     AT(tpot_target_ms)},
    {.name = "tpot-stretch",
     .type = OPTION_COUNT,
     .fallback = "150",
     .help = "percent of their usual time that running answers may take while prompts are computed",
     .minimum = 100,
     .maximum = 100000,
     AT(tpot_stretch)},
    {.name = "prompt-patience",
     .type = OPTION_NUMBER,
     .fallback = "1",
     .help = "seconds a prompt may wait before running answers give it more than that",
     .minimum = 0.001,
     .maximum = 1e6,
     AT(prompt_patience)},
    {.name = "priority-seconds",
     .type = OPTION_NUMBER,
     .fallback = "10",
     .help = "waiting time that one step of priority is worth",
     .minimum = 0.001,
     .maximum = 1e6,
     AT(priority_seconds)},
    {.name = "served-name",
     .type = OPTION_TEXT,
     .help = "the model's name in the API; the directory's name if not given",
     AT(served_name)},
    {.name = "allow-origin",
     .type = OPTION_TEXT,
     .help = "let pages of this origin use the API (CORS); * for any. None if not given",
     AT(allow_origin)},
    {.name = "config",
     .type = OPTION_TEXT,
     .help = "a YAML file with any of these options",
     AT(config)},
};

const struct option_table serve_options[1] = {
    {.command = "serve",
     .arguments = "",
     .description = "Serves a model: the OpenAI-compatible API under /v1, a chat page at /.",
     .options = serve_rows,
     .option_count = ARRAY_COUNT(serve_rows)},
};

/* All that one server is made of. */
struct server {
    struct serve_values values;
    struct loop *loop;
    struct rank_group *group;
    /* of the engine's thread, [ranks] each: */
    struct lanes lanes;
    struct step_plan **plans; /* copies of those that have come; there are plan_count */
    uint32_t plan_count;
    struct step_result **results; /* room for max_batch_rows */
    struct model_text text;
    struct tokenizer_scratch *scratch;  /* of the tokenizer's thread */
    struct record_tokenized *tokenized; /* of that thread, room for LONG_TEXT_BYTES_MAX tokens */
    struct gateway *gateway;
    struct rank_units *units;
    void *text_memory, *machine_memory;
    char name[256];
};

/* ---- what the threads do ---- */

/* A step begins when every rank's plan is there. */
static void run_step(void *context, struct worker *worker, const struct record *record) {
    struct server *server = context;
    struct error error = {""};
    uint32_t ranks = rank_group_count(server->group);
    struct step_plan *plan = malloc(record->bytes);
    check(record->kind == RECORD_RUN_STEP && plan && server->plan_count < ranks);
    memcpy(plan, record, record->bytes);
    check(plan->rank < ranks && !server->plans[plan->rank]);
    server->plans[plan->rank] = plan;
    if (++server->plan_count < ranks) return;
    lanes_begin(&server->lanes, server->plans, ranks, model_shape(rank_group_model(server->group)));
    rank_group_run(server->group, (const struct step_plan *const *)server->plans, server->results,
                   &error);
    lanes_end(&server->lanes, server->results[0]->compute_ns);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        if (server->results[rank]->failed) fprintf(stderr, "a step failed: %s\n", error.text);
        worker_answer(worker, &server->results[rank]->record);
        free(server->plans[rank]);
        server->plans[rank] = NULL;
    }
    server->plan_count = 0;
}

static void tokenize(void *context, struct worker *worker, const struct record *record) {
    struct server *server = context;
    const struct record_tokenize *request = (const struct record_tokenize *)record;
    const size_t head_bytes = record_tail(sizeof(struct record_tokenized));
    struct record_tokenized *answer = server->tokenized;
    struct bytes text = {(const char *)record + record_tail(sizeof *request), request->text_bytes};
    size_t count = 0;
    enum status status =
        tokenizer_encode(server->text.tokenizer, server->scratch, text, request->parse_special,
                         (uint32_t *)((char *)answer + head_bytes), LONG_TEXT_BYTES_MAX, &count);
    if (status) count = 0; /* says that it cannot be done */
    *answer = (struct record_tokenized){
        .record = {RECORD_VERSION, RECORD_TOKENIZED,
                   (uint32_t)record_tail(head_bytes + count * sizeof(uint32_t))},
        .request = request->request,
        .token_count = (uint32_t)count,
    };
    worker_answer(worker, &answer->record);
}

/* ---- opening ---- */

static enum status no_memory(struct error *error, const char *what) {
    return error_set(error, STATUS_NO_MEMORY, "no memory for %s", what);
}

static enum status open_loop(struct server *server, struct error *error) {
    static struct http_asset assets[WEB_ASSET_COUNT];
    struct http_server_options http;
    http_server_defaults(&http);
    http.host = server->values.host;
    http.port = (uint32_t)server->values.port;
    http.allow_origin = server->values.allow_origin;
    http.assets = assets;
    http.asset_count = WEB_ASSET_COUNT;
    web_assets_list(assets);
    return loop_open(&http, &server->loop, error);
}

/* Of each rank. */
static uint32_t unit_requests(const struct server *server) {
    uint64_t wanted =
        server->values.max_batch_rows + divide_up(server->values.queue, server->values.job.ranks);
    return wanted < LIMIT_UNIT_REQUESTS ? (uint32_t)wanted : LIMIT_UNIT_REQUESTS;
}

static enum speculate_mode speculate_mode(const struct server *server) {
    if (!model_has_mtp(rank_group_model(server->group))) return SPECULATE_NEVER;
    return strcmp(server->values.mtp, "on") == 0 ? SPECULATE_ALWAYS : SPECULATE_MEASURED;
}

static enum status open_engine(struct server *server, const char **directory_out,
                               struct error *error) {
    struct model_options options = {0};
    struct model_run_progress progress;
    enum status status = model_run_options(&server->values.run, &options, error);
    if (!status) status = rank_job_options(&server->values.job, &options, error);
    if (status) return status;
    options.kv_bytes = server->values.kv_memory / server->values.job.ranks;
    options.step_tokens_max = (uint32_t)server->values.max_batch_tokens;
    options.step_rows_max = (uint32_t)server->values.max_batch_rows;
    options.mtp = strcmp(server->values.mtp, "off") != 0;
    options.mtp_required = strcmp(server->values.mtp, "on") == 0;
    options.slots_max = unit_requests(server);
    model_run_progress_begin(&progress, &options);
    status = rank_group_open_engines(&options, &server->group, error);
    model_run_progress_end(&progress);
    if (status) return status;
    *directory_out = options.directory;
    bool known = lanes_named(server->values.run.schedule, &server->lanes);
    check(known);
    uint32_t ranks = rank_group_count(server->group);
    server->plans = calloc(ranks, sizeof *server->plans);
    server->results = calloc(ranks, sizeof *server->results);
    bool whole = server->plans && server->results;
    for (uint32_t i = 0; whole && i < ranks; i++)
        whole = (server->results[i] = calloc(1, engine_cpu_result_bytes(options.step_rows_max)));
    return whole ? STATUS_OK : no_memory(error, "step results");
}

static enum status open_text(struct server *server, const char *directory, struct error *error) {
    const struct shape *shape = model_shape(rank_group_model(server->group));
    enum status status = model_text_open(directory, shape, &server->text, error);
    if (status || !server->text.tokenizer) return status;
    struct arena arena;
    size_t bytes = tokenizer_scratch_bytes(LONG_TEXT_BYTES_MAX);
    server->text_memory = malloc(bytes);
    server->tokenized =
        malloc(sizeof *server->tokenized + (LONG_TEXT_BYTES_MAX + 4) * sizeof(uint32_t));
    if (!server->text_memory || !server->tokenized) return no_memory(error, "the tokenizer");
    arena_over(&arena, server->text_memory, bytes);
    server->scratch = tokenizer_scratch_create(&arena, LONG_TEXT_BYTES_MAX);
    return server->scratch ? STATUS_OK : no_memory(error, "the tokenizer");
}

/* The last name in the directory's path, symbolic links followed. */
static void choose_name(struct server *server, const char *directory) {
    char path[PATH_MAX];
    const char *name = server->values.served_name;
    if (!name) {
        const char *whole = realpath(directory, path) ? path : directory;
        const char *slash = strrchr(whole, '/');
        name = slash && slash[1] ? slash + 1 : whole;
    }
    snprintf(server->name, sizeof server->name, "%.255s", name);
}

static uint32_t context_tokens(const struct server *server) {
    const struct model *model = rank_group_model(server->group);
    uint64_t most = (uint64_t)model_page_count(model) * KV_BLOCK_TOKENS;
    uint64_t wanted =
        server->values.max_context ? server->values.max_context : model_shape(model)->context_max;
    if (wanted > most) wanted = most;
    return wanted < LIMIT_CONTEXT ? (uint32_t)wanted : LIMIT_CONTEXT;
}

static enum status open_machines(struct server *server, struct error *error) {
    const struct model *model = rank_group_model(server->group);
    uint32_t ranks = rank_group_count(server->group);
    struct unit_options unit = {
        .requests_max = unit_requests(server),
        .page_count = model_page_count(model),
        .context_tokens_max = context_tokens(server),
        .step_rows_max = (uint32_t)server->values.max_batch_rows,
        .step_tokens_max = (uint32_t)server->values.max_batch_tokens,
        .vocab_count = model_shape(model)->vocab,
        .prefix_cache = server->values.prefix_cache,
        .reuse_generated = server->values.reuse_generated,
        .evict_rule =
            strcmp(server->values.evict, "deepest") == 0 ? EVICT_DEEPEST : EVICT_LEAST_RECENT,
        .speculate = speculate_mode(server),
        .tpot_stretch_percent = (uint32_t)server->values.tpot_stretch,
        .tpot_target_ns = (int64_t)(server->values.tpot_target_ms * 1e6),
        .prompt_patience_ns = (int64_t)(server->values.prompt_patience * 1e9),
        .priority_ns = (int64_t)(server->values.priority_seconds * 1e9),
        .model_id = model_identity(model),
        .numerics_id = model_numerics_id(model),
    };
    struct gateway_options gateway = {
        .tokenizer = server->text.tokenizer,
        .chat_template = server->text.chat_template.present ? &server->text.chat_template : NULL,
        .model_name = server->name,
        .model_created = (int64_t)time(NULL),
        .version = FATHOM_VERSION,
        .sampling = server->text.sampling,
        .stop_token_count = server->text.stop_token_count,
        .prepend_bos = server->text.prepend_bos,
        .bos_token = server->text.bos_token,
        .requests_max = ranks * unit.requests_max + 64, /* some are being read or tokenized */
        .body_bytes_max = LONG_TEXT_BYTES_MAX,
    };
    if (gateway.requests_max > LIMIT_GATEWAY_REQUESTS)
        gateway.requests_max = LIMIT_GATEWAY_REQUESTS;
    memcpy(gateway.stop_tokens, server->text.stop_tokens, sizeof gateway.stop_tokens);
    if (ranks > 1) unit.prompt_bytes = PROMPTS_BYTES / ranks;
    size_t bytes = rank_units_memory_bytes(&unit, ranks) + gateway_memory_bytes(&gateway) + 64;
    struct arena arena;
    server->machine_memory = malloc(bytes);
    if (!server->machine_memory) return no_memory(error, "the gateway and the unit");
    arena_over(&arena, server->machine_memory, bytes);
    enum status status = rank_units_create(&arena, &unit, ranks, &server->units, error);
    return status ? status : gateway_create(&arena, &gateway, &server->gateway, error);
}

static enum status server_open(struct server *server, struct error *error) {
    const char *directory;
    enum status status = open_loop(server, error);
    if (!status) status = open_engine(server, &directory, error);
    if (!status) status = open_text(server, directory, error);
    if (status) return status;
    choose_name(server, directory);
    return open_machines(server, error);
}

/* False: a step is still being computed, and everything must stay until the process ends. */
static bool server_close(struct server *server) {
    if (server->loop && !loop_close(server->loop)) return false;
    for (uint32_t i = 0; server->results && i < rank_group_count(server->group); i++)
        free(server->results[i]);
    struct error error;
    if (server->group && rank_job_write_trace(&server->values.job, server->group, &error))
        command_failed(serve_options, STATUS_IO, &error);
    rank_group_close(server->group);
    model_text_close(&server->text);
    free(server->results);
    free(server->plans);
    free(server->tokenized);
    free(server->text_memory);
    free(server->machine_memory);
    return true;
}

/* ---- running ---- */

static void say_ready(void *context, const char *url) {
    const struct server *server = context;
    const struct model *model = rank_group_model(server->group);
    fprintf(stderr, "serving %s (%s): %.1f MiB of weights, %u KV pages of %d tokens\n",
            server->name, model_numerics_id(model), (double)model_weight_bytes(model) / (1 << 20),
            model_page_count(model), KV_BLOCK_TOKENS);
    if (rank_group_count(server->group) > 1)
        fprintf(stderr, "%u ranks; so much on each\n", rank_group_count(server->group));
    if (model_has_mtp(model))
        fprintf(stderr, "drafting ahead with the MTP layer: %s\n",
                strcmp(server->values.mtp, "on") == 0 ? "always" : "when it is faster");
    if (!server->text.tokenizer)
        fprintf(stderr, "no tokenizer.json: prompts and answers are token ids\n");
    else if (!server->text.chat_template.present)
        fprintf(stderr, "no chat template in tokenizer_config.json: /v1/completions only\n");
    printf("listening on %s\n", url);
    fflush(stdout);
}

int program_serve(int argc, char **argv) {
    struct server server = {0};
    struct option_result result;
    struct error error;
    int exit_code;
    if (!command_begin(serve_options, argc, argv, &server.values, &result, &exit_code))
        return exit_code;
    if (server.values.max_batch_tokens < server.values.max_batch_rows + KV_BLOCK_TOKENS)
        return command_misused(serve_options,
                               "--max-batch-tokens must be at least --max-batch-rows + %d",
                               KV_BLOCK_TOKENS);
    if (rank_job_begin_server(serve_options, &server.values.job, &exit_code)) return exit_code;
    enum status status = server_open(&server, &error);
    if (!status) {
        struct loop_parts parts = {
            .gateway = gateway_machine(server.gateway),
            .unit = rank_units_machine(server.units),
            .engine = run_step,
            .engine_context = &server,
            .tokenize = server.text.tokenizer ? tokenize : NULL,
            .tokenize_context = &server,
            .ready = say_ready,
            .ready_context = &server,
        };
        status = loop_run(server.loop, &parts, &error);
    }
    exit_code = status ? command_failed(serve_options, status, &error) : command_end(serve_options);
    if (!server_close(&server)) _exit(exit_code);
    return exit_code;
}
