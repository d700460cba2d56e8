/* SPDX-License-Identifier: Apache-2.0 */
#include "programs/gateway_side.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/clock.h"
#include "command/model_run.h"
#include "compute/weights/checkpoint.h"
#include "host/http/host_allowlist.h"
#include "host/http/web_assets.h"
#include "host/ledger/accounts_file.h"
#include "host/process/log/log.h"

#define UNIT_SILENCE_NS ((int64_t)2000000000) /* remote units send more often */
#define LONG_TEXT_BYTES_MAX ((size_t)8 << 20) /* of a text for the tokenizer's thread */
#define REQUESTS_AHEAD 64                     /* that are being received or tokenized */
#define CONNECTIONS_MAX ((1 << 20) - 1)
#define TOTALS_NS ((int64_t)2000000000) /* interval at which the ledger gets units' counters */
#define PORT_MAX 65535
#define ADMIN_CONNECTIONS_MAX 256
#define ADMIN_BODY_BYTES_MAX ((size_t)64 << 10)
#define ADMIN_BODIES_BYTES_MAX ((size_t)4 << 20)

/* ---- the tokenizer's thread ---- */

static void tokenize(void *context, struct worker *worker, const struct record *record) {
    struct gateway_side *side = context;
    const struct record_tokenize *request = (const struct record_tokenize *)record;
    struct record_tokenized *answer = side->tokenized;
    *answer = (struct record_tokenized){.record = record_head(RECORD_TOKENIZED, 0),
                                        .request = request->request};
    struct bytes text = {tokenize_text(request), request->text_bytes};
    struct plain_text plain = {tokenize_plain(request), request->plain_count};
    size_t most =
        request->tokens_max < LONG_TEXT_BYTES_MAX ? request->tokens_max : LONG_TEXT_BYTES_MAX;
    size_t count = 0, too_many = 0;
    enum status status = tokenizer_encode_within(side->text.tokenizer, side->scratch, text, plain,
                                                 tokenized_tokens(answer), most, &count);
    if (status == STATUS_FULL) too_many = count;
    if (status) count = 0; /* the answer reports the failure */
    answer->token_count = (uint32_t)count;
    answer->too_many = (uint32_t)too_many;
    record_set_head(answer, RECORD_TOKENIZED);
    worker_answer(worker, &answer->record);
}

/* ---- the thread that validates constraints ---- */

static void constrain(void *context, struct worker *worker, const struct record *record) {
    const struct gateway_side *side = context;
    const struct record_constrain *asked = (const struct record_constrain *)record;
    _Alignas(8) char memory[sizeof(struct record_constrained) + sizeof(struct error)];
    struct outbox box = {.memory = memory, .capacity = sizeof memory};
    struct error error;
    struct bytes text = {constrain_text(asked), asked->text_bytes};
    struct record_constrained fixed = {.request = asked->request};
    int64_t began_ns = clock_now_ns();
    fixed.verdict = constraint_validator_ask(side->verify, asked->client, text, &error);
    fixed.took_ns = clock_now_ns() - began_ns;
    if (fixed.verdict) fixed.message_bytes = (uint32_t)strlen(error.text);
    struct record_constrained *answer = machine_outbox_put(&box, RECORD_CONSTRAINED, &fixed);
    check(answer);
    memcpy(constrained_message(answer), error.text, fixed.message_bytes);
    worker_answer(worker, &answer->record);
}

/* ---- opening ---- */

static enum status gateway_side_no_memory(struct error *error, const char *what) {
    return error_set(error, STATUS_NO_MEMORY, "no memory for %s", what);
}

/* Chooses the operator's port. Without the option it is the one after the clients' port. */
static enum status choose_admin_port(const struct gateway_side_values *values, uint32_t *port_out,
                                     struct error *error) {
    const char *given = values->admin_port;
    char *end;
    *port_out = values->port ? (uint32_t)values->port + 1 : 0;
    if (!given && *port_out > PORT_MAX)
        return error_set(error, STATUS_INVALID,
                         "there is no port after --port %d for the operator; set --admin-port",
                         PORT_MAX);
    if (!given) return STATUS_OK;
    unsigned long port = strtoul(given, &end, 10);
    if (given[0] < '0' || given[0] > '9' || *end || port > PORT_MAX)
        return error_set(error, STATUS_INVALID,
                         "option --admin-port: expected 0 to %d, found '%.80s'", PORT_MAX, given);
    *port_out = (uint32_t)port;
    return STATUS_OK;
}

