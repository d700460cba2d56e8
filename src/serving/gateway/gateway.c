/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/gateway.h"

#include "base/check.h"
#include "base/format.h"
#include "base/number.h"
#include "serving/gateway/admission.h"
#include "serving/gateway/answer.h"
#include "serving/gateway/dispatch.h"
#include "serving/gateway/gateway_state.h"
#include "serving/gateway/handover.h"
#include "serving/gateway/intake.h"
#include "serving/gateway/reply.h"
#include "serving/gateway/request_finish.h"
#include "serving/gateway/resume.h"
#include "serving/gateway/stream_writer.h"
#include "serving/gateway/unit_totals.h"
#include "serving/gateway/usage_record.h"

/* ---- creation ---- */

#define BODY_BYTES_DEFAULT ((size_t)8 << 20)
#define INLINE_BYTES_DEFAULT ((size_t)16 << 10)
#define OUTBOX_BYTES_MIN ((size_t)1 << 20)
#define CONSTRAINTS_BYTES                                                                          \
    ((size_t)16 * LIMIT_CONSTRAINT_BYTES) /* memory of constraints that wait to be checked */
#define KEEP_ALIVE_NS_DEFAULT ((int64_t)5000000000)
#define UNIT_WAIT_NS_DEFAULT ((int64_t)30000000000)
#define QUEUE_NS_DEFAULT ((int64_t)600000000000)
#define REQUEST_BYTES_EACH ((size_t)128 << 10) /* default for prompt and answer of a request */
#define REQUEST_BYTES_LEAST ((size_t)32 << 20)
#define DRAIN_NS_DEFAULT ((int64_t)30000000000)

static struct gateway_options with_defaults(const struct gateway_options *given) {
    struct gateway_options options = *given;
    if (!options.body_bytes_max) options.body_bytes_max = BODY_BYTES_DEFAULT;
    if (!options.inline_text_bytes) options.inline_text_bytes = INLINE_BYTES_DEFAULT;
    if (!options.keep_alive_ns) options.keep_alive_ns = KEEP_ALIVE_NS_DEFAULT;
    if (!options.outbox_bytes) options.outbox_bytes = 2 * options.body_bytes_max + OUTBOX_BYTES_MIN;
    if (!given->outbox_bytes && options.outbox_bytes > RECORD_BYTES_MAX)
        options.outbox_bytes = RECORD_BYTES_MAX;
    if (!options.request_bytes) /* for prompts and answers; pages are touched only when used */
        options.request_bytes = options.requests_max * REQUEST_BYTES_EACH + REQUEST_BYTES_LEAST;
    if (!options.tokenize_queue_bytes) options.tokenize_queue_bytes = 4 * options.body_bytes_max;
    if (!options.unit_wait_ns) options.unit_wait_ns = UNIT_WAIT_NS_DEFAULT;
    if (!options.queue_ns) options.queue_ns = QUEUE_NS_DEFAULT;
    if (!options.drain_ns) options.drain_ns = DRAIN_NS_DEFAULT;
    options.outbox_bytes = options.outbox_bytes / 16 * 16;
    options.request_bytes = round_up(options.request_bytes, POOL_CHUNK_BYTES) + POOL_CHUNK_BYTES;
    return options;
}

/* Scratch memory of one call: enough to parse a body and render its prompt, or to write the text of
 * a few tokens. */
static size_t gateway_scratch_bytes(const struct gateway_options *options) {
    return 48 * options->body_bytes_max + options->outbox_bytes + ((size_t)16 << 20);
}

size_t gateway_memory_bytes(const struct gateway_options *options) {
    struct gateway_options full = with_defaults(options);
    size_t tokenizer = full.tokenizer ? tokenizer_scratch_bytes(full.inline_text_bytes) : 0;
    return sizeof(struct gateway) + full.outbox_bytes + full.request_bytes +
           tokenize_queue_memory_bytes(full.tokenize_queue_bytes, full.requests_max) +
           tokenize_queue_memory_bytes(CONSTRAINTS_BYTES, full.requests_max) +
           gateway_scratch_bytes(&full) + tokenizer + request_table_bytes(full.requests_max) +
           fleet_bytes() + prefix_affinity_bytes(full.prefix_blocks) +
           accounts_bytes(full.requests_max) + usage_record_memory_bytes(full.requests_max) + 512;
}

