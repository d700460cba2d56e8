/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/texts.h"

#include "base/check.h"
#include "serving/gateway/request.h"
#include "serving/policy/share_tokenizer.h"

size_t texts_memory_bytes(const struct gateway_options *options) {
    return round_up(options->texts_bytes, POOL_CHUNK_BYTES) +
           (options->requests_max + (size_t)1) * POOL_CHUNK_BYTES;
}

void texts_open(struct gateway *gateway, void *memory) {
    pool_open(&gateway->texts.pool, memory, texts_memory_bytes(&gateway->options));
    for (uint32_t slot = 0; slot < gateway->options.requests_max; slot++)
        arena_open(&gateway->requests[slot].waiting_text.arena, &gateway->texts.pool);
}

static size_t spans_bytes(struct plain_text plain) {
    return plain.count * sizeof *plain.spans;
}

/* Without an account a request is a client of its own. */
static bool same_client(const struct request *request, uint32_t account) {
    return account != ACCOUNT_NONE && request->account == account;
}

/* The last turn of the request's client, and how much of it waits. */
static uint64_t last_turn(const struct texts *texts, uint32_t account, size_t *bytes_out) {
    bool in_work = texts->busy && account != ACCOUNT_NONE && texts->busy_account == account;
    uint64_t last = in_work ? texts->busy_turn : 0;
    *bytes_out = 0;
    for (const struct request *r = texts->first; r; r = r->waiting_text.next) {
        if (!same_client(r, account)) continue;
        if (r->waiting_text.turn > last) last = r->waiting_text.turn;
        *bytes_out += r->waiting_text.text.count + spans_bytes(r->waiting_text.plain);
    }
    return last;
}

static uint32_t count_clients(const struct texts *texts) {
    uint32_t count = 0;
    for (const struct request *r = texts->first; r; r = r->waiting_text.next) {
        const struct request *same = r->waiting_text.next;
        while (same && !same_client(same, r->account))
            same = same->waiting_text.next;
        count += same == NULL;
    }
    return count;
}

static struct record_tokenize counts_of(struct bytes text, struct plain_text plain) {
    return (struct record_tokenize){.text_bytes = (uint32_t)text.count,
                                    .plain_count = (uint32_t)plain.count};
}

static enum status give(struct gateway *gateway, const struct request *leader, struct bytes text,
                        struct plain_text plain) {
    struct texts *texts = &gateway->texts;
    struct record_tokenize counts = counts_of(text, plain);
    struct record_tokenize *record = outbox_put(&gateway->outbox, RECORD_TOKENIZE, &counts);
    if (!record) return STATUS_FULL;
    record->request = leader->id;
    record->tokens_max = (uint32_t)fleet_tokens_max(&gateway->fleet);
    memcpy(tokenize_text(record), text.data, text.count);
    if (plain.count) memcpy(tokenize_plain(record), plain.spans, spans_bytes(plain));
    texts->busy = true;
    texts->busy_account = leader->account;
    texts->busy_turn = leader->waiting_text.turn;
    return STATUS_OK;
}

static enum status keep(struct gateway *gateway, struct request *leader, struct bytes text,
                        struct plain_text plain, size_t client_bytes) {
    struct texts *texts = &gateway->texts;
    struct waiting_text *waiting = &leader->waiting_text;
    size_t free_bytes = gateway->options.texts_bytes - texts->bytes;
    size_t bytes = text.count + spans_bytes(plain);
    if (!share_tokenizer_admits(bytes, client_bytes, free_bytes)) return STATUS_NO_MEMORY;
    struct text_span *spans = arena_take(&waiting->arena, spans_bytes(plain));
    char *copy = arena_take(&waiting->arena, text.count);
    if (!copy || !spans) {
        arena_clear(&waiting->arena);
        return STATUS_NO_MEMORY;
    }
    memcpy(copy, text.data, text.count);
    if (plain.count) memcpy(spans, plain.spans, spans_bytes(plain));
    waiting->text = (struct bytes){copy, text.count};
    waiting->plain = (struct plain_text){spans, plain.count};
    waiting->waits = true;
    texts->bytes += bytes;
    waiting->next = texts->first;
    texts->first = leader;
    return STATUS_OK;
}

enum status texts_take(struct gateway *gateway, struct request *leader, struct bytes text,
                       struct plain_text plain) {
    struct texts *texts = &gateway->texts;
    size_t client_bytes;
    struct record_tokenize counts = counts_of(text, plain);
    if (record_bytes(RECORD_TOKENIZE, &counts) > gateway->outbox.capacity) return STATUS_TOO_LARGE;
    uint64_t before = last_turn(texts, leader->account, &client_bytes);
    leader->waiting_text.turn = share_tokenizer_turn(texts->now, before, text.count);
    enum status status = texts->busy || texts->first
                             ? keep(gateway, leader, text, plain, client_bytes)
                             : give(gateway, leader, text, plain);
    for (uint32_t i = 0; i < leader->choice_count && !status; i++)
        leader->choices[i]->state = REQUEST_TOKENIZING;
    return status;
}

void texts_answered(struct gateway *gateway) {
    gateway->texts.busy = false;
}

void texts_forget(struct gateway *gateway, struct request *leader) {
    struct request **place = &gateway->texts.first;
    if (!leader->waiting_text.waits) return;
    while (*place != leader)
        place = &(*place)->waiting_text.next;
    *place = leader->waiting_text.next;
    gateway->texts.bytes -=
        leader->waiting_text.text.count + spans_bytes(leader->waiting_text.plain);
    arena_clear(&leader->waiting_text.arena);
    leader->waiting_text = (struct waiting_text){.arena = leader->waiting_text.arena};
}

bool texts_want(const struct gateway *gateway) {
    return !gateway->texts.busy && gateway->texts.first;
}

void texts_run(struct gateway *gateway) {
    struct texts *texts = &gateway->texts;
    if (!texts_want(gateway)) return;
    struct request *next = texts->first;
    for (struct request *r = next; r; r = r->waiting_text.next) /* ties: who came first */
        if (r->waiting_text.turn <= next->waiting_text.turn) next = r;
    struct bytes text = next->waiting_text.text;
    uint32_t clients = count_clients(texts);
    if (clients > texts->clients_max) texts->clients_max = clients;
    if (give(gateway, next, text, next->waiting_text.plain)) return;
    texts->now = share_tokenizer_after(texts->now, text.count, texts->clients_max);
    texts_forget(gateway, next);
    if (!texts->first) texts->clients_max = 0;
}

void texts_audit(const struct gateway *gateway) {
    uint32_t waiting = 0;
    size_t bytes = 0;
    for (uint32_t slot = 0; slot < gateway->options.requests_max; slot++) {
        const struct waiting_text *text = &gateway->requests[slot].waiting_text;
        check(text->waits == (text->arena.run_count > 0));
        check(!text->waits || gateway->requests[slot].state == REQUEST_TOKENIZING);
        waiting += text->waits;
        bytes += text->text.count + spans_bytes(text->plain);
    }
    for (const struct request *r = gateway->texts.first; r; r = r->waiting_text.next)
        check(r->waiting_text.waits && r->leader == r && waiting-- > 0);
    check(waiting == 0 && bytes == gateway->texts.bytes);
    const struct pool *pool = &gateway->texts.pool;
    if (!gateway->texts.first) check(pool->free_count == pool->chunk_count);
}
