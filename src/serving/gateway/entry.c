/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/entry.h"

#include "base/check.h"

#define NO_CODE "refused" /* the end of a request that was refused without a code */

/* ---- entries that are not settled ---- */

/* Each request that is held may become another one. */
static uint32_t unsettled_max(uint32_t requests_max) {
    return 2 * requests_max;
}

size_t entry_memory_bytes(uint32_t requests_max) {
    return unsettled_max(requests_max) * sizeof(uint64_t) + 16;
}

enum status entry_open(struct gateway *gateway, struct arena *arena) {
    uint32_t count = unsettled_max(gateway->options.requests_max);
    gateway->entries.unsettled = arena_take(arena, count * sizeof(uint64_t));
    return gateway->entries.unsettled ? STATUS_OK : STATUS_NO_MEMORY;
}

void entry_charge(struct gateway *gateway) {
    struct gateway_entries *entries = &gateway->entries;
    uint32_t most = unsettled_max(gateway->options.requests_max);
    if (!gateway->options.settles) return;
    check(entries->unsettled_count < most);
    uint32_t place = (entries->unsettled_first + entries->unsettled_count++) % most;
    entries->unsettled[place] = entries->said;
}

void entry_settled(struct gateway *gateway, uint64_t sequence) {
    struct gateway_entries *entries = &gateway->entries;
    uint32_t most = unsettled_max(gateway->options.requests_max);
    if (sequence > entries->settled) entries->settled = sequence;
    while (entries->unsettled_count &&
           entries->unsettled[entries->unsettled_first] <= entries->settled) {
        entries->unsettled_first = (entries->unsettled_first + 1) % most;
        entries->unsettled_count--;
    }
}

bool entry_is_behind(const struct gateway *gateway) {
    return gateway->entries.unsettled_count >= gateway->options.requests_max;
}

struct entry_mark entry_mark(const struct gateway *gateway) {
    return (struct entry_mark){gateway->outbox.used, gateway->entries.said};
}

void entry_take_back(struct gateway *gateway, struct entry_mark mark) {
    gateway->outbox.used = mark.outbox_used;
    gateway->entries.said = mark.said;
}

/* ---- what an entry says ---- */

struct entry_texts {
    struct bytes path, name, model, end;
    const struct entry_stay *stays; /* [stay_count] */
    uint32_t stay_count;
};

static void copy(char *to, struct bytes text) {
    if (text.count) memcpy(to, text.data, text.count);
}

static enum status put(struct gateway *gateway, struct record_entry *fixed,
                       const struct entry_texts *texts) {
    fixed->path_bytes = (uint32_t)texts->path.count;
    fixed->name_bytes = (uint32_t)texts->name.count;
    fixed->model_bytes = (uint32_t)texts->model.count;
    fixed->end_bytes = (uint32_t)texts->end.count;
    fixed->stay_count = texts->stay_count;
    fixed->sequence = gateway->entries.said + 1;
    struct record_entry *entry = outbox_put(&gateway->outbox, RECORD_ENTRY, fixed);
    if (!entry) return STATUS_FULL;
    check(entry->record.bytes <= ENTRY_BYTES_MAX);
    copy(entry_path(entry), texts->path);
    copy(entry_name(entry), texts->name);
    copy(entry_model(entry), texts->model);
    copy(entry_end(entry), texts->end);
    if (texts->stay_count)
        memcpy(entry_stays(entry), texts->stays, texts->stay_count * sizeof *texts->stays);
    gateway->entries.said++;
    return STATUS_OK;
}

static void name_account(const struct gateway *gateway, uint32_t account, uint32_t key,
                         struct record_entry *out) {
    if (account == ACCOUNT_NONE) return;
    memcpy(out->account, gateway->accounts.slots[account].is.name, sizeof out->account);
    if (key != ACCOUNT_NONE)
        memcpy(out->key, gateway->accounts.keys[key].is.sha256, sizeof out->key);
}