static enum status gateway_out_of_range(struct error *error, const char *name, uint64_t value,
                                        uint64_t low, uint64_t high) {
    return error_set(error, STATUS_INVALID, "gateway: %s is %llu, must be %llu to %llu", name,
                     (unsigned long long)value, (unsigned long long)low, (unsigned long long)high);
}

static enum status gateway_options_check(const struct gateway_options *o, struct error *error) {
    const struct {
        const char *name;
        uint64_t value, low, high;
    } ranges[] = {
        {"requests_max", o->requests_max, 1, LIMIT_GATEWAY_REQUESTS},
        {"stop_token_count", o->stop_token_count, 0, LIMIT_STOP_TOKENS},
        {"body_bytes_max", o->body_bytes_max, 1024, RECORD_BYTES_MAX / 2},
        {"inline_text_bytes", o->inline_text_bytes, 1, RECORD_BYTES_MAX / 8},
        {"tokenize_queue_bytes", o->tokenize_queue_bytes, 1, (uint64_t)1 << 40},
        {"outbox_bytes", o->outbox_bytes, OUTBOX_BYTES_MIN, RECORD_BYTES_MAX},
        {"keep_alive_ns", (uint64_t)o->keep_alive_ns, 1, INT64_MAX / 2},
        {"prefix_blocks", o->prefix_blocks ? o->prefix_blocks : 4, 4, 1 << 24},
        {"role_hold_ns", (uint64_t)o->role_hold_ns, 0, INT64_MAX / 16},
        {"unit_silence_ns", (uint64_t)o->unit_silence_ns, 0, INT64_MAX / 2},
        {"unit_wait_ns", (uint64_t)o->unit_wait_ns, 1, INT64_MAX / 2},
        {"queue_ns", (uint64_t)o->queue_ns, 1, INT64_MAX / 2},
        {"drain_ns", (uint64_t)o->drain_ns, 1, INT64_MAX / 2},
        {"ttft_limit_ns", (uint64_t)o->ttft_limit_ns, 0, INT64_MAX / 4},
        {"totals_ns", (uint64_t)o->totals_ns, 0, INT64_MAX / 2},
        {"kv_life_s", (uint64_t)o->kv_life_s, 0, UINT32_MAX},
        {"version's length", strlen(o->version), 1, 32},
    };
    for (size_t i = 0; i < ARRAY_COUNT(ranges); i++)
        if (ranges[i].value < ranges[i].low || ranges[i].value > ranges[i].high)
            return gateway_out_of_range(error, ranges[i].name, ranges[i].value, ranges[i].low,
                                        ranges[i].high);
    return STATUS_OK;
}

static enum status gateway_take_tables(struct gateway *gateway, struct arena *arena) {
    const struct gateway_options *o = &gateway->options;
    void *pool = arena_take(arena, o->request_bytes);
    void *scratch = arena_take(arena, gateway_scratch_bytes(o));
    void *tokenize_queue =
        arena_take(arena, tokenize_queue_memory_bytes(o->tokenize_queue_bytes, o->requests_max));
    void *constraints =
        arena_take(arena, tokenize_queue_memory_bytes(CONSTRAINTS_BYTES, o->requests_max));
    gateway->outbox = (struct outbox){.memory = arena_take(arena, o->outbox_bytes),
                                      .capacity = (uint32_t)o->outbox_bytes};
    if (!pool || !scratch || !tokenize_queue || !constraints || !gateway->outbox.memory)
        return STATUS_NO_MEMORY;
    arena_pool_open(&gateway->pool, pool, o->request_bytes);
    arena_over(&gateway->scratch, scratch, gateway_scratch_bytes(o));
    gateway->tokenize_queue.kind = RECORD_TOKENIZE;
    tokenize_queue_open(&gateway->tokenize_queue, &gateway->outbox, tokenize_queue,
                        o->tokenize_queue_bytes, o->requests_max);
    gateway->constraints.kind = RECORD_CONSTRAIN;
    tokenize_queue_open(&gateway->constraints, &gateway->outbox, constraints, CONSTRAINTS_BYTES,
                        o->requests_max);
    if (o->tokenizer) {
        gateway->tokenizer_scratch = tokenizer_scratch_create(arena, o->inline_text_bytes);
        if (!gateway->tokenizer_scratch) return STATUS_NO_MEMORY;
    }
    enum status status = fleet_open(&gateway->fleet, arena);
    gateway->fleet.own = (struct fleet_own){.vocab_count = o->vocab_count};
    memcpy(gateway->fleet.own.model_id, o->model_id, sizeof o->model_id);
    if (!status && o->prefix_blocks)
        status = prefix_affinity_open(&gateway->affinity, arena, o->prefix_blocks);
    if (!status) status = accounts_open(&gateway->accounts, arena, o->requests_max);
    if (!status) status = usage_record_open(gateway, arena);
    return status ? status : request_open_all(gateway, arena);
}

