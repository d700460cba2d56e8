/* SPDX-License-Identifier: Apache-2.0
 * Each constrained answer has a seat: an index among the rows of serving/constraint, a mask, and
 * perhaps a job that waits or runs. The engine touches a seat only while it has no job, so one
 * thread at a time advances an answer; likewise a grammar, by its turn. If a slot's answer ends
 * while a thread works for it, the slot abandons the seat, and that thread clears it. A slot that
 * starts over takes a seat before it leaves the last one, so that its constraint is kept: hence one
 * seat more than slots and threads.
 *
 * One lock is over all of this; it is never held while something is masked. The lock of the store
 * comes below it.
 */
#include "host/engine/masker.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/check.h"
#include "base/clock.h"
#include "host/engine/constraint_store.h"
#include "host/process/lazy_memory.h"

#define THREADS 2
#define SLOW_NS 1000000 /* a mask: in that time many answers' masks are made during a step */
#define NO_SEAT UINT32_MAX

enum seat_state { SEAT_FREE, SEAT_RESTS, SEAT_WAITS, SEAT_IN_WORK };

struct seat {
    enum seat_state state;
    bool is_left;               /* its slot's answer is over, while it is in work */
    enum engine_mask_want want; /* of the job; of a seat that rests, what it was */
    bool wants_mask_next;       /* when the job is done */
    bool has_mask, has_forced;  /* what follows is there */
    bool is_late, late_told;    /* its row waits for the mask; the unit knows that it is there */
    enum constrained_mask outcome;
    uint32_t forced_count, forced[LIMIT_FORCED];
};

/* What came ahead of a slot's first row. */
struct ahead {
    struct constrained_loan *loan; /* NULL: nothing is held */
    bool is_wanted;                /* a request waits for it */
    bool is_told;                  /* the unit knows that it is ready */
};

struct masker {
    struct masker_options options;
    struct constraint_store *store;
    struct constrained_rows *rows; /* by seats */
    struct lazy_memory rows_memory, mask_memory;
    pthread_mutex_t lock;
    pthread_cond_t waits, done;
    pthread_t threads[THREADS];
    uint32_t thread_count;
    bool is_closing;
    struct seat *seats; /* [seat_count] */
    uint32_t seat_count;
    uint32_t *seat_of;                  /* [slots] or NO_SEAT */
    struct ahead *ahead;                /* [slots] */
    uint32_t *waiting;                  /* [seat_count] seats, the first first */
    uint32_t waiting_count, slow_count; /* slow: in work */
    int64_t wait_left_ns;               /* of this step */
    struct masker_counts counts;
};

static size_t mask_words(const struct masker *masker) {
    return divide_up(masker->options.vocab, 64);
}

static uint64_t *mask_of(const struct masker *masker, uint32_t seat) {
    return (uint64_t *)masker->mask_memory.start + seat * mask_words(masker);
}

/* ---- jobs ---- */

static void put_job(struct masker *masker, uint32_t seat, enum engine_mask_want want) {
    struct seat *it = &masker->seats[seat];
    it->want = want;
    it->state = SEAT_WAITS;
    masker->waiting[masker->waiting_count++] = seat;
    pthread_cond_broadcast(&masker->waits);
}

static void take_out(struct masker *masker, uint32_t place) {
    masker->waiting_count--;
    for (uint32_t i = place; i < masker->waiting_count; i++)
        masker->waiting[i] = masker->waiting[i + 1];
}

/* What a mask of the seat's constraint costs; negative: it cannot be worked on now. */
static int64_t cost_of(const struct masker *masker, uint32_t seat) {
    struct constrained_loan *loan = constrained_rows_loan(masker->rows, seat);
    if (!loan) return 0; /* a stuck answer is found quickly */
    if (!constraint_store_is_ready(loan)) return -1;
    const struct constraint_turn *turn = constraint_store_turn(loan);
    bool must_wait = turn->is_taken || (turn->cost_ns >= SLOW_NS && masker->slow_count);
    return must_wait ? -1 : turn->cost_ns;
}

/* Takes the cheapest job that can be done now. NO_SEAT: there is none. */
static uint32_t take_job(struct masker *masker) {
    uint32_t best = NO_SEAT;
    int64_t least = INT64_MAX;
    for (uint32_t i = 0; i < masker->waiting_count; i++) {
        int64_t cost = cost_of(masker, masker->waiting[i]);
        if (cost < 0 || cost >= least) continue;
        best = i;
        least = cost;
    }
    if (best == NO_SEAT) return NO_SEAT;
    uint32_t seat = masker->waiting[best];
    take_out(masker, best);
    return seat;
}

