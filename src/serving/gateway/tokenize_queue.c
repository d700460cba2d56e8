/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/tokenize_queue.h"

#include "base/check.h"
#include "serving/policy/fair_queue.h"

size_t tokenize_queue_memory_bytes(size_t bytes_max, uint32_t requests_max) {
    return round_up(bytes_max, POOL_CHUNK_BYTES) + (requests_max + (size_t)1) * POOL_CHUNK_BYTES;
}

void tokenize_queue_open(struct tokenize_queue *queue, struct outbox *outbox, void *memory,
                         size_t bytes_max, uint32_t requests_max) {
    queue->outbox = outbox;
    queue->bytes_max = bytes_max;
    arena_pool_open(&queue->pool, memory, tokenize_queue_memory_bytes(bytes_max, requests_max));
}

void tokenize_queue_open_waiting(struct tokenize_queue *queue, struct waiting_text *waiting) {
    arena_open(&waiting->arena, &queue->pool);
}

static size_t spans_bytes(struct plain_text plain) {
    return plain.count * sizeof *plain.spans;
}

/* Bytes of a text that count against bytes_max. */
static size_t waiting_bytes(const struct waiting_text *waiting) {
    return waiting->text.count + spans_bytes(waiting->plain);
}

/* ---- the list of waiting texts ---- */

static bool client_waits(const struct tokenize_queue *queue, uint64_t client) {
    const struct waiting_text *waiting = queue->first;
    while (waiting && waiting->client != client)
        waiting = waiting->next;
    return waiting != NULL;
}

static void enlist(struct tokenize_queue *queue, struct waiting_text *waiting) {
    queue->client_count += !client_waits(queue, waiting->client);
    queue->bytes += waiting_bytes(waiting);
    waiting->waits = true;
    waiting->next = queue->first;
    queue->first = waiting;
}

void tokenize_queue_forget(struct tokenize_queue *queue, struct waiting_text *waiting) {
    struct waiting_text **link = &queue->first;
    if (!waiting->waits) return;
    while (*link != waiting)
        link = &(*link)->next;
    *link = waiting->next;
    queue->client_count -= !client_waits(queue, waiting->client);
    queue->bytes -= waiting_bytes(waiting);
    arena_clear(&waiting->arena);
    *waiting = (struct waiting_text){.arena = waiting->arena};
}

/* The last turn of the client's texts that wait or are being processed (0: none). *bytes_out: bytes
 * of those that wait. */
static uint64_t last_turn(const struct tokenize_queue *queue, uint64_t client, size_t *bytes_out) {
    bool in_work = queue->busy && queue->busy_client == client;
    uint64_t last = in_work ? queue->busy_turn : 0;
    *bytes_out = 0;
    for (const struct waiting_text *waiting = queue->first; waiting; waiting = waiting->next) {
        if (waiting->client != client) continue;
        if (waiting->turn > last) last = waiting->turn;
        *bytes_out += waiting_bytes(waiting);
    }
    return last;
}

/* ---- to the thread, now or later ---- */

/* Make the records without their tails. */
static struct record_tokenize tokenize_of(const struct tokenize_request *ask) {
    return (struct record_tokenize){.request = ask->request,
                                    .text_bytes = (uint32_t)ask->text.count,
                                    .plain_count = (uint32_t)ask->plain.count,
                                    .tokens_max = ask->tokens_max};
}
static struct record_constrain constrain_of(const struct tokenize_request *ask) {
    return (struct record_constrain){
        .request = ask->request, .client = ask->client, .text_bytes = (uint32_t)ask->text.count};
}

static bool put_tokenize(struct outbox *outbox, const struct tokenize_request *ask) {
    struct record_tokenize fixed = tokenize_of(ask);
    struct record_tokenize *record = machine_outbox_put(outbox, RECORD_TOKENIZE, &fixed);
    if (!record) return false;
    memcpy(tokenize_text(record), ask->text.data, ask->text.count);
    if (ask->plain.count) memcpy(tokenize_plain(record), ask->plain.spans, spans_bytes(ask->plain));
    return true;
}

static bool put_constrain(struct outbox *outbox, const struct tokenize_request *ask) {
    struct record_constrain fixed = constrain_of(ask);
    struct record_constrain *record = machine_outbox_put(outbox, RECORD_CONSTRAIN, &fixed);
    if (record) memcpy(constrain_text(record), ask->text.data, ask->text.count);
    return record != NULL;
}