enum status gateway_create(struct arena *arena, const struct gateway_options *options,
                           struct gateway **gateway_out, struct error *error) {
    struct gateway_options full = with_defaults(options);
    struct models models;
    enum status status = gateway_options_check(&full, error);
    if (!status)
        status = models_open(&models, bytes_of(full.model_names),
                             models_thought(full.chat_template), error);
    if (status) return status;
    struct gateway *gateway = arena_take_zeroed(arena, sizeof *gateway);
    if (gateway) gateway->options = full;
    if (!gateway || gateway_take_tables(gateway, arena))
        return error_set(error, STATUS_NO_MEMORY, "gateway: %zu bytes of memory are not enough",
                         gateway_memory_bytes(options));
    gateway->models = models;
    gateway->model_name = models.names[0].name;
    gateway->version = bytes_of(full.version);
    gateway->token_bytes = REQUEST_CANCEL_BYTES + HANDOVER_CONTINUE_BYTES;
    if (full.accounts) accounts_take(&gateway->accounts, full.accounts);
    gateway->options.accounts = NULL;
    gateway->started_ns = gateway->retry_ns = gateway->drain_ends_ns = MACHINE_NEVER;
    *gateway_out = gateway;
    return STATUS_OK;
}

/* ---- requests ---- */

static struct bytes gateway_path_of(const struct record_client_request *record) {
    return (struct bytes){client_request_path(record), record->path_bytes};
}

static bool has_listener(const struct endpoint *endpoint,
                         const struct record_client_request *record) {
    return (endpoint->listeners & 1u << record->listener) != 0;
}

static enum status refuse_path(struct gateway *gateway, const struct record_client_request *record,
                               const struct endpoint *endpoint) {
    struct api_error error;
    struct bytes text = gateway_path_of(record);
    int shown = text.count < 200 ? (int)text.count : 200;
    bool is_elsewhere = endpoint && !has_listener(endpoint, record);
    if (is_elsewhere) {
        const char *listener = record->listener == HTTP_PUBLIC
                                   ? "operator's listener (--admin-port)"
                                   : "API's listener";
        api_error_set(&error, 404, NULL, "not_found", "There is no '%.*s' here. The %s serves it.",
                      shown, text.data, listener);
    } else if (endpoint) {
        api_error_set(&error, 405, NULL, "method_not_allowed", "'%.*s' accepts only %s.", shown,
                      text.data, endpoint->method == HTTP_GET ? "GET" : "POST");
        error.allow = 1u << endpoint->method;
    } else {
        const char *cure = endpoint_cure(text);
        api_error_set(&error, 404, NULL, "not_found", "There is no '%.*s' here.%s%s", shown,
                      text.data, cure ? " " : "", cure ? cure : "");
    }
    return reply_error(gateway, record->connection,
                       endpoint && !is_elsewhere ? endpoint->number : ENDPOINT_OTHER, NULL, &error);
}

/* Checks that the caller may use the endpoint. If accounts are in use, an endpoint may need an API
 * key, or the key of an operator. The body is not read if the key was unknown when the request
 * arrived. */
