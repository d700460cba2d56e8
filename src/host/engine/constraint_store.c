/* SPDX-License-Identifier: Apache-2.0
 * Each compiled constraint has a mapping of its own. It is allocated for the worst case and cut to
 * the size of the result; scratch memory is allocated and freed for each. The grammar opened for a
 * constraint follows it in the mapping, and only the holder of its turn uses it.
 *
 * One lock protects the table and the loans. It is never held during compiling or opening.
 */
#include "host/engine/constraint_store.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/checksum.h"
#include "base/clock.h"
#include "host/process/lazy_memory.h"
#include "host/process/log/log.h"
#include "host/process/model_text.h"
#include "serving/grammar/matcher/matcher.h"
#include "serving/policy/fair_queue.h"
#include "serving/policy/share_time.h"

/* Size of one constraint's mapping before it is cut: the compiled form, and its grammar. */
#define COMPILED_BYTES (2 * CONSTRAINT_RESULT_BYTES)
#define TRIE_BYTES ((size_t)1 << 30)
#define MATCHER_BYTES ((size_t)16 << 20)   /* per answer, which touches about 2 MiB of it */
#define MATCHERS_IDLE_MAX 8                /* limit of free matchers that are kept */
#define IDLE_MAX 256                       /* limit of constraints without loans */
#define IDLE_BYTES_MAX ((size_t)256 << 20) /* limit of their total size */
#define LENT_BYTES_MAX ((size_t)512 << 20) /* limit of the total size of those with loans */
#define EXPECTED_BYTES ((size_t)4 << 20)   /* estimate before compiling: most are smaller */

enum { WAITS, IN_WORK, COMPILED, FAILED };

struct stored_constraint {
    struct stored_constraint *next;
    uint64_t hash;
    struct bytes text; /* owned */
    uint64_t
        client; /* before compiling: of the clients that want it, the one with the smallest turn */
    _Atomic int state; /* set by the thread */
    uint32_t loans;
    uint64_t asked; /* order of the latest request for it: an increasing number */
    struct lazy_memory memory;
    const struct constraint *constraint;
    struct grammar *grammar;
    struct constraint_turn turn;
};

struct constrained_loan {
    struct constraint_store *store;
    struct stored_constraint *entry; /* NULL: not lent */
    struct lazy_memory memory;
    struct matcher *matcher; /* NULL: not opened yet */
};

struct constraint_store {
    struct constraint_store_options options;
    pthread_mutex_t lock;
    pthread_cond_t asked;
    pthread_t thread;
    bool is_running, is_closing;
    struct stored_constraint *entries; /* in the order of their first requests */
    struct share_time turns;
    uint64_t ask_count;
    struct constrained_loan *loans; /* [loans_max] */
    struct lazy_memory idle_matchers[MATCHERS_IDLE_MAX];
    uint32_t idle_matcher_count;
    struct constraint_store_counts counts;
    /* used by the thread only: */
    struct model_text text;
    struct lazy_memory trie_memory;
    const struct token_trie *trie; /* NULL: not built yet */
};

/* ---- the thread ---- */

static enum status open_vocabulary(struct constraint_store *store, struct error *error) {
    struct arena arena, scratch;
    if (store->trie) return STATUS_OK;
    enum status status = STATUS_OK;
    if (!store->text.tokenizer)
        status = model_text_open_tokenizer(store->options.directory, &store->text, error);
    if (status) return status;
    struct lazy_memory work = lazy_memory_take(CONSTRAINT_SCRATCH_BYTES);
    store->trie_memory = lazy_memory_take(TRIE_BYTES);
    status = STATUS_NO_MEMORY;
    if (work.start && store->trie_memory.start) {
        arena_over(&arena, store->trie_memory.start, store->trie_memory.bytes);
        arena_over(&scratch, work.start, work.bytes);
        status = token_trie_of_tokenizer(&arena, &scratch, store->text.tokenizer,
                                         store->options.vocab, &store->trie);
    }
    lazy_memory_free(&work);
    if (!status) lazy_memory_trim(&store->trie_memory, (size_t)(arena.at - arena.start));
    if (!status) return STATUS_OK;
    lazy_memory_free(&store->trie_memory);
    return error_set(error, status, "no memory for the tokens of %s", store->options.directory);
}

static enum status compile_in(struct constraint_store *store, struct stored_constraint *entry,
                              struct lazy_memory *work, struct error *error) {
    struct arena arena, scratch;
    arena_over(&arena, entry->memory.start, entry->memory.bytes);
    arena_over(&scratch, work->start, work->bytes);
    enum status status = constraint_compile(&arena, &scratch, entry->text, store->text.tokenizer,
                                            &entry->constraint, error);
    if (!status)
        status = matcher_grammar_open(&arena, entry->constraint->form, store->trie, &entry->grammar,
                                      error);
    if (!status) lazy_memory_trim(&entry->memory, (size_t)(arena.at - arena.start));
    return status;
}

