/* SPDX-License-Identifier: Apache-2.0
 * Three threads meet here. The event loop's thread gives records and takes answers, the engine's
 * thread waits for loads, and the store's thread reports finished loads and copied blocks.
 */
#include "host/storage/kv_host_cache.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/heartbeat.h"
#include "contract/record_kv.h"
#include "host/process/timed_wait.h"
#include "host/wire/record_queue.h"
#include "serving/cache/block_key.h"

#define REFRESH_NS_MAX 20000000        /* limit of blocking the event loop */
#define CLOSE_NS ((int64_t)5000000000) /* per rank; ranks close in turn while a supervisor waits */
#define AWAIT_NS_MAX 2000000000        /* limit of blocking a step when the storage is stuck */
#define AWAIT_POLL_NS 20000000         /* poll interval of an engine that waits */

struct cache_load { /* a KV_LOAD in progress */
    struct kv_host_cache *host_cache;
    struct cache_load *next;
    struct kv_load *load;
    struct request_id request;
    uint32_t rank, slot, requested;
    bool in_step;          /* the engine takes its end, by slot */
    struct page_id *pages; /* [requested] destination pages */
    uint32_t awaited;      /* number of kv_host_cache_await calls that use `load` */
};

/* The KV_LOAD of a slot that has in_step set. The engine may wait for it. */
struct slot_load {
    enum { SLOT_EMPTY, SLOT_LOADING, SLOT_OVER, SLOT_TAKEN } state;
    struct cache_load *loading; /* SLOT_LOADING */
    struct load_end end;        /* SLOT_OVER, and SLOT_TAKEN by the engine */
    bool whole;                 /* SLOT_OVER: all blocks have arrived */
};

struct cache_put { /* a KV_PUT in progress */
    struct kv_host_cache *host_cache;
    uint32_t rank, last_page, dropped;
    uint32_t left; /* references: one for each block to copy, one for the caller that adds them */
};

struct kv_host_cache {
    const struct kv_pages *pages;
    struct kv_store *store;
    int event;
    pthread_mutex_t lock;
    pthread_cond_t given;        /* a KV_LOAD with in_step was given */
    struct record_queue answers; /* the lock protects this and the rest */
    struct cache_load *ended;    /* freed by kv_host_cache_take */
    struct slot_load *slots;     /* [LIMIT_UNIT_REQUESTS] */
};

enum status kv_host_cache_open(const struct kv_store_options *options, const struct kv_pages *pages,
                               struct kv_host_cache **host_cache_out, struct error *error) {
    struct kv_store_options own = *options;
    own.format = pages->format;
    struct kv_host_cache *host_cache = calloc(1, sizeof *host_cache);
    if (!host_cache) return error_set(error, STATUS_NO_MEMORY, "no memory for the KV storage");
    host_cache->pages = pages;
    host_cache->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    host_cache->answers.bytes_max = SIZE_MAX;
    host_cache->slots = calloc(LIMIT_UNIT_REQUESTS, sizeof *host_cache->slots);
    pthread_mutex_init(&host_cache->lock, NULL);
    timed_wait_open(&host_cache->given);
    enum status status = host_cache->event < 0 || !host_cache->slots
                             ? error_set(error, STATUS_IO, "no eventfd, or no memory")
                             : kv_store_open(&own, &host_cache->store, error);
    if (status) {
        free(host_cache->slots);
        if (host_cache->event >= 0) close(host_cache->event);
        pthread_cond_destroy(&host_cache->given);
        pthread_mutex_destroy(&host_cache->lock);
        free(host_cache);
        return status;
    }
    check(kv_format_block_bytes(&own.format) == pages->page_bytes);
    *host_cache_out = host_cache;
    return STATUS_OK;
}

/* Frees ended loads, except those that the engine still uses. */
static void free_ended(struct kv_host_cache *host_cache) {
    struct cache_load *ended = NULL;
    pthread_mutex_lock(&host_cache->lock);
    for (struct cache_load **at = &host_cache->ended, *loading; (loading = *at);) {
        if (loading->awaited) {
            at = &loading->next;
            continue;
        }
        *at = loading->next;
        loading->next = ended;
        ended = loading;
    }
    pthread_mutex_unlock(&host_cache->lock);
    while (ended) {
        struct cache_load *next = ended->next;
        kv_store_load_end(ended->load);
        free(ended->pages);
        free(ended);
        ended = next;
    }
}

