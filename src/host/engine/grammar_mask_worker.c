/* SPDX-License-Identifier: Apache-2.0
 * Each constrained answer has a seat: an index among the rows of serving/constraint, a mask, and
 * possibly a waiting or running job. The engine uses a seat only while it has no job, so only one
 * thread at a time advances an answer. The turn of a grammar ensures the same for grammars. If a
 * slot's answer ends while a thread works for it, the slot abandons the seat, and the thread clears
 * it. A slot that starts a new answer takes a new seat before it leaves the old one, so that its
 * constraint stays loaded. Therefore there is one seat more than slots and threads.
 *
 * One lock protects all of this. It is never held while a mask is computed. The store's lock may be
 * taken while it is held.
 */
#include "host/engine/grammar_mask_worker.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/check.h"
#include "base/clock.h"
#include "host/engine/constraint_store.h"
#include "host/process/lazy_memory.h"
#include "host/process/timed_wait.h"

#define THREADS 2
#define SLOW_NS 1000000 /* cost of a slow mask; many other masks fit into that time of a step */
#define NO_WORKER_SLOT UINT32_MAX

enum worker_slot_state {
    WORKER_SLOT_FREE,
    WORKER_SLOT_RESTS,
    WORKER_SLOT_WAITS,
    WORKER_SLOT_IN_WORK
};

struct worker_slot {
    enum worker_slot_state state;
    bool is_left;                /* its slot's answer has ended while a thread works on the seat */
    enum engine_mask_want want;  /* of the job; without a job, of the last one */
    bool wants_mask_next;        /* after the current job */
    bool has_mask, has_forced;   /* the mask or the forced tokens are ready */
    bool is_late, late_reported; /* its row waits for the mask; the unit knows that it is ready */
    enum constrained_mask outcome;
    uint32_t forced_count, forced[LIMIT_FORCED];
};

/* A constraint that arrived before its slot's first row. */
struct ahead {
    struct constrained_loan *loan; /* NULL: none */
    bool is_wanted;                /* a request waits for it */
    bool is_reported;              /* the unit knows that it is ready */
};

struct grammar_mask_worker {
    struct grammar_mask_worker_options options;
    struct constraint_store *store;
    struct constrained_rows *rows; /* by seats */
    struct lazy_memory rows_memory, mask_memory;
    pthread_mutex_t lock;
    pthread_cond_t waits, done;
    pthread_t threads[THREADS];
    uint32_t thread_count;
    bool is_closing;
    struct worker_slot *seats; /* [worker_slot_count] */
    uint32_t worker_slot_count;
    uint32_t *worker_slot_of;           /* [slots] or NO_WORKER_SLOT */
    struct ahead *ahead;                /* [slots] */
    uint32_t *waiting;                  /* [worker_slot_count] seats, first come first */
    uint32_t waiting_count, slow_count; /* slow: jobs running */
    int64_t wait_left_ns;               /* rest of this step's wait */
    struct grammar_mask_worker_counts counts;
};

static size_t mask_words(const struct grammar_mask_worker *grammar_mask_worker) {
    return divide_up(grammar_mask_worker->options.vocab, 64);
}

static uint64_t *mask_of(const struct grammar_mask_worker *grammar_mask_worker,
                         uint32_t worker_slot) {
    return (uint64_t *)grammar_mask_worker->mask_memory.start +
           worker_slot * mask_words(grammar_mask_worker);
}

/* ---- jobs ---- */

static void put_job(struct grammar_mask_worker *grammar_mask_worker, uint32_t worker_slot,
                    enum engine_mask_want want) {
    struct worker_slot *it = &grammar_mask_worker->seats[worker_slot];
    it->want = want;
    it->state = WORKER_SLOT_WAITS;
    grammar_mask_worker->waiting[grammar_mask_worker->waiting_count++] = worker_slot;
    pthread_cond_broadcast(&grammar_mask_worker->waits);
}

static void grammar_mask_worker_take_out(struct grammar_mask_worker *grammar_mask_worker,
                                         uint32_t place) {
    grammar_mask_worker->waiting_count--;
    for (uint32_t i = place; i < grammar_mask_worker->waiting_count; i++)
        grammar_mask_worker->waiting[i] = grammar_mask_worker->waiting[i + 1];
}

