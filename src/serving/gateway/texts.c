/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/texts.h"

#include "base/check.h"
#include "serving/policy/share_turns.h"

size_t texts_memory_bytes(size_t bytes_max, uint32_t requests_max) {
    return round_up(bytes_max, POOL_CHUNK_BYTES) + (requests_max + (size_t)1) * POOL_CHUNK_BYTES;
}

void texts_open(struct texts *texts, struct outbox *outbox, void *memory, size_t bytes_max,
                uint32_t requests_max) {
    texts->outbox = outbox;
    texts->bytes_max = bytes_max;
    pool_open(&texts->pool, memory, texts_memory_bytes(bytes_max, requests_max));
}

void texts_open_waiting(struct texts *texts, struct waiting_text *waiting) {
    arena_open(&waiting->arena, &texts->pool);
}

static size_t spans_bytes(struct plain_text plain) {
    return plain.count * sizeof *plain.spans;
}

/* Bytes that count against bytes_max. */
static size_t waiting_bytes(const struct waiting_text *waiting) {
    return waiting->text.count + spans_bytes(waiting->plain);
}

/* ---- the list of texts that wait ---- */

static bool client_waits(const struct texts *texts, uint64_t client) {
    const struct waiting_text *waiting = texts->first;
    while (waiting && waiting->client != client)
        waiting = waiting->next;
    return waiting != NULL;
}

static void enlist(struct texts *texts, struct waiting_text *waiting) {
    texts->client_count += !client_waits(texts, waiting->client);
    texts->bytes += waiting_bytes(waiting);
    waiting->waits = true;
    waiting->next = texts->first;
    texts->first = waiting;
}

void texts_forget(struct texts *texts, struct waiting_text *waiting) {
    struct waiting_text **link = &texts->first;
    if (!waiting->waits) return;
    while (*link != waiting)
        link = &(*link)->next;
    *link = waiting->next;
    texts->client_count -= !client_waits(texts, waiting->client);
    texts->bytes -= waiting_bytes(waiting);
    arena_clear(&waiting->arena);
    *waiting = (struct waiting_text){.arena = waiting->arena};
}

/* The last turn of the client's texts that wait or are in work (0: none), and the bytes that
 * wait. */
static uint64_t last_turn(const struct texts *texts, uint64_t client, size_t *bytes_out) {
    bool in_work = texts->busy && texts->busy_client == client;
    uint64_t last = in_work ? texts->busy_turn : 0;
    *bytes_out = 0;
    for (const struct waiting_text *waiting = texts->first; waiting; waiting = waiting->next) {
        if (waiting->client != client) continue;
        if (waiting->turn > last) last = waiting->turn;
        *bytes_out += waiting_bytes(waiting);
    }
    return last;
}

/* ---- to the thread, now or later ---- */

/* Without their tails. */
static struct record_tokenize tokenize_of(const struct texts_ask *ask) {
    return (struct record_tokenize){.request = ask->request,
                                    .text_bytes = (uint32_t)ask->text.count,
                                    .plain_count = (uint32_t)ask->plain.count,
                                    .tokens_max = ask->tokens_max};
}
static struct record_constrain constrain_of(const struct texts_ask *ask) {
    return (struct record_constrain){
        .request = ask->request, .client = ask->client, .text_bytes = (uint32_t)ask->text.count};
}

static bool put_tokenize(struct outbox *outbox, const struct texts_ask *ask) {
    struct record_tokenize fixed = tokenize_of(ask);
    struct record_tokenize *record = outbox_put(outbox, RECORD_TOKENIZE, &fixed);
    if (!record) return false;
    memcpy(tokenize_text(record), ask->text.data, ask->text.count);
    if (ask->plain.count) memcpy(tokenize_plain(record), ask->plain.spans, spans_bytes(ask->plain));
    return true;
}

static bool put_constrain(struct outbox *outbox, const struct texts_ask *ask) {
    struct record_constrain fixed = constrain_of(ask);
    struct record_constrain *record = outbox_put(outbox, RECORD_CONSTRAIN, &fixed);
    if (record) memcpy(constrain_text(record), ask->text.data, ask->text.count);
    return record != NULL;
}

static size_t bytes_of_record(const struct texts *texts, const struct texts_ask *ask) {
    struct record_tokenize tokenize = tokenize_of(ask);
    struct record_constrain constrain = constrain_of(ask);
    return texts->kind == RECORD_TOKENIZE ? record_bytes(RECORD_TOKENIZE, &tokenize)
                                          : record_bytes(RECORD_CONSTRAIN, &constrain);
}