static enum status constraint_store_compile(struct constraint_store *store,
                                            struct stored_constraint *entry, struct error *error) {
    enum status status = open_vocabulary(store, error);
    if (status) return status;
    struct lazy_memory work = lazy_memory_take(CONSTRAINT_SCRATCH_BYTES);
    entry->memory = lazy_memory_take(COMPILED_BYTES);
    status = work.start && entry->memory.start
                 ? compile_in(store, entry, &work, error)
                 : error_set(error, STATUS_NO_MEMORY, "no memory for a constraint");
    lazy_memory_free(&work);
    if (status) lazy_memory_free(&entry->memory);
    return status;
}

static void entry_free(struct stored_constraint *entry) {
    lazy_memory_free(&entry->memory);
    free((void *)(uintptr_t)entry->text.data);
    free(entry);
}

static bool constraint_store_is_done(const struct stored_constraint *entry) {
    return atomic_load(&entry->state) >= COMPILED;
}

static struct stored_constraint *constraint_store_take_out(struct constraint_store *store,
                                                           const struct stored_constraint *which) {
    struct stored_constraint **at = &store->entries;
    while (*at != which)
        at = &(*at)->next;
    struct stored_constraint *entry = *at;
    *at = entry->next;
    store->counts.kept--;
    return entry;
}

/* The number of constraints of one kind, and their size. */
struct share {
    uint32_t count;
    size_t bytes;
};

static bool constraint_store_is_idle(const struct stored_constraint *entry) {
    return !entry->loans && atomic_load(&entry->state) != IN_WORK;
}

/* The share of one client, or of all clients (NULL): idle or lent constraints. */
static struct share constraint_store_share_of(const struct constraint_store *store,
                                              const uint64_t *client, bool idle) {
    struct share share = {0};
    for (const struct stored_constraint *entry = store->entries; entry; entry = entry->next) {
        if (client && entry->client != *client) continue;
        if (idle ? !constraint_store_is_idle(entry) : entry->loans == 0) continue;
        share.count++;
        if (constraint_store_is_done(entry)) share.bytes += entry->memory.bytes;
    }
    return share;
}

static bool has_more(struct share a, struct share b) {
    return a.count * (IDLE_BYTES_MAX / IDLE_MAX) + a.bytes >
           b.count * (IDLE_BYTES_MAX / IDLE_MAX) + b.bytes;
}

/* The least recently requested constraint of the client with the most idle ones. */
static const struct stored_constraint *choose_idle(const struct constraint_store *store) {
    const struct stored_constraint *chosen = NULL;
    struct share most = {0};
    for (const struct stored_constraint *entry = store->entries; entry; entry = entry->next) {
        if (!constraint_store_is_idle(entry)) continue;
        bool same = chosen && chosen->client == entry->client;
        struct share has = same ? most : constraint_store_share_of(store, &entry->client, true);
        if (same ? entry->asked > chosen->asked : chosen && !has_more(has, most)) continue;
        chosen = entry;
        most = has;
    }
    return chosen;
}

/* Without a loan an entry that is not compiled, or has failed, is dropped: it may succeed later. A
 * compiled one is kept while there is room. */
static void drop_idle(struct constraint_store *store) {
    struct stored_constraint *next;
    for (struct stored_constraint *entry = store->entries; entry; entry = next) {
        next = entry->next;
        if (constraint_store_is_idle(entry) && atomic_load(&entry->state) != COMPILED)
            entry_free(constraint_store_take_out(store, entry));
    }
    struct share idle = constraint_store_share_of(store, NULL, true);
    while (idle.count > IDLE_MAX || idle.bytes > IDLE_BYTES_MAX) {
        entry_free(constraint_store_take_out(store, choose_idle(store)));
        idle = constraint_store_share_of(store, NULL, true);
    }
}

/* The gateway has compiled the constraint before, so a failure here is rare and logged. */
static void constraint_store_work_on(struct constraint_store *store,
                                     struct stored_constraint *entry) {
    struct error error = {""};
    uint64_t client = entry->client;
    atomic_store(&entry->state, IN_WORK);
    pthread_mutex_unlock(&store->lock);
    int64_t began_ns = clock_now_ns();
    bool fails = constraint_store_compile(store, entry, &error) != STATUS_OK;
    int64_t took_ns = clock_now_ns() - began_ns;
    if (fails) log_say(LOG_WARNING, "engine", "a constraint cannot be held why=%s", error.text);
    pthread_mutex_lock(&store->lock);
    share_time_spend(&store->turns, client, took_ns);
    atomic_store(&entry->state, fails ? FAILED : COMPILED);
    store->counts.compiled += !fails;
    store->counts.failed += fails;
    drop_idle(store);
    pthread_mutex_unlock(&store->lock);
    store->options.compiled(store->options.context);
    pthread_mutex_lock(&store->lock);
}