/* The cost of a mask of the slot's constraint; negative: its grammar is in use. */
static int64_t grammar_mask_worker_cost_of(const struct grammar_mask_worker *grammar_mask_worker,
                                           uint32_t worker_slot) {
    struct constrained_loan *loan = constrained_rows_loan(grammar_mask_worker->rows, worker_slot);
    if (!loan) return 0; /* a stuck answer is processed quickly */
    if (!constraint_store_is_ready(loan)) return -1;
    const struct constraint_turn *turn = constraint_store_turn(loan);
    bool must_wait =
        turn->is_taken || (turn->cost_ns >= SLOW_NS && grammar_mask_worker->slow_count);
    return must_wait ? -1 : turn->cost_ns;
}

/* Takes the cheapest job that can run now, or returns NO_WORKER_SLOT. */
static uint32_t take_job(struct grammar_mask_worker *grammar_mask_worker) {
    uint32_t best = NO_WORKER_SLOT;
    int64_t least = INT64_MAX;
    for (uint32_t i = 0; i < grammar_mask_worker->waiting_count; i++) {
        int64_t cost =
            grammar_mask_worker_cost_of(grammar_mask_worker, grammar_mask_worker->waiting[i]);
        if (cost < 0 || cost >= least) continue;
        best = i;
        least = cost;
    }
    if (best == NO_WORKER_SLOT) return NO_WORKER_SLOT;
    uint32_t worker_slot = grammar_mask_worker->waiting[best];
    grammar_mask_worker_take_out(grammar_mask_worker, best);
    return worker_slot;
}

static void free_worker_slot(struct grammar_mask_worker *grammar_mask_worker,
                             uint32_t worker_slot) {
    constrained_rows_end(grammar_mask_worker->rows, worker_slot);
    grammar_mask_worker->seats[worker_slot] = (struct worker_slot){.state = WORKER_SLOT_FREE};
}

static void grammar_mask_worker_end_job(struct grammar_mask_worker *grammar_mask_worker,
                                        uint32_t worker_slot) {
    struct worker_slot *it = &grammar_mask_worker->seats[worker_slot];
    bool again = it->wants_mask_next;
    it->state = WORKER_SLOT_RESTS;
    it->wants_mask_next = false;
    if (it->is_left)
        free_worker_slot(grammar_mask_worker, worker_slot);
    else if (again)
        put_job(grammar_mask_worker, worker_slot, ENGINE_WANTS_MASK);
}

/* Called without the lock: the seat and its grammar belong to this thread. */
static void do_job(struct grammar_mask_worker *grammar_mask_worker, uint32_t worker_slot) {
    struct worker_slot *it = &grammar_mask_worker->seats[worker_slot];
    if (it->want == ENGINE_WANTS_MASK)
        it->outcome = constrained_rows_mask(grammar_mask_worker->rows, worker_slot,
                                            mask_of(grammar_mask_worker, worker_slot));
    else
        it->forced_count = constrained_rows_forced(grammar_mask_worker->rows, worker_slot,
                                                   LIMIT_FORCED, it->forced);
}

/* CPU time of this thread, so that other work on a busy machine makes no constraint slow. */
static int64_t spent_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* A recently slow constraint counts as slow for some more masks. */
static int64_t cost_now(int64_t before_ns, int64_t ns) {
    int64_t faded_ns = before_ns - before_ns / 8;
    return ns > faded_ns ? ns : faded_ns;
}

static void grammar_mask_worker_work_on(struct grammar_mask_worker *grammar_mask_worker,
                                        uint32_t worker_slot) {
    struct constraint_turn nobodys = {.is_taken = false}; /* for an answer without a constraint */
    struct worker_slot *it = &grammar_mask_worker->seats[worker_slot];
    struct constrained_loan *loan = constrained_rows_loan(grammar_mask_worker->rows, worker_slot);
    struct constraint_turn *turn = loan ? constraint_store_turn(loan) : &nobodys;
    bool is_slow = turn->cost_ns >= SLOW_NS;
    it->state = WORKER_SLOT_IN_WORK;
    turn->is_taken = true;
    grammar_mask_worker->slow_count += is_slow;
    pthread_mutex_unlock(&grammar_mask_worker->lock);
    int64_t began_ns = spent_ns();
    do_job(grammar_mask_worker, worker_slot);
    int64_t ns = spent_ns() - began_ns;
    pthread_mutex_lock(&grammar_mask_worker->lock);
    grammar_mask_worker->slow_count -= is_slow;
    turn->is_taken = false;
    if (it->want == ENGINE_WANTS_MASK) {
        turn->cost_ns = cost_now(turn->cost_ns, ns);
        grammar_mask_worker->counts.masks++;
        grammar_mask_worker->counts.mask_ns += (uint64_t)ns;
        it->has_mask = true;
    } else {
        it->has_forced = true;
    }
    grammar_mask_worker_end_job(grammar_mask_worker, worker_slot);
    pthread_cond_broadcast(&grammar_mask_worker->waits); /* the turn is free */
    pthread_cond_broadcast(&grammar_mask_worker->done);
}