static enum status give(struct texts *texts, const struct texts_ask *ask, uint64_t turn) {
    bool put = texts->kind == RECORD_TOKENIZE ? put_tokenize(texts->outbox, ask)
                                              : put_constrain(texts->outbox, ask);
    if (!put) return STATUS_FULL;
    texts->busy = true;
    texts->busy_client = ask->client;
    texts->busy_turn = turn;
    return STATUS_OK;
}

/* Copies the text, which then waits. client_bytes: of its client's texts that wait already. */
static enum status keep(struct texts *texts, struct waiting_text *waiting,
                        const struct texts_ask *ask, uint64_t turn, size_t client_bytes) {
    size_t free_bytes = texts->bytes_max - texts->bytes;
    size_t bytes = ask->text.count + spans_bytes(ask->plain);
    if (!share_turns_admits(bytes, client_bytes, free_bytes)) return STATUS_NO_MEMORY;
    struct text_span *spans = arena_take(&waiting->arena, spans_bytes(ask->plain));
    char *copy = arena_take(&waiting->arena, ask->text.count);
    if (!copy || !spans) {
        arena_clear(&waiting->arena);
        return STATUS_NO_MEMORY;
    }
    memcpy(copy, ask->text.data, ask->text.count);
    if (ask->plain.count) memcpy(spans, ask->plain.spans, spans_bytes(ask->plain));
    waiting->request = ask->request;
    waiting->client = ask->client;
    waiting->text = (struct bytes){copy, ask->text.count};
    waiting->plain = (struct plain_text){spans, ask->plain.count};
    waiting->turn = turn;
    enlist(texts, waiting);
    return STATUS_OK;
}

enum status texts_take(struct texts *texts, struct waiting_text *waiting,
                       const struct texts_ask *ask) {
    size_t client_bytes;
    if (bytes_of_record(texts, ask) > texts->outbox->capacity) return STATUS_TOO_LARGE;
    uint64_t before = last_turn(texts, ask->client, &client_bytes);
    uint64_t turn = share_turns_turn(texts->now, before, ask->text.count);
    if (!texts->busy && !texts->first) return give(texts, ask, turn);
    return keep(texts, waiting, ask, turn, client_bytes);
}

void texts_spend(struct texts *texts, int64_t took_ns) {
    check(texts->kind == RECORD_CONSTRAIN && texts->busy);
    share_time_spend(&texts->time, texts->busy_client, took_ns);
}

void texts_answered(struct texts *texts) {
    texts->busy = false;
}

bool texts_want(const struct texts *texts) {
    return !texts->busy && texts->first;
}

/* Finds the smallest turn. Of equal turns the last in the list is first: it arrived first. */
static struct waiting_text *texts_next(const struct texts *texts) {
    bool by_time = texts->kind == RECORD_CONSTRAIN;
    struct waiting_text *next = NULL;
    uint64_t least = UINT64_MAX;
    for (struct waiting_text *waiting = texts->first; waiting; waiting = waiting->next) {
        uint64_t turn = by_time ? share_time_turn(&texts->time, waiting->client) : waiting->turn;
        if (turn > least) continue;
        next = waiting;
        least = turn;
    }
    return next;
}

void texts_run(struct texts *texts, uint32_t tokens_max) {
    if (!texts_want(texts)) return;
    struct waiting_text *next = texts_next(texts);
    struct texts_ask ask = {next->request, next->client, next->text, next->plain, tokens_max};
    if (texts->client_count > texts->clients_max) texts->clients_max = texts->client_count;
    if (give(texts, &ask, next->turn)) return; /* the outbox is full */
    texts->now = share_turns_after(texts->now, next->text.count, texts->clients_max);
    texts_forget(texts, next);
    if (!texts->first) texts->clients_max = 0;
}

void texts_audit(const struct texts *texts) {
    uint32_t clients = 0;
    size_t bytes = 0;
    for (const struct waiting_text *waiting = texts->first; waiting; waiting = waiting->next) {
        const struct waiting_text *same = waiting->next;
        while (same && same->client != waiting->client)
            same = same->next;
        clients += same == NULL; /* the last one of its client */
        bytes += waiting_bytes(waiting);
        check(waiting->waits && waiting->arena.run_count > 0);
    }
    check(clients == texts->client_count && bytes == texts->bytes);
    if (!texts->first) check(texts->pool.free_count == texts->pool.chunk_count);
}