static bool may_call(const struct gateway *gateway, const struct record_client_request *record,
                     const struct endpoint *endpoint, struct endpoint_call *call,
                     struct api_error *error) {
    const struct accounts *accounts = &gateway->accounts;
    struct bytes authorization = {client_request_authorization(record),
                                  record->authorization_bytes};
    call->account = call->key = ACCOUNT_NONE;
    if (!accounts->asked_for || endpoint->askers == ASKERS_ALL) return true;
    call->account = accounts_find(accounts, authorization, &call->key);
    if (call->account == ACCOUNT_NONE)
        return api_error_set(error, 401, NULL, "invalid_api_key",
                             authorization.count
                                 ? "Incorrect API key provided."
                                 : "No API key provided. Send 'Authorization: Bearer KEY'.");
    if (endpoint->askers == ASKERS_OPERATORS && !accounts->slots[call->account].is.is_operator)
        return api_error_set(
            error, 403, NULL, "forbidden",
            "Only operators may do this. This API key does not belong to an operator.");
    if (!record->body_left || record->method != HTTP_POST) return true;
    return api_error_set(error, 401, NULL, "invalid_api_key",
                         "The API key was not known yet when the request arrived. Send it again.");
}

enum admission gateway_admit(const struct gateway *gateway,
                             const struct record_client_request *head) {
    struct bytes rest;
    struct api_error error;
    struct endpoint_call call;
    const struct endpoint *endpoint = endpoint_find(gateway_path_of(head), &rest);
    if (!endpoint || !has_listener(endpoint, head)) return ADMISSION_NO_BODY;
    if (head->method != endpoint->method || head->method != HTTP_POST) return ADMISSION_NO_BODY;
    if (!may_call(gateway, head, endpoint, &call, &error)) return ADMISSION_NO_BODY;
    return gateway->accounts.asked_for ? ADMISSION_KNOWN : ADMISSION_KEYLESS;
}

static enum status answer_call(struct gateway *gateway, struct endpoint_call *call) {
    static enum status (*const functions[])(struct gateway *, const struct endpoint_call *) = {
#define ENDPOINT_ENTRY(number, path, method, listeners, askers, name, function, dialect) function,
        ENDPOINTS(ENDPOINT_ENTRY)
#undef ENDPOINT_ENTRY
    };
    const struct record_client_request *record = call->record;
    struct api_error error;
    const struct endpoint *endpoint = endpoint_find(gateway_path_of(record), &call->rest);
    bool is_here = endpoint && has_listener(endpoint, record);
    call->endpoint = is_here ? endpoint->number : ENDPOINT_OTHER;
    call->spoken =
        endpoint_error_dialect(call->endpoint, gateway_path_of(record), record->speaks_anthropic);
    if (!is_here || record->method != endpoint->method)
        return refuse_path(gateway, record, endpoint);
    if (!may_call(gateway, record, endpoint, call, &error))
        return reply_error(gateway, record->connection, endpoint->number, NULL, &error);
    return functions[endpoint->number](gateway, call);
}

static enum status receive_client_request(struct gateway *gateway,
                                          const struct record_client_request *record,
                                          int64_t now_ns) {
    struct endpoint_call call = {
        .record = record, .account = ACCOUNT_NONE, .key = ACCOUNT_NONE, .now_ns = now_ns};
    gateway->call = &call;
    enum status status = answer_call(gateway, &call);
    gateway->call = NULL;
    return status;
}

/* ---- the machine ---- */

/* Requeues the unit's requests and reports its counters. STATUS_FULL: the outbox is full, and
 * nothing has changed. */
static enum status lose_unit(struct gateway *gateway, uint32_t unit, int64_t now_ns) {
    uint32_t mark = gateway->outbox.used;
    enum status status = unit_totals_lost(gateway, unit);
    if (!status) status = resume_lost(gateway, unit, now_ns);
    if (status) gateway->outbox.used = mark;
    return status;
}

/* A unit may reconnect before the loss of its old connection is detected. It has cancelled the
 * requests of that connection. Its counters must not be added twice. */