static void *grammar_mask_worker_work(void *argument) {
    struct grammar_mask_worker *grammar_mask_worker = argument;
    pthread_mutex_lock(&grammar_mask_worker->lock);
    while (!grammar_mask_worker->is_closing) {
        uint32_t worker_slot = take_job(grammar_mask_worker);
        if (worker_slot != NO_WORKER_SLOT)
            grammar_mask_worker_work_on(grammar_mask_worker, worker_slot);
        else
            pthread_cond_wait(&grammar_mask_worker->waits, &grammar_mask_worker->lock);
    }
    pthread_mutex_unlock(&grammar_mask_worker->lock);
    return NULL;
}

/* Called on the store's thread. */
static void see_compiled(void *context) {
    struct grammar_mask_worker *grammar_mask_worker = context;
    pthread_mutex_lock(&grammar_mask_worker->lock);
    pthread_cond_broadcast(&grammar_mask_worker->waits);
    pthread_cond_broadcast(&grammar_mask_worker->done);
    pthread_mutex_unlock(&grammar_mask_worker->lock);
}

/* ---- the engine's side ---- */

/* Ends the slot's last answer. */
static void leave_worker_slot(struct grammar_mask_worker *grammar_mask_worker, uint32_t slot) {
    uint32_t worker_slot = grammar_mask_worker->worker_slot_of[slot];
    if (worker_slot == NO_WORKER_SLOT) return;
    grammar_mask_worker->worker_slot_of[slot] = NO_WORKER_SLOT;
    if (grammar_mask_worker->seats[worker_slot].state == WORKER_SLOT_IN_WORK) {
        grammar_mask_worker->seats[worker_slot].is_left = true;
        return;
    }
    for (uint32_t i = grammar_mask_worker->waiting_count; i-- > 0;)
        if (grammar_mask_worker->waiting[i] == worker_slot)
            grammar_mask_worker_take_out(grammar_mask_worker, i);
    free_worker_slot(grammar_mask_worker, worker_slot);
}

static void take_worker_slot(struct grammar_mask_worker *grammar_mask_worker,
                             const struct step_plan *plan, const struct step_constraint *from,
                             uint32_t slot) {
    uint32_t worker_slot = 0;
    while (worker_slot < grammar_mask_worker->worker_slot_count &&
           grammar_mask_worker->seats[worker_slot].state != WORKER_SLOT_FREE)
        worker_slot++;
    check(worker_slot < grammar_mask_worker->worker_slot_count);
    grammar_mask_worker->seats[worker_slot].state = WORKER_SLOT_RESTS;
    grammar_mask_worker->worker_slot_of[slot] = worker_slot;
    constrained_rows_begin(grammar_mask_worker->rows, worker_slot, plan, from);
}

static void drop_ahead(struct grammar_mask_worker *grammar_mask_worker, uint32_t slot) {
    struct constrained_lender lender = constraint_store_lender(grammar_mask_worker->store);
    struct ahead *ahead = &grammar_mask_worker->ahead[slot];
    if (ahead->loan) lender.give_back(lender.context, ahead->loan);
    *ahead = (struct ahead){.loan = NULL};
}