static enum status check_allowed_hosts(const char *named, struct error *error) {
    struct bytes bad = host_allowlist_find_bad(named);
    if (bad.count == 0) return STATUS_OK;
    return error_set(
        error, STATUS_INVALID,
        "option --allow-host: '%.*s' is not a name of a host; write names without scheme "
        "and port, as in example.com,[2001:db8::1]",
        bad.count < 80 ? (int)bad.count : 80, bad.data);
}

static enum status check_allowed_origins(const char *origins, struct error *error) {
    struct bytes bad = {NULL, 0};
    if (origins) bad = host_allowlist_find_bad_origin(origins);
    if (!bad.data) return STATUS_OK;
    return error_set(
        error, STATUS_INVALID,
        "option --allow-origin: '%.*s' is not an origin; write one as browsers do, as in "
        "https://example.com or http://localhost:3000, or * for any",
        bad.count < 80 ? (int)bad.count : 80, bad.data);
}

enum status gateway_side_open_loop(const struct gateway_side_values *values, uint64_t requests,
                                   struct loop **loop_out, struct error *error) {
    static struct http_asset assets[WEB_ASSET_COUNT];
    struct http_server_options both[HTTP_LISTENER_COUNT];
    struct http_server_options *http = &both[HTTP_PUBLIC], *admin = &both[HTTP_ADMIN];
    http_server_defaults(http);
    if (2 * requests > http->connections_max) /* as many more may be idle between requests */
        http->connections_max =
            2 * requests < CONNECTIONS_MAX ? (uint32_t)(2 * requests) : CONNECTIONS_MAX;
    http->host_allowlist = values->allow_host;
    http->connections_per_network = (uint32_t)values->connections_per_address;
    http->idle_ms_max = (uint32_t)(values->idle_timeout * 1000);
    *admin = *http;
    http->host = values->host;
    http->port = (uint32_t)values->port;
    http->shares_port = values->share_port;
    http->allow_origins = values->allow_origin;
    http->assets = assets;
    http->asset_count = WEB_ASSET_COUNT;
    web_assets_list(assets);
    admin->listener = HTTP_ADMIN;
    admin->host = values->admin_host;
    admin->connections_max = ADMIN_CONNECTIONS_MAX;
    admin->bodies_bytes_max = ADMIN_BODIES_BYTES_MAX;
    admin->body_bytes_max = ADMIN_BODY_BYTES_MAX;
    enum status status = choose_admin_port(values, &admin->port, error);
    if (!status) status = check_allowed_hosts(values->allow_host, error);
    if (!status) status = check_allowed_origins(values->allow_origin, error);
    return status ? status : loop_open(both, HTTP_LISTENER_COUNT, loop_out, error);
}

static struct template_choice choice_of(const struct gateway_side_values *values) {
    return (struct template_choice){.chat_template = values->chat_template,
                                    .brings_tools = !strcmp(values->tools_template, "auto")};
}

static enum status open_text(struct gateway_side *side, const char *directory,
                             const struct shape *shape, struct error *error) {
    struct template_choice choice = choice_of(side->values);
    enum status status = model_text_open(directory, shape, &choice, &side->text, error);
    if (status || !side->text.tokenizer) return status;
    struct arena arena;
    size_t bytes = tokenizer_scratch_bytes(LONG_TEXT_BYTES_MAX);
    side->text_memory = lazy_memory_take(bytes);
    side->tokenized =
        malloc(sizeof *side->tokenized + (LONG_TEXT_BYTES_MAX + 4) * sizeof(uint32_t));
    if (!side->text_memory.start || !side->tokenized)
        return gateway_side_no_memory(error, "the tokenizer");
    arena_over(&arena, side->text_memory.start, bytes);
    side->scratch = tokenizer_scratch_create(&arena, LONG_TEXT_BYTES_MAX);
    if (!side->scratch) return gateway_side_no_memory(error, "the tokenizer");
    return constraint_validator_open(side->text.tokenizer, &side->verify, error);
}