/* Lists the last stays of all choices in order; returns their count. */
static uint32_t list_stays(const struct gateway *gateway, const struct request *leader,
                           struct entry_stay stays_out[ENTRY_STAYS_MAX]) {
    struct entry_stay ring[ENTRY_STAYS_MAX];
    uint32_t total = 0;
    for (uint32_t i = 0; i < leader->choice_count; i++) {
        struct receipt receipt = request_receipt(gateway, leader->choices[i]);
        uint32_t at =
            receipt.stay_count > RECEIPT_STAYS_MAX ? receipt.stay_count - RECEIPT_STAYS_MAX : 0;
        for (; at < receipt.stay_count; at++) {
            const struct receipt_stay *stay = &receipt.stays[at % RECEIPT_STAYS_MAX];
            ring[total++ % ENTRY_STAYS_MAX] = (struct entry_stay){.instance = stay->instance,
                                                                  .unit = stay->unit.value,
                                                                  .rank = stay->rank,
                                                                  .role = stay->role};
        }
    }
    uint32_t count = total < ENTRY_STAYS_MAX ? total : ENTRY_STAYS_MAX;
    for (uint32_t i = 0; i < count; i++)
        stays_out[i] = ring[(total - count + i) % ENTRY_STAYS_MAX];
    return count;
}

static void add_work(const struct request *leader, struct record_entry *out) {
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
static void add_times(const struct request *leader, int64_t now_ns, struct record_entry *out) {
    const struct metrics_times *times = &leader->times;
    uint32_t tokens = leader->answered.output_tokens;
    out->total_ns = now_ns - times->arrived_ns;
    out->ttft_ns = times->has_token ? times->first_token_ns - times->arrived_ns : -1;
    out->tpot_ns =
        tokens > 1 ? (times->last_token_ns - times->first_token_ns) / (int64_t)(tokens - 1) : -1;
}

enum status entry_put(struct gateway *gateway, const struct request *leader,
                      const struct entry_fate *fate, int64_t now_ns) {
    const struct request_asked *asked = &leader->asked;
    const struct endpoint *endpoint = endpoint_at(request_endpoint(leader));
    struct entry_stay stays[ENTRY_STAYS_MAX];
    struct record_entry entry = {
        .request = asked->answer.id,
        .unix_time = asked->answer.created,
        .is_charged = fate->is_charged,
        .http_status = leader->owed.begun ? 200 : fate->http_status,
        .hit_tokens = fate->usage.prompt_hit_tokens,
        .miss_tokens = fate->usage.prompt_tokens - fate->usage.prompt_hit_tokens,
        .output_tokens = fate->usage.completion_tokens,
        .choices = leader->choice_count,
        .limit = fate->limit,
        .queue_ns = -1,
    };
    struct entry_texts texts = {endpoint->path,
                                asked->name,
                                gateway->models.names[asked->model].name,
                                bytes_of(fate->end ? fate->end : NO_CODE),
                                stays,
                                0};
    if (!endpoint->dialect) return STATUS_OK;
    texts.stay_count = list_stays(gateway, leader, stays);
    name_account(gateway, asked->account, asked->key, &entry);
    add_work(leader, &entry);
    add_times(leader, now_ns, &entry);
    return put(gateway, &entry, &texts);
}

enum status entry_put_refused(struct gateway *gateway, uint32_t http_status,
                              const struct api_error *error) {
    const struct endpoint_call *call = gateway->call;
    const struct endpoint *endpoint = call ? endpoint_at(call->endpoint) : NULL;
    if (!endpoint || !endpoint->dialect) return STATUS_OK;
    const struct record_client_request *record = call->record;
    struct record_entry entry = {
        .request = {.high = record->random[0], .low = record->random[1]},
        .unix_time = record->unix_time,
        .http_status = http_status,
        .limit = error->limit,
        .queue_ns = -1,
        .ttft_ns = -1,
        .tpot_ns = -1,
    };
    struct entry_texts texts = {.path = endpoint->path,
                                .name = {client_request_name(record), record->name_bytes},
                                .end = bytes_of(error->code ? error->code : NO_CODE)};
    memcpy(entry.peer, record->peer, sizeof entry.peer);
    name_account(gateway, call->account, call->key, &entry);
    return put(gateway, &entry, &texts);
}