/* A constraint that cannot be lent counts as ready, too: its row becomes stuck. */
static void take_ahead(struct grammar_mask_worker *grammar_mask_worker,
                       const struct step_plan *plan, const struct step_constraint *from) {
    struct constrained_lender lender = constraint_store_lender(grammar_mask_worker->store);
    struct bytes text = {step_plan_constraint_texts(plan) + from->text_index, from->text_bytes};
    struct constrained_loan *loan = NULL;
    check(from->slot < grammar_mask_worker->options.slots);
    if (text.count) loan = lender.ask(lender.context, text, constrained_rows_client(from));
    drop_ahead(grammar_mask_worker, from->slot);
    leave_worker_slot(grammar_mask_worker, from->slot);
    grammar_mask_worker->ahead[from->slot] =
        (struct ahead){.loan = loan, .is_wanted = text.count > 0};
}

/* The earlier loan is returned after the slot has its own, which therefore finds the constraint. */
static void begin_row(struct grammar_mask_worker *grammar_mask_worker, const struct step_plan *plan,
                      const struct step_row *row, const struct step_constraint *from) {
    uint32_t before = grammar_mask_worker->worker_slot_of[row->slot];
    grammar_mask_worker->worker_slot_of[row->slot] = NO_WORKER_SLOT;
    if (from) take_worker_slot(grammar_mask_worker, plan, from, row->slot);
    uint32_t after = grammar_mask_worker->worker_slot_of[row->slot];
    grammar_mask_worker->worker_slot_of[row->slot] = before;
    leave_worker_slot(grammar_mask_worker, row->slot);
    grammar_mask_worker->worker_slot_of[row->slot] = after;
    drop_ahead(grammar_mask_worker, row->slot);
}

/* A mask that was late for the last step is still valid, because no token was sampled since. */
static void want_mask(struct grammar_mask_worker *grammar_mask_worker, uint32_t worker_slot) {
    struct worker_slot *it = &grammar_mask_worker->seats[worker_slot];
    if (it->state == WORKER_SLOT_RESTS && !it->has_mask)
        put_job(grammar_mask_worker, worker_slot, ENGINE_WANTS_MASK);
    if (it->state == WORKER_SLOT_WAITS) it->want = ENGINE_WANTS_MASK;
    if (it->state == WORKER_SLOT_IN_WORK) it->wants_mask_next = it->want != ENGINE_WANTS_MASK;
}

static void start(struct grammar_mask_worker *grammar_mask_worker) {
    while (grammar_mask_worker->thread_count < THREADS &&
           pthread_create(&grammar_mask_worker->threads[grammar_mask_worker->thread_count], NULL,
                          grammar_mask_worker_work, grammar_mask_worker) == 0)
        pthread_setname_np(grammar_mask_worker->threads[grammar_mask_worker->thread_count++],
                           "masks");
}

static void begin(void *context, const struct step_plan *plan) {
    struct grammar_mask_worker *grammar_mask_worker = context;
    const struct step_constraint *next = step_plan_row_constraints(plan);
    if (grammar_mask_worker->thread_count == 0 && plan->constraint_count == 0) return;
    pthread_mutex_lock(&grammar_mask_worker->lock);
    start(grammar_mask_worker);
    grammar_mask_worker->wait_left_ns = grammar_mask_worker->options.wait_ns_max;
    for (const struct step_constraint *it = step_plan_constraints(plan); it < next; it++)
        take_ahead(grammar_mask_worker, plan, it);
    for (uint32_t i = 0; i < plan->row_count; i++) {
        const struct step_row *row = &step_plan_rows(plan)[i];
        check(row->slot < grammar_mask_worker->options.slots);
        if (row->fresh) begin_row(grammar_mask_worker, plan, row, row->constrained ? next++ : NULL);
        uint32_t worker_slot = grammar_mask_worker->worker_slot_of[row->slot];
        if (worker_slot != NO_WORKER_SLOT) grammar_mask_worker->seats[worker_slot].is_late = false;
        if (row->constrained && row->sample && worker_slot != NO_WORKER_SLOT)
            want_mask(grammar_mask_worker, worker_slot);
    }
    pthread_mutex_unlock(&grammar_mask_worker->lock);
}

/* Waits until *is_there is set, or until the step's time limit. */
static void grammar_mask_worker_wait_for(struct grammar_mask_worker *grammar_mask_worker,
                                         const bool *is_there) {
    int64_t began_ns = clock_now_ns(), until_ns = began_ns + grammar_mask_worker->wait_left_ns;
    const struct timespec until = {until_ns / 1000000000, until_ns % 1000000000};
    if (*is_there) return;
    while (!*is_there && pthread_cond_timedwait(&grammar_mask_worker->done,
                                                &grammar_mask_worker->lock, &until) == 0) {
    }
    grammar_mask_worker->wait_left_ns -= clock_now_ns() - began_ns;
    if (grammar_mask_worker->wait_left_ns < 0) grammar_mask_worker->wait_left_ns = 0;
}