static enum status lose_old_connection(struct gateway *gateway, uint32_t unit,
                                       const struct record_unit_hello *hello, int64_t now_ns) {
    uint32_t old = fleet_find_instance(&gateway->fleet, hello->instance);
    if (old == FLEET_NONE || old == unit) return STATUS_OK;
    enum status status = lose_unit(gateway, old, now_ns);
    if (!status) fleet_leave(&gateway->fleet, old, true);
    return status;
}

static enum status gateway_receive_hello(struct gateway *gateway, uint32_t unit,
                                         const struct record_unit_hello *hello, int64_t now_ns) {
    enum status status = lose_old_connection(gateway, unit, hello, now_ns);
    if (status) return status;
    if (!fleet_hello(&gateway->fleet, unit, hello, gateway_held_count(gateway) == 0))
        return STATUS_OK;
    prefix_affinity_welcome(&gateway->affinity, unit, hello->page_count);
    gateway->changed = true;
    uint32_t numerics = gateway->fleet.units[unit].numerics;
    format_text(gateway->fingerprints[numerics], sizeof gateway->fingerprints[0], "fathom-%s-%s",
                gateway->options.version, gateway->fleet.numerics[numerics]);
    return STATUS_OK;
}

static void receive_load(struct gateway *gateway, uint32_t unit,
                         const struct record_unit_load *load, int64_t now_ns) {
    if (!fleet_is_member(&gateway->fleet, unit)) return;
    const struct record_unit_load *before = &gateway->fleet.units[unit].load;
    if (before->rank_count == 0) unit_totals_soon(gateway); /* the unit's first load report */
    metrics_count_step(&gateway->metrics, before, load);
    fleet_load(&gateway->fleet, unit, load, now_ns);
    gateway->changed = true;
}

static enum status receive_from_unit(struct gateway *gateway,
                                     const struct record_envelope *envelope, int64_t now_ns) {
    const struct record *record = envelope_inner(envelope);
    uint32_t unit = fleet_find(&gateway->fleet, envelope->unit);
    enum status status = STATUS_OK;
    if (unit == FLEET_NONE) return STATUS_OK;
    struct fleet_unit *sender = &gateway->fleet.units[unit];
    if (sender->state == FLEET_REFUSED) return STATUS_OK;
    if (sender->state == FLEET_SILENT) sender->state = FLEET_SERVING;
    sender->last_seen_ns = now_ns;
    if (record->kind == RECORD_UNIT_HELLO)
        status =
            gateway_receive_hello(gateway, unit, (const struct record_unit_hello *)record, now_ns);
    else if (record->kind == RECORD_UNIT_LOAD)
        receive_load(gateway, unit, (const struct record_unit_load *)record, now_ns);
    else if (record->kind == RECORD_EXPERTS)
        sender->experts = *(const struct record_experts *)record;
    else if (record->kind == RECORD_TOKENS)
        status = answer_tokens(gateway, unit, (const struct record_tokens *)record, now_ns);
    else if (record->kind == RECORD_PROGRESS)
        status = answer_progress(gateway, unit, (const struct record_progress *)record, now_ns);
    else if (record->kind == RECORD_SCORES)
        status = answer_scores(gateway, unit, (const struct record_scores *)record);
    else if (record->kind == RECORD_FINISHED)
        status =
            request_finish_finished(gateway, unit, (const struct record_finished *)record, now_ns);
    else if (record->kind == RECORD_RESERVED)
        status = handover_reserved(gateway, unit, (const struct record_reserved *)record);
    if (status != STATUS_INVALID) return status;
    status = lose_unit(gateway, unit, now_ns);
    if (status) return status;
    fleet_expel(&gateway->fleet, unit);
    return STATUS_OK;
}

bool gateway_refuses(const struct gateway *gateway, struct unit_id unit) {
    if (!gateway->fleet.refused_total) return false; /* the usual case, fast */
    uint32_t index = fleet_find(&gateway->fleet, unit);
    return index != FLEET_NONE && gateway->fleet.units[index].state == FLEET_REFUSED;
}

