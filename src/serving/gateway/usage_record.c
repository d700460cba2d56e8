/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/usage_record.h"

#include "base/check.h"

#define NO_CODE "refused" /* `end` of a request that was refused without an error code */

/* ---- uncommitted entries ---- */

/* Each request in progress may add an entry to those that are already pending. */
static uint32_t commit_pending_max(uint32_t requests_max) {
    return 2 * requests_max;
}

size_t usage_record_memory_bytes(uint32_t requests_max) {
    return commit_pending_max(requests_max) * sizeof(uint64_t) + 16;
}

enum status usage_record_open(struct gateway *gateway, struct arena *arena) {
    uint32_t count = commit_pending_max(gateway->options.requests_max);
    gateway->entries.commit_pending = arena_take(arena, count * sizeof(uint64_t));
    return gateway->entries.commit_pending ? STATUS_OK : STATUS_NO_MEMORY;
}

void usage_record_charge(struct gateway *gateway) {
    struct gateway_entries *entries = &gateway->entries;
    uint32_t most = commit_pending_max(gateway->options.requests_max);
    if (!gateway->options.settles) return;
    check(entries->commit_pending_count < most);
    uint32_t place = (entries->commit_pending_first + entries->commit_pending_count++) % most;
    entries->commit_pending[place] = entries->said;
}

void usage_record_commit(struct gateway *gateway, uint64_t sequence) {
    struct gateway_entries *entries = &gateway->entries;
    uint32_t most = commit_pending_max(gateway->options.requests_max);
    if (sequence > entries->committed) entries->committed = sequence;
    while (entries->commit_pending_count &&
           entries->commit_pending[entries->commit_pending_first] <= entries->committed) {
        entries->commit_pending_first = (entries->commit_pending_first + 1) % most;
        entries->commit_pending_count--;
    }
}

bool usage_record_is_behind(const struct gateway *gateway) {
    return gateway->entries.commit_pending_count >= gateway->options.requests_max;
}

struct usage_mark usage_record_mark(const struct gateway *gateway) {
    return (struct usage_mark){gateway->outbox.used, gateway->entries.said};
}

void usage_record_take_back(struct gateway *gateway, struct usage_mark mark) {
    gateway->outbox.used = mark.outbox_used;
    gateway->entries.said = mark.said;
}

/* ---- contents of an entry ---- */

struct usage_strings {
    struct bytes path, name, model, end;
    const struct usage_stay *stays; /* [stay_count] */
    uint32_t stay_count;
};

static void usage_record_copy(char *to, struct bytes text) {
    if (text.count) memcpy(to, text.data, text.count);
}

static enum status put(struct gateway *gateway, struct record_usage *fixed,
                       const struct usage_strings *strings) {
    fixed->path_bytes = (uint32_t)strings->path.count;
    fixed->name_bytes = (uint32_t)strings->name.count;
    fixed->model_bytes = (uint32_t)strings->model.count;
    fixed->end_bytes = (uint32_t)strings->end.count;
    fixed->stay_count = strings->stay_count;
    fixed->sequence = gateway->entries.said + 1;
    struct record_usage *usage = machine_outbox_put(&gateway->outbox, RECORD_USAGE, fixed);
    if (!usage) return STATUS_FULL;
    check(usage->record.bytes <= USAGE_BYTES_MAX);
    usage_record_copy(entry_path(usage), strings->path);
    usage_record_copy(entry_name(usage), strings->name);
    usage_record_copy(entry_model(usage), strings->model);
    usage_record_copy(entry_end(usage), strings->end);
    if (strings->stay_count)
        memcpy(usage_stays(usage), strings->stays, strings->stay_count * sizeof *strings->stays);
    gateway->entries.said++;
    return STATUS_OK;
}

static void name_account(const struct gateway *gateway, uint32_t account, uint32_t key,
                         struct record_usage *out) {
    if (account == ACCOUNT_NONE) return;
    memcpy(out->account, gateway->accounts.slots[account].is.name, sizeof out->account);
    if (key != ACCOUNT_NONE)
        memcpy(out->key, gateway->accounts.keys[key].is.sha256, sizeof out->key);
}