static void free_seat(struct masker *masker, uint32_t seat) {
    constrained_rows_end(masker->rows, seat);
    masker->seats[seat] = (struct seat){.state = SEAT_FREE};
}

static void end_job(struct masker *masker, uint32_t seat) {
    struct seat *it = &masker->seats[seat];
    bool again = it->wants_mask_next;
    it->state = SEAT_RESTS;
    it->wants_mask_next = false;
    if (it->is_left)
        free_seat(masker, seat);
    else if (again)
        put_job(masker, seat, ENGINE_WANTS_MASK);
}

/* Without the lock: the seat and its grammar are this thread's. */
static void do_job(struct masker *masker, uint32_t seat) {
    struct seat *it = &masker->seats[seat];
    if (it->want == ENGINE_WANTS_MASK)
        it->outcome = constrained_rows_mask(masker->rows, seat, mask_of(masker, seat));
    else
        it->forced_count = constrained_rows_forced(masker->rows, seat, LIMIT_FORCED, it->forced);
}

/* The thread's own time: on a busy machine no constraint is slow for others' work. */
static int64_t spent_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* What was slow lately stays so for some masks. */
static int64_t cost_now(int64_t before_ns, int64_t ns) {
    int64_t faded_ns = before_ns - before_ns / 8;
    return ns > faded_ns ? ns : faded_ns;
}

static void work_on(struct masker *masker, uint32_t seat) {
    struct constraint_turn nobodys = {.is_taken = false}; /* of what is stuck at once */
    struct seat *it = &masker->seats[seat];
    struct constrained_loan *loan = constrained_rows_loan(masker->rows, seat);
    struct constraint_turn *turn = loan ? constraint_store_turn(loan) : &nobodys;
    bool is_slow = turn->cost_ns >= SLOW_NS;
    it->state = SEAT_IN_WORK;
    turn->is_taken = true;
    masker->slow_count += is_slow;
    pthread_mutex_unlock(&masker->lock);
    int64_t began_ns = spent_ns();
    do_job(masker, seat);
    int64_t ns = spent_ns() - began_ns;
    pthread_mutex_lock(&masker->lock);
    masker->slow_count -= is_slow;
    turn->is_taken = false;
    if (it->want == ENGINE_WANTS_MASK) {
        turn->cost_ns = cost_now(turn->cost_ns, ns);
        masker->counts.masks++;
        masker->counts.mask_ns += (uint64_t)ns;
        it->has_mask = true;
    } else {
        it->has_forced = true;
    }
    end_job(masker, seat);
    pthread_cond_broadcast(&masker->waits); /* for the turn */
    pthread_cond_broadcast(&masker->done);
}

static void *work(void *argument) {
    struct masker *masker = argument;
    pthread_mutex_lock(&masker->lock);
    while (!masker->is_closing) {
        uint32_t seat = take_job(masker);
        if (seat != NO_SEAT)
            work_on(masker, seat);
        else
            pthread_cond_wait(&masker->waits, &masker->lock);
    }
    pthread_mutex_unlock(&masker->lock);
    return NULL;
}

/* On the store's thread. */
static void see_compiled(void *context) {
    struct masker *masker = context;
    pthread_mutex_lock(&masker->lock);
    pthread_cond_broadcast(&masker->waits);
    pthread_cond_broadcast(&masker->done);
    pthread_mutex_unlock(&masker->lock);
}

/* ---- the engine's side ---- */

/* The slot's last answer is over. */
static void leave_seat(struct masker *masker, uint32_t slot) {
    uint32_t seat = masker->seat_of[slot];
    if (seat == NO_SEAT) return;
    masker->seat_of[slot] = NO_SEAT;
    if (masker->seats[seat].state == SEAT_IN_WORK) {
        masker->seats[seat].is_left = true;
        return;
    }
    for (uint32_t i = masker->waiting_count; i-- > 0;)
        if (masker->waiting[i] == seat) take_out(masker, i);
    free_seat(masker, seat);
}

static void take_seat(struct masker *masker, const struct step_plan *plan,
                      const struct step_constraint *from, uint32_t slot) {
    uint32_t seat = 0;
    while (seat < masker->seat_count && masker->seats[seat].state != SEAT_FREE)
        seat++;
    check(seat < masker->seat_count);
    masker->seats[seat].state = SEAT_RESTS;
    masker->seat_of[slot] = seat;
    constrained_rows_begin(masker->rows, seat, plan, from);
}