static bool constraint_store_has_room(const struct constraint_store *store, uint64_t client,
                                      size_t lent_bytes) {
    size_t most = store->options.bytes_max ? store->options.bytes_max : LENT_BYTES_MAX;
    size_t left = most > lent_bytes ? most - lent_bytes : 0;
    return lent_bytes == 0 ||
           fair_queue_admits(EXPECTED_BYTES, constraint_store_share_of(store, &client, false).bytes,
                             left);
}

/* The next constraint to compile: that of the client with the smallest turn, its oldest first.
 * NULL: none waits, or there is no room until a loan ends. */
static struct stored_constraint *first_waiting(const struct constraint_store *store) {
    struct stored_constraint *first = NULL;
    size_t lent_bytes = constraint_store_share_of(store, NULL, false).bytes;
    uint64_t least = 0;
    for (struct stored_constraint *entry = store->entries; entry; entry = entry->next) {
        if (atomic_load(&entry->state) != WAITS) continue;
        uint64_t turn = share_time_turn(&store->turns, entry->client);
        if ((first && turn >= least) ||
            !constraint_store_has_room(store, entry->client, lent_bytes))
            continue;
        first = entry;
        least = turn;
    }
    return first;
}

static void *constraint_store_work(void *argument) {
    struct constraint_store *store = argument;
    pthread_mutex_lock(&store->lock);
    while (!store->is_closing) {
        struct stored_constraint *entry = first_waiting(store);
        if (entry)
            constraint_store_work_on(store, entry);
        else
            pthread_cond_wait(&store->asked, &store->lock);
    }
    pthread_mutex_unlock(&store->lock);
    return NULL;
}

/* ---- loans ---- */

static bool is_running(struct constraint_store *store) {
    if (store->is_running) return true;
    if (pthread_create(&store->thread, NULL, constraint_store_work, store) != 0) return false;
    pthread_setname_np(store->thread, "constraints");
    return store->is_running = true;
}

static struct stored_constraint *find(const struct constraint_store *store, uint64_t hash,
                                      struct bytes text) {
    for (struct stored_constraint *entry = store->entries; entry; entry = entry->next)
        if (entry->hash == hash && entry->text.count == text.count &&
            memcmp(entry->text.data, text.data, text.count) == 0)
            return entry;
    return NULL;
}

static struct stored_constraint *add(struct constraint_store *store, uint64_t hash,
                                     struct bytes text, uint64_t client) {
    struct stored_constraint *entry = calloc(1, sizeof *entry), **last = &store->entries;
    char *copy = malloc(text.count);
    if (!entry || !copy) {
        free(entry);
        free(copy);
        return NULL;
    }
    memcpy(copy, text.data, text.count);
    entry->hash = hash;
    entry->client = client;
    entry->text = (struct bytes){copy, text.count};
    while (*last)
        last = &(*last)->next;
    *last = entry;
    store->counts.kept++;
    pthread_cond_signal(&store->asked);
    return entry;
}

/* A constraint that several clients want is compiled in the earliest of their turns. */
static void constraint_store_ask_for(const struct constraint_store *store,
                                     struct stored_constraint *entry, uint64_t client) {
    const struct share_time *turns = &store->turns;
    if (atomic_load(&entry->state) == WAITS &&
        share_time_turn(turns, client) < share_time_turn(turns, entry->client))
        entry->client = client;
}

static struct constrained_loan *lend(struct constraint_store *store, struct bytes text,
                                     uint64_t client) {
    struct constrained_loan *loan = store->loans;
    uint64_t hash = checksum_of(text.data, text.count);
    while (loan < store->loans + store->options.loans_max && loan->entry)
        loan++;
    if (loan == store->loans + store->options.loans_max || !is_running(store)) return NULL;
    struct stored_constraint *entry = find(store, hash, text);
    store->counts.found += entry != NULL;
    if (entry)
        constraint_store_ask_for(store, entry, client);
    else
        entry = add(store, hash, text, client);
    if (!entry) return NULL;
    entry->loans++;
    entry->asked = ++store->ask_count;
    loan->entry = entry;
    loan->store = store;
    return loan;
}