/* The next power of two, at least 4; 0 for 0. */
static uint32_t power_of_two(uint64_t count) {
    uint32_t power = 4;
    while (power < count)
        power *= 2;
    return count ? power : 0;
}

/* Creates the gateway. A recorded gateway uses the salts in its recording. */
static enum status gateway_side_create(struct gateway_side *side, struct gateway_options *options,
                                       const char *directory, struct error *error) {
    struct template_choice choice = choice_of(side->values);
    struct record_accounts *masked;
    struct arena arena;
    enum status status = recorded_machine_gateway(side->record, options, directory, &choice,
                                                  &side->recorder, &masked, error);
    if (status) return status;
    if (masked) options->accounts = masked;
    size_t bytes = gateway_memory_bytes(options) + 64;
    side->memory = lazy_memory_take(bytes);
    if (side->memory.start) {
        arena_over(&arena, side->memory.start, bytes);
        status = gateway_create(&arena, options, &side->gateway, error);
    } else {
        status = gateway_side_no_memory(error, "the gateway");
    }
    free(masked);
    return status;
}

/* With "*" alone, answers to requests without a name have the directory's name. */
static const char *model_names(struct gateway_side *side) {
    const char *given = side->values->served_name;
    if (!given || strcmp(given, "*") != 0) return given ? given : side->name;
    snprintf(side->served, sizeof side->served, "%s,*", side->name);
    return side->served;
}

struct own_model { /* of a gateway without a unit; zeros: its unit is in this process */
    uint32_t vocab_count;
    uint32_t image_token; /* of each gateway; 0: none */
    uint8_t id[32];       /* zeros: there are no weights here */
    int64_t silence_ns;
};

static enum status open_machine(struct gateway_side *side, const char *directory, uint64_t requests,
                                const struct own_model *own, struct error *error) {
    const struct model_text *text = &side->text;
    struct gateway_options gateway = {
        .tokenizer = text->tokenizer,
        .chat_template = text->chat_template.present ? &text->chat_template : NULL,
        .content_specials = strcmp(side->values->content_specials, "on") == 0,
        .agent_habits = strcmp(side->values->agent_habits, "on") == 0,
        .model_names = model_names(side),
        .model_created = (int64_t)time(NULL),
        .version = FATHOM_VERSION,
        .sampling = text->sampling,
        .stop_token_count = text->stop_token_count,
        .frame = text->frame,
        .body_bytes_max = LONG_TEXT_BYTES_MAX,
        .unit_silence_ns = own->silence_ns,
        .vocab_count = own->vocab_count,
        .image_token = own->image_token,
        .role_hold_ns = strcmp(side->values->roles, "auto") == 0
                            ? (int64_t)(side->values->role_seconds * 1e9)
                            : 0,
        .drain_ns = (int64_t)(side->values->drain_timeout * 1e9),
        .ttft_limit_ns = (int64_t)(side->values->ttft_limit * 1e9),
        .kv_life_s = (int64_t)side->values->kv_ttl,
        .prefix_blocks = power_of_two(side->values->prefix_blocks),
        .accounts = side->ledger ? ledger_thread_accounts(side->ledger) : side->accounts,
        .settles = side->ledger != NULL,
        .totals_ns = side->ledger ? TOTALS_NS : 0,
        .request_bytes = side->values->request_memory,
    };
    requests += REQUESTS_AHEAD;
    gateway.requests_max =
        requests < LIMIT_GATEWAY_REQUESTS ? (uint32_t)requests : LIMIT_GATEWAY_REQUESTS;
    memcpy(gateway.model_id, own->id, sizeof gateway.model_id);
    memcpy(gateway.stop_tokens, text->stop_tokens, sizeof gateway.stop_tokens);
    return gateway_side_create(side, &gateway, directory, error);
}