uint32_t gateway_unit_number(const struct gateway *gateway, struct unit_id unit) {
    uint32_t index = fleet_find(&gateway->fleet, unit);
    return index == FLEET_NONE ? FLEET_NUMBERS_APART + unit.value
                               : gateway->fleet.units[index].number;
}

static enum status receive_lost(struct gateway *gateway, struct unit_id id, int64_t now_ns) {
    uint32_t unit = fleet_find(&gateway->fleet, id);
    if (unit == FLEET_NONE) return STATUS_OK;
    const struct fleet_unit *gone = &gateway->fleet.units[unit];
    bool lost =
        gone->state == FLEET_SERVING && !(fleet_drains(&gateway->fleet, unit) && gone->bound == 0);
    enum status status = lose_unit(gateway, unit, now_ns);
    if (!status) fleet_leave(&gateway->fleet, unit, lost);
    return status;
}

static void gateway_drain(struct gateway *gateway, int64_t now_ns) {
    if (gateway->draining) return;
    gateway->draining = true;
    gateway->drain_ends_ns = now_ns + gateway->options.drain_ns;
    gateway->changed = true; /* ends requests that wait for a missing unit */
}

static enum status shut_down(struct gateway *gateway, struct request *leader, int64_t now_ns) {
    enum request_state state = (enum request_state)leader->life.state;
    return state == REQUEST_TOKENIZING || state == REQUEST_UNCHECKED
               ? intake_give_up(gateway, leader, now_ns)
               : request_finish_shut_down(gateway, leader);
}

/* The drain deadline has passed: fails the clients that still wait. */
static void gateway_end_drain(struct gateway *gateway, int64_t now_ns) {
    for (uint32_t slot = 0; slot < gateway->requests.slots_used; slot++) {
        struct request *request = &gateway->requests.slots[slot];
        bool leads = request->life.state != REQUEST_FREE && request->leader == request;
        if (leads && shut_down(gateway, request, now_ns)) return; /* full: retried later */
    }
    gateway->drain_ends_ns = MACHINE_NEVER;
    gateway->changed = true;
}

static enum status gateway_receive(void *self, const struct record *record, int64_t now_ns) {
    struct gateway *gateway = self;
    if (gateway->started_ns == MACHINE_NEVER) gateway->started_ns = gateway->tallied_ns = now_ns;
    gateway->accounts.now_ns = now_ns;
    switch ((enum record_kind)record->kind) {
    case RECORD_CLIENT_REQUEST:
        return receive_client_request(gateway, (const struct record_client_request *)record,
                                      now_ns);
    case RECORD_CLIENT_GONE:
        return request_finish_client_gone(gateway, (const struct record_client_gone *)record,
                                          now_ns);
    case RECORD_TOKENIZED:
        return intake_tokenized(gateway, (const struct record_tokenized *)record, now_ns);
    case RECORD_CONSTRAINED:
        return intake_constrained(gateway, (const struct record_constrained *)record, now_ns);
    case RECORD_COMMITTED:
        usage_record_commit(gateway, ((const struct record_committed *)record)->sequence);
        break;
    case RECORD_ACCOUNTS:
        accounts_take(&gateway->accounts, (const struct record_accounts *)record);
        break;
    case RECORD_UNIT_JOINED:
        fleet_join(&gateway->fleet, ((const struct record_unit_link *)record)->unit, now_ns);
        break;
    case RECORD_UNIT_LOST:
        return receive_lost(gateway, ((const struct record_unit_link *)record)->unit, now_ns);
    case RECORD_FROM_UNIT:
        return receive_from_unit(gateway, (const struct record_envelope *)record, now_ns);
    case RECORD_DRAIN:
        gateway_drain(gateway, now_ns);
        break;
    default:
        check(!"a record kind that gateways receive");
    }
    return STATUS_OK;
}