void kv_host_cache_close(struct kv_host_cache *host_cache) {
    if (!host_cache) return;
    kv_store_stop(host_cache->store, CLOSE_NS);
    free_ended(host_cache);
    kv_store_close(host_cache->store);
    record_queue_clear(&host_cache->answers);
    free(host_cache->slots);
    pthread_cond_destroy(&host_cache->given);
    pthread_mutex_destroy(&host_cache->lock);
    close(host_cache->event);
    free(host_cache);
}

int kv_host_cache_file(const struct kv_host_cache *host_cache) {
    return host_cache->event;
}

struct kv_store *kv_host_cache_store(const struct kv_host_cache *host_cache) {
    return host_cache->store;
}

static void kv_host_cache_answer(struct kv_host_cache *host_cache, const struct record *record) {
    uint64_t one = 1;
    pthread_mutex_lock(&host_cache->lock);
    record_queue_force(&host_cache->answers, record);
    pthread_mutex_unlock(&host_cache->lock);
    ssize_t written = write(host_cache->event, &one, sizeof one);
    (void)written; /* fails only if the eventfd is readable already */
}

static void *kv_host_cache_block_of(const struct kv_host_cache *host_cache, struct page_id page) {
    check(page.index < host_cache->pages->page_count);
    return host_cache->pages->memory + (size_t)page.index * host_cache->pages->page_bytes;
}

static void find(struct kv_host_cache *host_cache, const struct record_kv_find *record) {
    if (record->fresh) kv_store_refresh(host_cache->store, REFRESH_NS_MAX);
    struct kv_found found =
        kv_store_find(host_cache->store, kv_find_keys(record), record->key_count);
    struct record_kv_found reported = {.record = record_head(RECORD_KV_FOUND, sizeof reported),
                                       .request = record->request,
                                       .rank = record->rank,
                                       .blocks = found.blocks,
                                       .host_blocks = found.host};
    kv_host_cache_answer(host_cache, &reported.record);
}

static void report_loaded(struct kv_host_cache *host_cache, struct request_id request,
                          uint32_t rank, const struct load_end *end) {
    struct record_kv_loaded reported = {.record = record_head(RECORD_KV_LOADED, sizeof reported),
                                        .request = request,
                                        .rank = rank,
                                        .end = *end};
    kv_host_cache_answer(host_cache, &reported.record);
}

/* Copies slices [first, first + count) of the load's leading blocks to the device, if pages are on
 * one. */
static void give_slices(const struct cache_load *loading, uint32_t blocks, uint32_t first,
                        uint32_t count) {
    for (uint32_t i = 0; i < blocks; i++)
        kv_pages_give(loading->host_cache->pages, loading->pages[i].index, first, count);
}

/* Called on the store's thread. Once the load is in `ended`, it may be freed. */
static void loaded(void *context, struct kv_load *load) {
    struct cache_load *loading = context;
    struct kv_host_cache *host_cache = loading->host_cache;
    struct kv_load_state state = kv_store_load_get_state(load);
    struct load_end end = {.blocks = state.blocks, .host_blocks = state.host, .ns = state.ns};
    struct request_id request = loading->request;
    uint32_t rank = loading->rank;
    give_slices(loading, state.blocks, 0, host_cache->pages->format.slice_count);
    pthread_mutex_lock(&host_cache->lock);
    bool in_step = loading->in_step;
    if (in_step)
        host_cache->slots[loading->slot] = (struct slot_load){
            .state = SLOT_OVER, .end = end, .whole = state.blocks == loading->requested};
    loading->next = host_cache->ended;
    host_cache->ended = loading;
    pthread_mutex_unlock(&host_cache->lock);
    if (!in_step) report_loaded(host_cache, request, rank, &end);
}

/* The load may end before kv_store_load returns its handle. So it begins with the lock held, and
 * `loaded` waits for the lock. */
static bool start_load(struct cache_load *loading, const struct kv_load_request *request) {
    struct kv_host_cache *host_cache = loading->host_cache;
    pthread_mutex_lock(&host_cache->lock);
    loading->load = kv_store_load(host_cache->store, request);
    bool begun = loading->load != NULL;
    if (begun && loading->in_step) {
        host_cache->slots[loading->slot] =
            (struct slot_load){.state = SLOT_LOADING, .loading = loading};
        pthread_cond_broadcast(&host_cache->given);
    }
    pthread_mutex_unlock(&host_cache->lock);
    return begun;
}