static enum engine_mask grammar_mask_worker_await(void *context, uint32_t slot,
                                                  const uint64_t **mask_out) {
    static const enum engine_mask outcomes[] = {[CONSTRAINED_MASK_FREE] = ENGINE_MASK_FREE,
                                                [CONSTRAINED_MASK_SET] = ENGINE_MASK_SET,
                                                [CONSTRAINED_MASK_LATE] = ENGINE_MASK_LATE,
                                                [CONSTRAINED_MASK_STUCK] = ENGINE_MASK_STUCK};
    struct grammar_mask_worker *grammar_mask_worker = context;
    enum engine_mask outcome = ENGINE_MASK_STUCK;
    pthread_mutex_lock(&grammar_mask_worker->lock);
    uint32_t worker_slot = grammar_mask_worker->worker_slot_of[slot];
    if (worker_slot != NO_WORKER_SLOT && grammar_mask_worker->thread_count) {
        struct worker_slot *it = &grammar_mask_worker->seats[worker_slot];
        grammar_mask_worker_wait_for(grammar_mask_worker, &it->has_mask);
        outcome = it->has_mask ? outcomes[it->outcome] : ENGINE_MASK_LATE;
        it->is_late = outcome == ENGINE_MASK_LATE;
        it->late_reported = false;
        grammar_mask_worker->counts.late += it->is_late;
        *mask_out = mask_of(grammar_mask_worker, worker_slot);
    }
    pthread_mutex_unlock(&grammar_mask_worker->lock);
    return outcome;
}

/* Ends the job of a seat with its mask. */
static void push_to(struct grammar_mask_worker *grammar_mask_worker, uint32_t worker_slot,
                    uint32_t token) {
    struct worker_slot *it = &grammar_mask_worker->seats[worker_slot];
    check(it->state == WORKER_SLOT_RESTS);
    constrained_rows_push(grammar_mask_worker->rows, worker_slot, token);
    it->has_mask = it->has_forced = false;
}

static void push(void *context, uint32_t slot, uint32_t token, enum engine_mask_want want) {
    struct grammar_mask_worker *grammar_mask_worker = context;
    pthread_mutex_lock(&grammar_mask_worker->lock);
    uint32_t worker_slot = grammar_mask_worker->worker_slot_of[slot];
    push_to(grammar_mask_worker, worker_slot, token);
    grammar_mask_worker->seats[worker_slot].want = want;
    if (want != ENGINE_WANTS_NOTHING) put_job(grammar_mask_worker, worker_slot, want);
    pthread_mutex_unlock(&grammar_mask_worker->lock);
}

static uint32_t take_forced(void *context, uint32_t slot, uint32_t *tokens_out) {
    struct grammar_mask_worker *grammar_mask_worker = context;
    uint32_t count = 0;
    pthread_mutex_lock(&grammar_mask_worker->lock);
    uint32_t worker_slot = grammar_mask_worker->worker_slot_of[slot];
    struct worker_slot *it = &grammar_mask_worker->seats[worker_slot];
    if (it->want == ENGINE_WANTS_FORCED)
        grammar_mask_worker_wait_for(grammar_mask_worker, &it->has_forced);
    for (; it->has_forced && count < it->forced_count; count++) {
        tokens_out[count] = it->forced[count];
        constrained_rows_push(grammar_mask_worker->rows, worker_slot, tokens_out[count]);
    }
    it->has_forced = false;
    grammar_mask_worker->counts.forced += count;
    pthread_mutex_unlock(&grammar_mask_worker->lock);
    return count;
}

static bool is_ready_ahead(const struct ahead *ahead) {
    return !ahead->loan || constraint_store_is_ready(ahead->loan);
}

static bool is_ready_late(const struct worker_slot *worker_slot) {
    return worker_slot->is_late && worker_slot->has_mask;
}