static void drop_ahead(struct masker *masker, uint32_t slot) {
    struct constrained_lender lender = constraint_store_lender(masker->store);
    struct ahead *ahead = &masker->ahead[slot];
    if (ahead->loan) lender.give_back(lender.context, ahead->loan);
    *ahead = (struct ahead){.loan = NULL};
}

/* What cannot be lent is ready, too: its row will be stuck. */
static void take_ahead(struct masker *masker, const struct step_plan *plan,
                       const struct step_constraint *from) {
    struct constrained_lender lender = constraint_store_lender(masker->store);
    struct bytes text = {step_plan_constraint_texts(plan) + from->text_index, from->text_bytes};
    struct constrained_loan *loan = NULL;
    check(from->slot < masker->options.slots);
    if (text.count) loan = lender.ask(lender.context, text, constrained_rows_client(from));
    drop_ahead(masker, from->slot);
    leave_seat(masker, from->slot);
    masker->ahead[from->slot] = (struct ahead){.loan = loan, .is_wanted = text.count > 0};
}

/* What came ahead is given back behind the seat's own loan: so it is found. */
static void begin_row(struct masker *masker, const struct step_plan *plan,
                      const struct step_row *row, const struct step_constraint *from) {
    uint32_t before = masker->seat_of[row->slot];
    masker->seat_of[row->slot] = NO_SEAT;
    if (from) take_seat(masker, plan, from, row->slot);
    uint32_t after = masker->seat_of[row->slot];
    masker->seat_of[row->slot] = before;
    leave_seat(masker, row->slot);
    masker->seat_of[row->slot] = after;
    drop_ahead(masker, row->slot);
}

/* A mask that came too late for the last step is still right: none of its tokens has come since. */
static void want_mask(struct masker *masker, uint32_t seat) {
    struct seat *it = &masker->seats[seat];
    if (it->state == SEAT_RESTS && !it->has_mask) put_job(masker, seat, ENGINE_WANTS_MASK);
    if (it->state == SEAT_WAITS) it->want = ENGINE_WANTS_MASK;
    if (it->state == SEAT_IN_WORK) it->wants_mask_next = it->want != ENGINE_WANTS_MASK;
}

static void start(struct masker *masker) {
    while (masker->thread_count < THREADS &&
           pthread_create(&masker->threads[masker->thread_count], NULL, work, masker) == 0)
        pthread_setname_np(masker->threads[masker->thread_count++], "masks");
}

static void begin(void *context, const struct step_plan *plan) {
    struct masker *masker = context;
    const struct step_constraint *next = step_plan_row_constraints(plan);
    if (masker->thread_count == 0 && plan->constraint_count == 0) return;
    pthread_mutex_lock(&masker->lock);
    start(masker);
    masker->wait_left_ns = masker->options.wait_ns_max;
    for (const struct step_constraint *it = step_plan_constraints(plan); it < next; it++)
        take_ahead(masker, plan, it);
    for (uint32_t i = 0; i < plan->row_count; i++) {
        const struct step_row *row = &step_plan_rows(plan)[i];
        check(row->slot < masker->options.slots);
        if (row->fresh) begin_row(masker, plan, row, row->constrained ? next++ : NULL);
        uint32_t seat = masker->seat_of[row->slot];
        if (seat != NO_SEAT) masker->seats[seat].is_late = false;
        if (row->constrained && row->sample && seat != NO_SEAT) want_mask(masker, seat);
    }
    pthread_mutex_unlock(&masker->lock);
}

/* Waits until *is_there, or until the step's time is up. */
static void wait_for(struct masker *masker, const bool *is_there) {
    int64_t began_ns = clock_now_ns(), until_ns = began_ns + masker->wait_left_ns;
    const struct timespec until = {until_ns / 1000000000, until_ns % 1000000000};
    if (*is_there) return;
    while (!*is_there && pthread_cond_timedwait(&masker->done, &masker->lock, &until) == 0) {
    }
    masker->wait_left_ns -= clock_now_ns() - began_ns;
    if (masker->wait_left_ns < 0) masker->wait_left_ns = 0;
}