static enum status gateway_side_open_ledger(struct gateway_side *side, struct error *error) {
    const struct gateway_side_values *values = side->values;
    struct ledger_options options = {.path = values->database, .models = side->names};
    struct models models;
    enum status status = models_open(&models, bytes_of(model_names(side)),
                                     models_thought(&side->text.chat_template), error);
    if (status) return status;
    models_list(&models, side->names);
    if (values->accounts)
        return error_set(error, STATUS_INVALID,
                         "--accounts and --database are mutually exclusive; `fathom account import "
                         "%.200s --database %.200s` takes the accounts over",
                         values->accounts, values->database);
    if (values->prices) status = priced_tokens_read(values->prices, &side->priced, error);
    if (side->priced) options.prices = priced_tokens_reported(side->priced);
    if (!status) status = ledger_thread_open(&options, &side->ledger, error);
    side->is_keyless = !status && ledger_thread_accounts(side->ledger)->key_count == 0;
    return status;
}

static enum status gateway_side_open_side(struct gateway_side *side,
                                          const struct gateway_side_values *values,
                                          const struct recorded_values *record,
                                          const char *directory, const struct shape *shape,
                                          uint64_t requests, const struct own_model *own,
                                          struct error *error) {
    *side = (struct gateway_side){.values = values, .record = record};
    model_run_name(directory, NULL, side->name);
    if (values->prices && !values->database)
        return error_set(error, STATUS_INVALID, "--prices needs --database, which has the ledger");
    enum status status = open_text(side, directory, shape, error);
    if (!status && values->database)
        status = gateway_side_open_ledger(side, error);
    else if (!status && values->accounts)
        status = accounts_file_read(values->accounts, &side->accounts, error);
    if (status) return status;
    return open_machine(side, directory, requests, own, error);
}

/* The unit is in this process, so silence only means a long step. */
enum status gateway_side_open(struct gateway_side *side, const struct gateway_side_values *values,
                              const struct recorded_values *record, const char *directory,
                              const struct shape *shape, uint64_t requests, struct error *error) {
    const struct own_model same = {.image_token = shape->image_token};
    return gateway_side_open_side(side, values, record, directory, shape, requests, &same, error);
}

enum status gateway_side_open_alone(struct gateway_side *side,
                                    const struct gateway_side_values *values,
                                    const struct recorded_values *record, const char *directory,
                                    uint64_t requests, struct error *error) {
    struct checkpoint *checkpoint;
    enum status status = checkpoint_open(directory, CHECKPOINT_SHAPE_ONLY, &checkpoint, error);
    if (status) return status;
    struct shape shape = *checkpoint_shape(checkpoint);
    struct own_model own = {.vocab_count = shape.vocab,
                            .image_token = shape.image_token,
                            .silence_ns = UNIT_SILENCE_NS};
    if (checkpoint_has_weights(checkpoint))
        checkpoint_identity(checkpoint, own.id);
    else
        log_say(LOG_WARNING, "model",
                "has no weights here, the first unit says which checkpoint all must have "
                "directory=%s vocabulary=%u",
                directory, own.vocab_count);
    checkpoint_close(checkpoint);
    return gateway_side_open_side(side, values, record, directory, &shape, requests, &own, error);
}

void gateway_side_close(struct gateway_side *side) {
    recorder_close(side->recorder);
    constraint_validator_close(side->verify);
    model_text_close(&side->text);
    ledger_thread_close(side->ledger);
    free(side->priced);
    free(side->accounts);
    free(side->tokenized);
    lazy_memory_free(&side->text_memory);
    lazy_memory_free(&side->memory);
}

/* Reads the accounts file again. An invalid file changes nothing. Only a new result is logged, so
 * repeated reloads log it once. */