/* Reports a load that could not begin as one that ended without blocks. */
static void end_unbegun(struct kv_host_cache *host_cache, const struct record_kv_load *record) {
    const struct load_end nothing = {0};
    if (!record->in_step) {
        report_loaded(host_cache, record->request, record->rank, &nothing);
        return;
    }
    pthread_mutex_lock(&host_cache->lock);
    host_cache->slots[record->slot] = (struct slot_load){.state = SLOT_OVER};
    pthread_cond_broadcast(&host_cache->given);
    pthread_mutex_unlock(&host_cache->lock);
}

/* From now on the load's end is reported to the unit. The engine may have taken the end already,
 * for a step that failed later. */
static void kv_host_cache_park(struct kv_host_cache *host_cache,
                               const struct record_kv_park *record) {
    check(record->slot < LIMIT_UNIT_REQUESTS);
    pthread_mutex_lock(&host_cache->lock);
    struct slot_load *slot = &host_cache->slots[record->slot];
    check(slot->state != SLOT_EMPTY); /* the KV_LOAD came before */
    bool over = slot->state != SLOT_LOADING;
    struct load_end end = slot->end;
    if (!over) slot->loading->in_step = false;
    *slot = (struct slot_load){0};
    pthread_mutex_unlock(&host_cache->lock);
    if (over) report_loaded(host_cache, record->request, record->rank, &end);
}

/* How long the next poll may wait; 0: the time is over. Each poll is a heartbeat: the engine's
 * thread keeps running and its wait is bounded, so neither it nor the threads that wait for it
 * count as stuck. */
static int64_t poll_ns(int64_t until_ns) {
    int64_t left_ns = until_ns - clock_now_ns();
    heartbeat_tile();
    if (left_ns <= 0) return 0;
    return left_ns < AWAIT_POLL_NS ? left_ns : AWAIT_POLL_NS;
}

/* Called with the lock held. Waits until the slot's load was given. A slot in state SLOT_TAKEN
 * still has the previous load. */
static void wait_given(struct kv_host_cache *host_cache, const struct slot_load *slot,
                       int64_t until_ns) {
    int64_t for_ns;
    while ((slot->state == SLOT_EMPTY || slot->state == SLOT_TAKEN) &&
           (for_ns = poll_ns(until_ns))) {
        const struct timespec end = timed_wait_deadline(for_ns);
        pthread_cond_timedwait(&host_cache->given, &host_cache->lock, &end);
    }
}

static bool wait_slices(const struct cache_load *loading, uint32_t slices, int64_t until_ns) {
    struct kv_load_state state = kv_store_load_get_state(loading->load);
    int64_t for_ns;
    while (!state.done && state.slices < slices && (for_ns = poll_ns(until_ns)))
        state = kv_store_load_wait(loading->load, slices, for_ns);
    return state.blocks == loading->requested && (state.done || state.slices >= slices);
}

bool kv_host_cache_await(struct kv_host_cache *host_cache, uint32_t slot, uint32_t slices) {
    int64_t until_ns = clock_now_ns() + AWAIT_NS_MAX;
    check(slot < LIMIT_UNIT_REQUESTS);
    pthread_mutex_lock(&host_cache->lock);
    wait_given(host_cache, &host_cache->slots[slot], until_ns);
    struct slot_load found = host_cache->slots[slot];
    if (found.state == SLOT_LOADING) found.loading->awaited++;
    pthread_mutex_unlock(&host_cache->lock);
    if (found.state != SLOT_LOADING) return found.state == SLOT_OVER && found.whole;
    bool come = wait_slices(found.loading, slices, until_ns);
    if (come && slices <= host_cache->pages->format.slice_count) /* else `loaded` has copied all */
        give_slices(found.loading, found.loading->requested, slices - 1, 1);
    pthread_mutex_lock(&host_cache->lock);
    found.loading->awaited--;
    pthread_mutex_unlock(&host_cache->lock);
    return come;
}

bool kv_host_cache_take_end(struct kv_host_cache *host_cache, uint32_t slot,
                            struct load_end *end_out) {
    check(slot < LIMIT_UNIT_REQUESTS);
    pthread_mutex_lock(&host_cache->lock);
    bool over = host_cache->slots[slot].state == SLOT_OVER;
    if (over) {
        *end_out = host_cache->slots[slot].end;
        host_cache->slots[slot].state = SLOT_TAKEN;
    }
    pthread_mutex_unlock(&host_cache->lock);
    return over;
}