static enum engine_mask await(void *context, uint32_t slot, const uint64_t **mask_out) {
    static const enum engine_mask outcomes[] = {[CONSTRAINED_MASK_FREE] = ENGINE_MASK_FREE,
                                                [CONSTRAINED_MASK_SET] = ENGINE_MASK_SET,
                                                [CONSTRAINED_MASK_LATE] = ENGINE_MASK_LATE,
                                                [CONSTRAINED_MASK_STUCK] = ENGINE_MASK_STUCK};
    struct masker *masker = context;
    enum engine_mask outcome = ENGINE_MASK_STUCK;
    pthread_mutex_lock(&masker->lock);
    uint32_t seat = masker->seat_of[slot];
    if (seat != NO_SEAT && masker->thread_count) {
        struct seat *it = &masker->seats[seat];
        wait_for(masker, &it->has_mask);
        outcome = it->has_mask ? outcomes[it->outcome] : ENGINE_MASK_LATE;
        it->is_late = outcome == ENGINE_MASK_LATE;
        it->late_told = false;
        masker->counts.late += it->is_late;
        *mask_out = mask_of(masker, seat);
    }
    pthread_mutex_unlock(&masker->lock);
    return outcome;
}

/* The seat rests: its mask is known. */
static void push_to(struct masker *masker, uint32_t seat, uint32_t token) {
    struct seat *it = &masker->seats[seat];
    check(it->state == SEAT_RESTS);
    constrained_rows_push(masker->rows, seat, token);
    it->has_mask = it->has_forced = false;
}

static void push(void *context, uint32_t slot, uint32_t token, enum engine_mask_want want) {
    struct masker *masker = context;
    pthread_mutex_lock(&masker->lock);
    uint32_t seat = masker->seat_of[slot];
    push_to(masker, seat, token);
    masker->seats[seat].want = want;
    if (want != ENGINE_WANTS_NOTHING) put_job(masker, seat, want);
    pthread_mutex_unlock(&masker->lock);
}

static uint32_t take_forced(void *context, uint32_t slot, uint32_t *tokens_out) {
    struct masker *masker = context;
    uint32_t count = 0;
    pthread_mutex_lock(&masker->lock);
    uint32_t seat = masker->seat_of[slot];
    struct seat *it = &masker->seats[seat];
    if (it->want == ENGINE_WANTS_FORCED) wait_for(masker, &it->has_forced);
    for (; it->has_forced && count < it->forced_count; count++) {
        tokens_out[count] = it->forced[count];
        constrained_rows_push(masker->rows, seat, tokens_out[count]);
    }
    it->has_forced = false;
    masker->counts.forced += count;
    pthread_mutex_unlock(&masker->lock);
    return count;
}

static bool is_ready_ahead(const struct ahead *ahead) {
    return !ahead->loan || constraint_store_is_ready(ahead->loan);
}

static bool is_ready_late(const struct seat *seat) {
    return seat->is_late && seat->has_mask;
}

/* True if something is ready that was not reported before, or if nothing is waited for. */
static bool has_news(const struct masker *masker) {
    bool waits = false;
    for (uint32_t slot = 0; slot < masker->options.slots; slot++) {
        const struct ahead *ahead = &masker->ahead[slot];
        uint32_t seat = masker->seat_of[slot];
        if (ahead->is_wanted && !ahead->is_told && is_ready_ahead(ahead)) return true;
        if (seat != NO_SEAT && is_ready_late(&masker->seats[seat]) &&
            !masker->seats[seat].late_told)
            return true;
        waits |= ahead->is_wanted && !ahead->is_told;
        waits |= seat != NO_SEAT && masker->seats[seat].is_late && !masker->seats[seat].has_mask;
    }
    return !waits;
}

static void wait_for_news(struct masker *masker) {
    int64_t until_ns = clock_now_ns() + MASKER_IDLE_NS;
    const struct timespec until = {until_ns / 1000000000, until_ns % 1000000000};
    while (!has_news(masker) && pthread_cond_timedwait(&masker->done, &masker->lock, &until) == 0) {
    }
}

static uint32_t take_ready(void *context, bool waits, uint32_t *slots_out) {
    struct masker *masker = context;
    uint32_t count = 0;
    if (masker->thread_count == 0) return 0;
    pthread_mutex_lock(&masker->lock);
    if (waits) wait_for_news(masker);
    for (uint32_t slot = 0; slot < masker->options.slots; slot++) {
        struct ahead *ahead = &masker->ahead[slot];
        uint32_t seat = masker->seat_of[slot];
        bool ahead_is_ready = ahead->is_wanted && is_ready_ahead(ahead);
        bool late_is_ready = seat != NO_SEAT && is_ready_late(&masker->seats[seat]);
        if (ahead_is_ready) ahead->is_told = true;
        if (late_is_ready) masker->seats[seat].late_told = true;
        if (ahead_is_ready || late_is_ready) slots_out[count++] = slot;
    }
    pthread_mutex_unlock(&masker->lock);
    return count;
}