static size_t bytes_of_record(const struct tokenize_queue *queue,
                              const struct tokenize_request *ask) {
    struct record_tokenize tokenize = tokenize_of(ask);
    struct record_constrain constrain = constrain_of(ask);
    return queue->kind == RECORD_TOKENIZE ? record_bytes(RECORD_TOKENIZE, &tokenize)
                                          : record_bytes(RECORD_CONSTRAIN, &constrain);
}

static enum status tokenize_queue_give(struct tokenize_queue *queue,
                                       const struct tokenize_request *ask, uint64_t turn) {
    bool put = queue->kind == RECORD_TOKENIZE ? put_tokenize(queue->outbox, ask)
                                              : put_constrain(queue->outbox, ask);
    if (!put) return STATUS_FULL;
    queue->busy = true;
    queue->busy_client = ask->client;
    queue->busy_turn = turn;
    return STATUS_OK;
}

/* Copies the text and adds it to the list. client_bytes: bytes of its client's waiting texts. */
static enum status tokenize_queue_keep(struct tokenize_queue *queue, struct waiting_text *waiting,
                                       const struct tokenize_request *ask, uint64_t turn,
                                       size_t client_bytes) {
    size_t free_bytes = queue->bytes_max - queue->bytes;
    size_t bytes = ask->text.count + spans_bytes(ask->plain);
    if (!fair_queue_admits(bytes, client_bytes, free_bytes)) return STATUS_NO_MEMORY;
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
    enlist(queue, waiting);
    return STATUS_OK;
}

enum status tokenize_queue_take(struct tokenize_queue *queue, struct waiting_text *waiting,
                                const struct tokenize_request *ask) {
    size_t client_bytes;
    if (bytes_of_record(queue, ask) > queue->outbox->capacity) return STATUS_TOO_LARGE;
    uint64_t before = last_turn(queue, ask->client, &client_bytes);
    uint64_t turn = fair_queue_turn(queue->now, before, ask->text.count);
    if (!queue->busy && !queue->first) return tokenize_queue_give(queue, ask, turn);
    return tokenize_queue_keep(queue, waiting, ask, turn, client_bytes);
}

void tokenize_queue_spend(struct tokenize_queue *queue, int64_t took_ns) {
    check(queue->kind == RECORD_CONSTRAIN && queue->busy);
    share_time_spend(&queue->time, queue->busy_client, took_ns);
}

void tokenize_queue_answered(struct tokenize_queue *queue) {
    queue->busy = false;
}

bool tokenize_queue_want(const struct tokenize_queue *queue) {
    return !queue->busy && queue->first;
}

/* Finds the text that is next. Among equals it is the last in the list, because that arrived
 * first. */
static struct waiting_text *tokenize_queue_next(const struct tokenize_queue *queue) {
    bool by_time = queue->kind == RECORD_CONSTRAIN;
    struct waiting_text *next = NULL;
    uint64_t least = UINT64_MAX;
    for (struct waiting_text *waiting = queue->first; waiting; waiting = waiting->next) {
        uint64_t turn = by_time ? share_time_turn(&queue->time, waiting->client) : waiting->turn;
        if (turn > least) continue;
        next = waiting;
        least = turn;
    }
    return next;
}

void tokenize_queue_run(struct tokenize_queue *queue, uint32_t tokens_max) {
    if (!tokenize_queue_want(queue)) return;
    struct waiting_text *next = tokenize_queue_next(queue);
    struct tokenize_request ask = {next->request, next->client, next->text, next->plain,
                                   tokens_max};
    if (queue->client_count > queue->clients_max) queue->clients_max = queue->client_count;
    if (tokenize_queue_give(queue, &ask, next->turn)) return; /* the outbox is full */
    queue->now = fair_queue_after(queue->now, next->text.count, queue->clients_max);
    tokenize_queue_forget(queue, next);
    if (!queue->first) queue->clients_max = 0;
}

void tokenize_queue_audit(const struct tokenize_queue *queue) {
    uint32_t clients = 0;
    size_t bytes = 0;
    for (const struct waiting_text *waiting = queue->first; waiting; waiting = waiting->next) {
        const struct waiting_text *same = waiting->next;
        while (same && same->client != waiting->client)
            same = same->next;
        clients += same == NULL; /* the last text of its client */
        bytes += waiting_bytes(waiting);
        check(waiting->waits && waiting->arena.run_count > 0);
    }
    check(clients == queue->client_count && bytes == queue->bytes);
    if (!queue->first) check(queue->pool.free_count == queue->pool.chunk_count);
}