/* Collects the request ids of TOKENS and FINISHED records. Returns their count. */
static uint32_t list_ids(const struct record *const *records, uint32_t count,
                         struct request_id ids_out[GATEWAY_PREFETCH_MAX]) {
    uint32_t used = 0;
    check(count <= GATEWAY_PREFETCH_MAX);
    for (uint32_t i = 0; i < count; i++) {
        if (records[i]->kind != RECORD_FROM_UNIT) continue;
        const struct record *inner = envelope_inner((const struct record_envelope *)records[i]);
        if (inner->kind == RECORD_TOKENS || inner->kind == RECORD_FINISHED)
            ids_out[used++] = record_request(inner);
    }
    return used;
}

void gateway_prefetch(const struct gateway *gateway, const struct record *const *records,
                      uint32_t count, uint32_t behind) {
    struct request_id ids[GATEWAY_PREFETCH_MAX];
    request_prefetch(gateway, ids, list_ids(records, count, ids));
    request_prefetch_places(gateway, ids, list_ids(records + count, behind, ids));
}

/* Serves the lists one after another, and repeats if that has changed a list. Ending requests come
 * first, because they free memory. */
static void serve_lists(struct gateway *gateway, int64_t now_ns) {
    for (bool room = true; room && gateway_queued_count(gateway);) {
        gateway->changed = false;
        room = request_finish_run(gateway, now_ns) && intake_run(gateway, now_ns) &&
               dispatch_run(gateway, now_ns);
        if (room && !gateway->changed) return;
        gateway->changed = true;
    }
}

static void keep_alive(struct gateway *gateway, int64_t now_ns) {
    uint32_t slot = 0;
    while (due_heap_first(&gateway->requests.keep_alive, &slot) <= now_ns) {
        struct request *leader = &gateway->requests.slots[slot];
        if (stream_writer_keep_alive(gateway, leader)) return; /* full: retried later */
        request_keep_alive(gateway, leader, now_ns + gateway->options.keep_alive_ns);
    }
}

static void gateway_step(void *self, int64_t now_ns) {
    struct gateway *gateway = self;
    gateway->accounts.now_ns = now_ns;
    if (now_ns >= gateway->drain_ends_ns) gateway_end_drain(gateway, now_ns);
    resume_watch(gateway, now_ns);
    dispatch_change_roles(gateway, now_ns);
    request_finish_commit(gateway);
    if (fleet_serves(&gateway->fleet)) gateway->served_ns = now_ns;
    serve_lists(gateway, now_ns);
    admission_watch(gateway, now_ns);
    tokenize_queue_run(&gateway->tokenize_queue, (uint32_t)fleet_tokens_max(&gateway->fleet));
    tokenize_queue_run(&gateway->constraints, 0);
    unit_totals_run(gateway, now_ns);
    keep_alive(gateway, now_ns);
}

static int64_t gateway_next_wake_ns(const void *self) {
    const struct gateway *gateway = self;
    if (tokenize_queue_want(&gateway->tokenize_queue) || tokenize_queue_want(&gateway->constraints))
        return 0;
    if (gateway->changed && gateway_queued_count(gateway)) return 0;
    if (request_finish_wants(gateway)) return 0;
    int64_t wake_ns = min_i64(gateway->drain_ends_ns, resume_wake_ns(gateway));
    wake_ns = min_i64(wake_ns, unit_totals_wake_ns(gateway));
    wake_ns = min_i64(wake_ns, dispatch_wake_ns(gateway));
    uint32_t slot;
    return min_i64(wake_ns, due_heap_first(&gateway->requests.keep_alive, &slot));
}

struct machine gateway_machine(struct gateway *gateway) {
    return (struct machine){.self = gateway,
                            .outbox = &gateway->outbox,
                            .receive = gateway_receive,
                            .step = gateway_step,
                            .next_wake_ns = gateway_next_wake_ns};
}

uint32_t gateway_request_count(const struct gateway *gateway) {
    return gateway_held_count(gateway);
}

void gateway_audit(const struct gateway *gateway) {
    request_audit(gateway);
    tokenize_queue_audit(&gateway->tokenize_queue);
    tokenize_queue_audit(&gateway->constraints);
    if (gateway_held_count(gateway) == 0)
        check(gateway->pool.free_count == gateway->pool.chunk_count);
}