struct engine_masks masker_masks(struct masker *masker) {
    return (struct engine_masks){masker, begin, await, push, take_forced, take_ready};
}

struct masker_counts masker_look(struct masker *masker) {
    pthread_mutex_lock(&masker->lock);
    struct masker_counts counts = masker->counts;
    pthread_mutex_unlock(&masker->lock);
    struct constraint_store_counts store = constraint_store_look(masker->store);
    counts.compiled = store.compiled;
    counts.found = store.found;
    return counts;
}

/* ---- opening ---- */

static enum status take_memory(struct masker *masker, struct error *error) {
    const struct masker_options *options = &masker->options;
    struct constraint_store_options store = {.directory = options->directory,
                                             .vocab = options->vocab,
                                             .loans_max = masker->seat_count + options->slots,
                                             .context = masker,
                                             .compiled = see_compiled};
    size_t bytes = constrained_rows_bytes(masker->seat_count, options->context_tokens_max);
    struct arena arena;
    masker->rows_memory = lazy_memory_take(bytes);
    masker->mask_memory =
        lazy_memory_take(masker->seat_count * mask_words(masker) * sizeof(uint64_t));
    masker->seats = calloc(masker->seat_count, sizeof *masker->seats);
    masker->waiting = calloc(masker->seat_count, sizeof *masker->waiting);
    masker->seat_of = malloc(options->slots * sizeof *masker->seat_of);
    masker->ahead = calloc(options->slots, sizeof *masker->ahead);
    if (!masker->rows_memory.start || !masker->mask_memory.start || !masker->seats ||
        !masker->waiting || !masker->seat_of || !masker->ahead)
        return error_set(error, STATUS_NO_MEMORY, "no memory for the masks of %u answers",
                         options->slots);
    for (uint32_t i = 0; i < options->slots; i++)
        masker->seat_of[i] = NO_SEAT;
    enum status status = constraint_store_open(&store, &masker->store, error);
    if (status) return status;
    const struct constrained_lender lender = constraint_store_lender(masker->store);
    arena_over(&arena, masker->rows_memory.start, bytes);
    masker->rows =
        constrained_rows_open(&arena, masker->seat_count, options->context_tokens_max, &lender);
    check(masker->rows);
    return STATUS_OK;
}

/* Waits on `done` are by the clock that never jumps. */
static void open_lock(struct masker *masker) {
    pthread_condattr_t attributes;
    pthread_mutex_init(&masker->lock, NULL);
    pthread_cond_init(&masker->waits, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&masker->done, &attributes);
    pthread_condattr_destroy(&attributes);
}

enum status masker_open(const struct masker_options *options, struct masker **masker_out,
                        struct error *error) {
    struct masker *masker = calloc(1, sizeof *masker);
    if (!masker) return error_set(error, STATUS_NO_MEMORY, "no memory for masks");
    masker->options = *options;
    masker->seat_count = options->slots + THREADS + 1;
    open_lock(masker);
    enum status status = take_memory(masker, error);
    if (status) {
        masker_close(masker);
        return status;
    }
    *masker_out = masker;
    return STATUS_OK;
}

void masker_close(struct masker *masker) {
    if (!masker) return;
    pthread_mutex_lock(&masker->lock);
    masker->is_closing = true;
    pthread_cond_broadcast(&masker->waits);
    pthread_mutex_unlock(&masker->lock);
    for (uint32_t i = 0; i < masker->thread_count; i++)
        pthread_join(masker->threads[i], NULL);
    for (uint32_t seat = 0; masker->rows && seat < masker->seat_count; seat++)
        constrained_rows_end(masker->rows, seat);
    for (uint32_t slot = 0; masker->rows && slot < masker->options.slots; slot++)
        drop_ahead(masker, slot);
    constraint_store_close(masker->store);
    lazy_memory_free(&masker->rows_memory);
    lazy_memory_free(&masker->mask_memory);
    pthread_cond_destroy(&masker->waits);
    pthread_cond_destroy(&masker->done);
    pthread_mutex_destroy(&masker->lock);
    free(masker->seats);
    free(masker->waiting);
    free(masker->seat_of);
    free(masker->ahead);
    free(masker);
}