static struct constrained_loan *constraint_store_ask(void *context, struct bytes text,
                                                     uint64_t client) {
    struct constraint_store *store = context;
    pthread_mutex_lock(&store->lock);
    struct constrained_loan *loan = lend(store, text, client);
    pthread_mutex_unlock(&store->lock);
    return loan;
}

bool constraint_store_is_ready(const struct constrained_loan *loan) {
    return constraint_store_is_done(loan->entry);
}

struct constraint_turn *constraint_store_turn(struct constrained_loan *loan) {
    return &loan->entry->turn;
}

/* Memory for the state of an answer; a free matcher is reused first. */
static struct lazy_memory constraint_store_take_memory(struct constraint_store *store) {
    struct lazy_memory memory = {.start = NULL};
    pthread_mutex_lock(&store->lock);
    if (store->idle_matcher_count) memory = store->idle_matchers[--store->idle_matcher_count];
    pthread_mutex_unlock(&store->lock);
    return memory.start ? memory : lazy_memory_take(MATCHER_BYTES);
}

static bool constraint_store_ready(void *context, struct constrained_loan *loan,
                                   const struct constraint **constraint_out,
                                   struct matcher **matcher_out) {
    struct constraint_store *store = context;
    struct stored_constraint *entry = loan->entry;
    struct arena arena;
    if (!constraint_store_is_done(entry)) return false;
    *constraint_out = NULL;
    *matcher_out = NULL;
    if (atomic_load(&entry->state) == FAILED) return true;
    if (!loan->memory.start) loan->memory = constraint_store_take_memory(store);
    if (!loan->memory.start) return true;
    arena_over(&arena, loan->memory.start, loan->memory.bytes);
    if (!loan->matcher && matcher_open(&arena, entry->grammar, &loan->matcher) != STATUS_OK)
        return true;
    *constraint_out = entry->constraint;
    *matcher_out = loan->matcher;
    return true;
}

static void constraint_store_give_back(void *context, struct constrained_loan *loan) {
    struct constraint_store *store = context;
    pthread_mutex_lock(&store->lock);
    if (loan->memory.start && store->idle_matcher_count < MATCHERS_IDLE_MAX)
        store->idle_matchers[store->idle_matcher_count++] = loan->memory;
    else
        lazy_memory_free(&loan->memory);
    loan->entry->loans--;
    *loan = (struct constrained_loan){.entry = NULL};
    drop_idle(store);
    pthread_cond_signal(&store->asked); /* there may be room again */
    pthread_mutex_unlock(&store->lock);
}

struct constrained_lender constraint_store_lender(struct constraint_store *store) {
    return (struct constrained_lender){store, constraint_store_ask, constraint_store_ready,
                                       constraint_store_give_back};
}

struct constraint_store_counts constraint_store_get_counts(struct constraint_store *store) {
    pthread_mutex_lock(&store->lock);
    struct constraint_store_counts counts = store->counts;
    counts.lent_bytes = constraint_store_share_of(store, NULL, false).bytes;
    pthread_mutex_unlock(&store->lock);
    return counts;
}

/* ---- opening ---- */

enum status constraint_store_open(const struct constraint_store_options *options,
                                  struct constraint_store **store_out, struct error *error) {
    struct constraint_store *store = calloc(1, sizeof *store);
    struct constrained_loan *loans = calloc(options->loans_max, sizeof *loans);
    char *directory = strdup(options->directory);
    if (!store || !loans || !directory) {
        free(store);
        free(loans);
        free(directory);
        return error_set(error, STATUS_NO_MEMORY, "no memory for constraints");
    }
    store->options = *options;
    store->options.directory = directory;
    store->loans = loans;
    pthread_mutex_init(&store->lock, NULL);
    pthread_cond_init(&store->asked, NULL);
    *store_out = store;
    return STATUS_OK;
}

void constraint_store_close(struct constraint_store *store) {
    if (!store) return;
    pthread_mutex_lock(&store->lock);
    store->is_closing = true;
    pthread_cond_signal(&store->asked);
    pthread_mutex_unlock(&store->lock);
    if (store->is_running) pthread_join(store->thread, NULL);
    while (store->entries)
        entry_free(constraint_store_take_out(store, store->entries));
    while (store->idle_matcher_count)
        lazy_memory_free(&store->idle_matchers[--store->idle_matcher_count]);
    model_text_close(&store->text);
    lazy_memory_free(&store->trie_memory);
    pthread_cond_destroy(&store->asked);
    pthread_mutex_destroy(&store->lock);
    free((void *)(uintptr_t)store->options.directory);
    free(store->loans);
    free(store);
}