static void kv_host_cache_begin_load(struct kv_host_cache *host_cache,
                                     const struct record_kv_load *record) {
    uint32_t count = record->block_count;
    const struct page_id *pages = kv_load_pages(record);
    void **blocks = calloc(count, sizeof *blocks);
    struct cache_load *loading = calloc(1, sizeof *loading);
    struct page_id *filled = malloc(count * sizeof *filled + 1);
    if (filled) memcpy(filled, pages, count * sizeof *filled);
    for (uint32_t i = 0; blocks && i < count; i++)
        blocks[i] = kv_host_cache_block_of(host_cache, pages[i]);
    struct kv_load_request request = {.keys = kv_load_keys(record),
                                      .blocks = blocks,
                                      .count = count,
                                      .done = loaded,
                                      .context = loading};
    if (loading)
        *loading = (struct cache_load){.host_cache = host_cache,
                                       .request = record->request,
                                       .rank = record->rank,
                                       .slot = record->slot,
                                       .requested = count,
                                       .in_step = record->in_step,
                                       .pages = filled};
    check(record->slot < LIMIT_UNIT_REQUESTS);
    if (!blocks || !loading || !filled || !start_load(loading, &request)) {
        end_unbegun(host_cache, record);
        free(loading);
        free(filled);
    }
    free(blocks);
}

/* Drops `count` references. The last one reports the end of the KV_PUT. */
static void release_put(struct cache_put *put, uint32_t count) {
    struct kv_host_cache *host_cache = put->host_cache;
    pthread_mutex_lock(&host_cache->lock);
    uint32_t left = put->left -= count;
    pthread_mutex_unlock(&host_cache->lock);
    if (left) return;
    struct record_kv_stored reported = {.record = record_head(RECORD_KV_STORED, sizeof reported),
                                        .rank = put->rank,
                                        .last_page = put->last_page,
                                        .dropped = put->dropped,
                                        .writable = kv_store_is_writable(host_cache->store)};
    kv_host_cache_answer(host_cache, &reported.record);
    free(put);
}

/* Called on the store's thread. */
static void copied(void *context, uint64_t tag) {
    release_put(context, 1);
}

static void kv_host_cache_begin_put(struct kv_host_cache *host_cache,
                                    const struct record_kv_put *record) {
    const struct block_key *keys = kv_keep_keys(record);
    const struct page_id *pages = kv_keep_pages(record);
    struct cache_put *put = malloc(sizeof *put);
    check(put);
    *put =
        (struct cache_put){host_cache, record->rank, record->last_page, 0, record->block_count + 1};
    uint32_t ours = 1; /* the caller's reference, and those of blocks that are not taken */
    for (uint32_t i = 0; i < record->block_count; i++) {
        kv_pages_take(host_cache->pages, pages[i].index, 0, host_cache->pages->format.slice_count);
        struct kv_put_request request = {.key = keys[i + 1],
                                         .parent = keys[i],
                                         .position = record->first_block + i,
                                         .block = kv_host_cache_block_of(host_cache, pages[i]),
                                         .copied = copied,
                                         .context = put};
        enum kv_put_result result = kv_store_put(host_cache->store, &request);
        if (result == KV_PUT_QUEUED) continue;
        put->dropped += result == KV_PUT_FULL;
        ours++;
    }
    release_put(put, ours);
}

void kv_host_cache_give(struct kv_host_cache *host_cache, const struct record *record) {
    switch ((enum record_kind)record->kind) {
    case RECORD_KV_FIND:
        find(host_cache, (const struct record_kv_find *)record);
        break;
    case RECORD_KV_LOAD:
        kv_host_cache_begin_load(host_cache, (const struct record_kv_load *)record);
        break;
    case RECORD_KV_PARK:
        kv_host_cache_park(host_cache, (const struct record_kv_park *)record);
        break;
    case RECORD_KV_PUT:
        kv_host_cache_begin_put(host_cache, (const struct record_kv_put *)record);
        break;
    default:
        check(!"a kind that the KV storage takes");
    }
}

void kv_host_cache_take(struct kv_host_cache *host_cache,
                        void (*take)(void *context, const struct record *record), void *context) {
    uint64_t count;
    ssize_t got = read(host_cache->event, &count, sizeof count);
    (void)got;
    pthread_mutex_lock(&host_cache->lock);
    struct record_queue answers = host_cache->answers;
    host_cache->answers = (struct record_queue){.bytes_max = SIZE_MAX};
    pthread_mutex_unlock(&host_cache->lock);
    for (const struct record *record; (record = record_queue_first(&answers));
         record_queue_drop(&answers))
        take(context, record);
    free_ended(host_cache);
}