/* True if something is ready that was not reported before, or if nothing is waited for. */
static bool grammar_mask_worker_has_changes(const struct grammar_mask_worker *grammar_mask_worker) {
    bool waits = false;
    for (uint32_t slot = 0; slot < grammar_mask_worker->options.slots; slot++) {
        const struct ahead *ahead = &grammar_mask_worker->ahead[slot];
        uint32_t worker_slot = grammar_mask_worker->worker_slot_of[slot];
        if (ahead->is_wanted && !ahead->is_reported && is_ready_ahead(ahead)) return true;
        if (worker_slot != NO_WORKER_SLOT &&
            is_ready_late(&grammar_mask_worker->seats[worker_slot]) &&
            !grammar_mask_worker->seats[worker_slot].late_reported)
            return true;
        waits |= ahead->is_wanted && !ahead->is_reported;
        waits |= worker_slot != NO_WORKER_SLOT && grammar_mask_worker->seats[worker_slot].is_late &&
                 !grammar_mask_worker->seats[worker_slot].has_mask;
    }
    return !waits;
}

static void wait_for_changes(struct grammar_mask_worker *grammar_mask_worker) {
    const struct timespec until = timed_wait_deadline(GRAMMAR_MASK_WORKER_IDLE_NS);
    while (!grammar_mask_worker_has_changes(grammar_mask_worker) &&
           pthread_cond_timedwait(&grammar_mask_worker->done, &grammar_mask_worker->lock, &until) ==
               0) {
    }
}

static uint32_t take_ready(void *context, bool waits, uint32_t *slots_out) {
    struct grammar_mask_worker *grammar_mask_worker = context;
    uint32_t count = 0;
    if (grammar_mask_worker->thread_count == 0) return 0;
    pthread_mutex_lock(&grammar_mask_worker->lock);
    if (waits) wait_for_changes(grammar_mask_worker);
    for (uint32_t slot = 0; slot < grammar_mask_worker->options.slots; slot++) {
        struct ahead *ahead = &grammar_mask_worker->ahead[slot];
        uint32_t worker_slot = grammar_mask_worker->worker_slot_of[slot];
        bool ahead_is_ready = ahead->is_wanted && is_ready_ahead(ahead);
        bool late_is_ready = worker_slot != NO_WORKER_SLOT &&
                             is_ready_late(&grammar_mask_worker->seats[worker_slot]);
        if (ahead_is_ready) ahead->is_reported = true;
        if (late_is_ready) grammar_mask_worker->seats[worker_slot].late_reported = true;
        if (ahead_is_ready || late_is_ready) slots_out[count++] = slot;
    }
    pthread_mutex_unlock(&grammar_mask_worker->lock);
    return count;
}

struct engine_masks grammar_mask_worker_masks(struct grammar_mask_worker *grammar_mask_worker) {
    return (struct engine_masks){grammar_mask_worker, begin,     grammar_mask_worker_await, push,
                                 take_forced,         take_ready};
}

struct grammar_mask_worker_counts
grammar_mask_worker_get_counts(struct grammar_mask_worker *grammar_mask_worker) {
    pthread_mutex_lock(&grammar_mask_worker->lock);
    struct grammar_mask_worker_counts counts = grammar_mask_worker->counts;
    pthread_mutex_unlock(&grammar_mask_worker->lock);
    struct constraint_store_counts store = constraint_store_get_counts(grammar_mask_worker->store);
    counts.compiled = store.compiled;
    counts.found = store.found;
    return counts;
}

/* ---- opening ---- */