/* Lists the last stays of all choices in order. Returns their count. */
static uint32_t usage_record_list_stays(const struct gateway *gateway, const struct request *leader,
                                        struct usage_stay stays_out[USAGE_STAYS_MAX]) {
    struct usage_stay ring[USAGE_STAYS_MAX];
    uint32_t total = 0;
    for (uint32_t i = 0; i < leader->choice_count; i++) {
        struct receipt receipt = request_receipt(gateway, leader->choices[i]);
        uint32_t at =
            receipt.stay_count > RECEIPT_STAYS_MAX ? receipt.stay_count - RECEIPT_STAYS_MAX : 0;
        for (; at < receipt.stay_count; at++) {
            const struct receipt_stay *stay = &receipt.stays[at % RECEIPT_STAYS_MAX];
            ring[total++ % USAGE_STAYS_MAX] = (struct usage_stay){.instance = stay->instance,
                                                                  .unit = stay->unit,
                                                                  .rank = stay->rank,
                                                                  .role = stay->role};
        }
    }
    uint32_t count = total < USAGE_STAYS_MAX ? total : USAGE_STAYS_MAX;
    for (uint32_t i = 0; i < count; i++)
        stays_out[i] = ring[(total - count + i) % USAGE_STAYS_MAX];
    return count;
}

static void usage_record_add_work(const struct request *leader, struct record_usage *out) {
    for (uint32_t i = 0; i < leader->choice_count; i++) {
        const struct request *choice = leader->choices[i];
        struct unit_work work =
            receipt_total(&choice->answered.receipt, choice->asked.prompt_tokens);
        if (i == 0) out->queue_ns = work.queue_ns;
        out->device_tokens += work.device_tokens;
        out->host_tokens += work.host_tokens;
        out->disk_tokens += work.disk_tokens;
        out->computed_tokens += work.computed_tokens;
        out->transferred_tokens += work.transferred_tokens;
        out->reloaded_tokens += work.reloaded_tokens;
        out->recomputed_tokens += work.recomputed_tokens;
        out->made_tokens += choice->answered.made_tokens;
    }
}

/* The times of the first choice. */
static void usage_record_add_times(const struct request *leader, int64_t now_ns,
                                   struct record_usage *out) {
    const struct metrics_times *times = &leader->times;
    uint32_t tokens = leader->answered.output_tokens;
    out->total_ns = now_ns - times->arrived_ns;
    out->ttft_ns = times->has_token ? times->first_token_ns - times->arrived_ns : -1;
    out->tpot_ns =
        tokens > 1 ? (times->last_token_ns - times->first_token_ns) / (int64_t)(tokens - 1) : -1;
}

enum status usage_record_put(struct gateway *gateway, const struct request *leader,
                             const struct usage_fate *fate, int64_t now_ns) {
    const struct request_asked *asked = &leader->asked;
    const struct endpoint *endpoint = endpoint_at(request_endpoint(leader));
    struct usage_stay stays[USAGE_STAYS_MAX];
    struct record_usage usage = {
        .request = asked->answer.id,
        .unix_time = asked->answer.created,
        .is_charged = fate->is_charged,
        .http_status = leader->unreported.begun ? 200 : fate->http_status,
        .hit_tokens = fate->usage.prompt_hit_tokens,
        .miss_tokens = fate->usage.prompt_tokens - fate->usage.prompt_hit_tokens,
        .output_tokens = fate->usage.completion_tokens,
        .choices = leader->choice_count,
        .limit = fate->limit,
        .queue_ns = -1,
    };
    struct usage_strings strings = {endpoint->path,
                                    asked->name,
                                    gateway->models.names[asked->model].name,
                                    bytes_of(fate->end ? fate->end : NO_CODE),
                                    stays,
                                    0};
    if (!endpoint->dialect) return STATUS_OK;
    strings.stay_count = usage_record_list_stays(gateway, leader, stays);
    name_account(gateway, asked->account, asked->key, &usage);
    usage_record_add_work(leader, &usage);
    usage_record_add_times(leader, now_ns, &usage);
    return put(gateway, &usage, &strings);
}

enum status usage_record_put_refused(struct gateway *gateway, uint32_t http_status,
                                     const struct api_error *error) {
    const struct endpoint_call *call = gateway->call;
    const struct endpoint *endpoint = call ? endpoint_at(call->endpoint) : NULL;
    if (!endpoint || !endpoint->dialect) return STATUS_OK;
    const struct record_client_request *record = call->record;
    struct record_usage usage = {
        .request = {.high = record->random[0], .low = record->random[1]},
        .unix_time = record->unix_time,
        .http_status = http_status,
        .limit = error->limit,
        .queue_ns = -1,
        .ttft_ns = -1,
        .tpot_ns = -1,
    };
    struct usage_strings strings = {.path = endpoint->path,
                                    .name = {client_request_name(record), record->name_bytes},
                                    .end = bytes_of(error->code ? error->code : NO_CODE)};
    memcpy(usage.peer, record->peer, sizeof usage.peer);
    name_account(gateway, call->account, call->key, &usage);
    return put(gateway, &usage, &strings);
}