static const struct record *reload_accounts(void *context) {
    struct gateway_side *side = context;
    struct record_accounts *accounts;
    struct error error;
    if (accounts_file_read(side->values->accounts, &accounts, &error)) {
        if (strcmp(error.text, side->accounts_fault.text) != 0)
            log_say(LOG_ERROR, "accounts", "stay as they were why=%s", error.text);
        side->accounts_fault = error;
        return NULL;
    }
    bool as_before = accounts->record.bytes == side->accounts->record.bytes &&
                     memcmp(accounts, side->accounts, accounts->record.bytes) == 0;
    bool was_faulty = side->accounts_fault.text[0] != 0;
    side->accounts_fault.text[0] = 0;
    if (as_before && !was_faulty) {
        free(accounts);
        return NULL;
    }
    free(side->accounts);
    side->accounts = accounts;
    log_say(LOG_INFO, "accounts", "were read accounts=%u keys=%u", accounts->account_count,
            accounts->key_count);
    return &accounts->record;
}

/* Accounts in a database need no reload, as they are polled. */
static const struct record *reload_nothing(void *context) {
    return NULL;
}

static enum admission gateway_side_admit(void *context, const struct record_client_request *head) {
    return gateway_admit(((const struct gateway_side *)context)->gateway, head);
}

static bool refuses(void *context, struct unit_id unit) {
    return gateway_refuses(((const struct gateway_side *)context)->gateway, unit);
}

static uint32_t gateway_side_number_of(void *context, struct unit_id unit) {
    return gateway_unit_number(((const struct gateway_side *)context)->gateway, unit);
}

void gateway_side_join(struct gateway_side *side, struct loop_parts *parts) {
    parts->gateway = gateway_machine(side->gateway);
    parts->finish_ns_max = drain_option_end_ns(side->values->drain_timeout);
    if (side->recorder) parts->gateway = recorder_machine(side->recorder, &parts->gateway);
    parts->admit = gateway_side_admit;
    parts->admit_context = side;
    parts->refuses = refuses;
    parts->refuses_context = side;
    parts->number_of = gateway_side_number_of;
    parts->number_context = side;
    parts->tokenize = side->text.tokenizer ? tokenize : NULL;
    parts->tokenize_context = side;
    parts->constrain = side->text.tokenizer ? constrain : NULL;
    parts->constrain_context = side;
    parts->ledger = side->ledger ? ledger_thread_work : NULL;
    parts->ledger_context = side->ledger;
    parts->reload = side->ledger ? reload_nothing : side->accounts ? reload_accounts : NULL;
    parts->reload_context = side;
}

void gateway_side_say(const struct gateway_side *side, const char *const *urls) {
    if (!side->text.tokenizer)
        log_say(LOG_WARNING, "model",
                "has no tokenizer.json or tiktoken.model, prompts and answers are token ids");
    else if (!side->text.chat_template.present)
        log_say(LOG_WARNING, "model", "has no chat template, there is /v1/completions only");
    else if (side->text.chat_template.stand_in)
        log_say(LOG_INFO, "model", "has no chat template, a built-in one renders chats template=%s",
                side->text.chat_template.stand_in);
    else if (side->text.chat_template.builtin)
        log_say(LOG_INFO, "model",
                "leaves out tools or calls in its chat template, a built-in one renders them "
                "template=%s",
                side->text.chat_template.builtin);
    else if (!side->text.chat_template.prints_tools)
        log_say(LOG_WARNING, "model",
                "has no place for tools in its chat template, requests with tools are refused");
    if (!side->text.stop_token_count) log_say(LOG_WARNING, "model", MODEL_RUN_ENDLESS);
    if (side->accounts)
        log_say(LOG_INFO, "accounts", "were read accounts=%u keys=%u",
                side->accounts->account_count, side->accounts->key_count);
    if (side->ledger && side->is_keyless)
        log_say(LOG_WARNING, "accounts",
                "have no key, all requests are refused before `fathom account create` database=%s",
                side->values->database);
    log_say(LOG_INFO, "http", "the operator is listened to url=%s", urls[HTTP_ADMIN]);
    log_say(LOG_INFO, "http", "clients are listened to url=%s version=%s", urls[HTTP_PUBLIC],
            FATHOM_VERSION);
    log_turn();
    printf("listening on %s\n", urls[HTTP_PUBLIC]);
    fflush(stdout);
}