static enum status grammar_mask_worker_take_memory(struct grammar_mask_worker *grammar_mask_worker,
                                                   struct error *error) {
    const struct grammar_mask_worker_options *options = &grammar_mask_worker->options;
    struct constraint_store_options store = {.directory = options->directory,
                                             .vocab = options->vocab,
                                             .loans_max = grammar_mask_worker->worker_slot_count +
                                                          options->slots,
                                             .context = grammar_mask_worker,
                                             .compiled = see_compiled};
    size_t bytes =
        constrained_rows_bytes(grammar_mask_worker->worker_slot_count, options->context_tokens_max);
    struct arena arena;
    grammar_mask_worker->rows_memory = lazy_memory_take(bytes);
    grammar_mask_worker->mask_memory =
        lazy_memory_take(grammar_mask_worker->worker_slot_count * mask_words(grammar_mask_worker) *
                         sizeof(uint64_t));
    grammar_mask_worker->seats =
        calloc(grammar_mask_worker->worker_slot_count, sizeof *grammar_mask_worker->seats);
    grammar_mask_worker->waiting =
        calloc(grammar_mask_worker->worker_slot_count, sizeof *grammar_mask_worker->waiting);
    grammar_mask_worker->worker_slot_of =
        malloc(options->slots * sizeof *grammar_mask_worker->worker_slot_of);
    grammar_mask_worker->ahead = calloc(options->slots, sizeof *grammar_mask_worker->ahead);
    if (!grammar_mask_worker->rows_memory.start || !grammar_mask_worker->mask_memory.start ||
        !grammar_mask_worker->seats || !grammar_mask_worker->waiting ||
        !grammar_mask_worker->worker_slot_of || !grammar_mask_worker->ahead)
        return error_set(error, STATUS_NO_MEMORY, "no memory for the masks of %u answers",
                         options->slots);
    for (uint32_t i = 0; i < options->slots; i++)
        grammar_mask_worker->worker_slot_of[i] = NO_WORKER_SLOT;
    enum status status = constraint_store_open(&store, &grammar_mask_worker->store, error);
    if (status) return status;
    const struct constrained_lender lender = constraint_store_lender(grammar_mask_worker->store);
    arena_over(&arena, grammar_mask_worker->rows_memory.start, bytes);
    grammar_mask_worker->rows = constrained_rows_open(
        &arena, grammar_mask_worker->worker_slot_count, options->context_tokens_max, &lender);
    check(grammar_mask_worker->rows);
    return STATUS_OK;
}

static void open_lock(struct grammar_mask_worker *grammar_mask_worker) {
    pthread_mutex_init(&grammar_mask_worker->lock, NULL);
    pthread_cond_init(&grammar_mask_worker->waits, NULL);
    timed_wait_open(&grammar_mask_worker->done);
}

enum status grammar_mask_worker_open(const struct grammar_mask_worker_options *options,
                                     struct grammar_mask_worker **grammar_mask_worker_out,
                                     struct error *error) {
    struct grammar_mask_worker *grammar_mask_worker = calloc(1, sizeof *grammar_mask_worker);
    if (!grammar_mask_worker) return error_set(error, STATUS_NO_MEMORY, "no memory for masks");
    grammar_mask_worker->options = *options;
    grammar_mask_worker->worker_slot_count = options->slots + THREADS + 1;
    open_lock(grammar_mask_worker);
    enum status status = grammar_mask_worker_take_memory(grammar_mask_worker, error);
    if (status) {
        grammar_mask_worker_close(grammar_mask_worker);
        return status;
    }
    *grammar_mask_worker_out = grammar_mask_worker;
    return STATUS_OK;
}

void grammar_mask_worker_close(struct grammar_mask_worker *grammar_mask_worker) {
    if (!grammar_mask_worker) return;
    pthread_mutex_lock(&grammar_mask_worker->lock);
    grammar_mask_worker->is_closing = true;
    pthread_cond_broadcast(&grammar_mask_worker->waits);
    pthread_mutex_unlock(&grammar_mask_worker->lock);
    for (uint32_t i = 0; i < grammar_mask_worker->thread_count; i++)
        pthread_join(grammar_mask_worker->threads[i], NULL);
    for (uint32_t worker_slot = 0;
         grammar_mask_worker->rows && worker_slot < grammar_mask_worker->worker_slot_count;
         worker_slot++)
        constrained_rows_end(grammar_mask_worker->rows, worker_slot);
    for (uint32_t slot = 0; grammar_mask_worker->rows && slot < grammar_mask_worker->options.slots;
         slot++)
        drop_ahead(grammar_mask_worker, slot);
    constraint_store_close(grammar_mask_worker->store);
    lazy_memory_free(&grammar_mask_worker->rows_memory);
    lazy_memory_free(&grammar_mask_worker->mask_memory);
    pthread_cond_destroy(&grammar_mask_worker->waits);
    pthread_cond_destroy(&grammar_mask_worker->done);
    pthread_mutex_destroy(&grammar_mask_worker->lock);
    free(grammar_mask_worker->seats);
    free(grammar_mask_worker->waiting);
    free(grammar_mask_worker->worker_slot_of);
    free(grammar_mask_worker->ahead);
    free(grammar_mask_worker);
}
