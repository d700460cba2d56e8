/* SPDX-License-Identifier: Apache-2.0
 * Protects the ranks that survive. One of four ranks is killed in the middle of a step, at once or
 * after a pause. The others leave the step; none hangs, or fails because of a half-sent message.
 * They regroup, and the same step with the dead rank's experts on other ranks gives each pair its
 * result. Then a second rank dies. While all ranks live most steps have two levels with nodes of
 * two ranks, so the dead rank was a relay; afterwards steps have one level.
 *
 * A rank that is killed while it writes to UCX's shared memory inbox blocks that inbox for good.
 * The survivors open new ones, and every launch continues.
 */
#define TEST_OWN_MAIN
#include "test_case.h"

#include <poll.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/random.h"
#include "compute/exchange/exchange.h"
#include "compute/exchange/job.h"
#include "host/process/ranks/rank_launch.h"

#define RANKS 4u
#define COPIES 3u /* of each expert: two ranks may die */
#define EXPERTS 12u
#define SLOTS (EXPERTS * COPIES / RANKS)
#define PER_TOKEN 3u
#define TOKENS_MAX 24u
#define WORDS 2048u /* of a row: messages are larger than what UCX sends unasked */
#define STEPS_AFTER 20u
#define LAUNCHES 12u

static struct placement placement;
static struct exchange *carrier;
static uint32_t seed;
static bool stops;
static uint32_t rows[TOKENS_MAX][WORDS];
static uint32_t experts[TOKENS_MAX * PER_TOKEN];

static uint32_t draw(uint32_t step, uint32_t what, uint32_t below) {
    return (uint32_t)(random_uniform(seed, step, what) * below);
}

static void open_exchange(void) {
    struct error error;
    check(!placement_open(&placement, 1, EXPERTS, RANKS, SLOTS, &error));
    for (uint32_t slot = 0; slot < RANKS * SLOTS; slot++) {
        uint32_t rank = slot / SLOTS, i = slot % SLOTS;
        placement.slot_expert[slot] = i / COPIES * RANKS + (rank + i % COPIES) % RANKS;
    }
    check(!placement_index(&placement, &error));
    placement.node_ranks = 2;
    const struct exchange_options options = {.tokens_max = TOKENS_MAX,
                                             .experts = EXPERTS,
                                             .experts_per_token = PER_TOKEN,
                                             .placement = &placement,
                                             .rank = job_rank(),
                                             .dispatch_bytes = sizeof rows[0],
                                             .combine_bytes = sizeof rows[0]};
    check(!exchange_open_ranks(&options, &carrier, &error));
}

static void go_on_without(void) {
    struct error error;
    job_regroup();
    for (uint32_t slot = 0; slot < RANKS * SLOTS; slot++)
        if (!job_is_alive(slot / SLOTS)) placement.slot_expert[slot] = PLACEMENT_EMPTY;
    check(!placement_index(&placement, &error));
}

/* What a row says, told by who it is of: all of it, so that a part of another's would show. */
static uint32_t word(uint32_t rank, uint32_t step, uint32_t token, uint32_t i) {
    return ((rank * 4096 + step) * TOKENS_MAX + token) * WORDS + i;
}

static uint32_t draw_rows(uint32_t step) {
    uint32_t tokens = draw(step, job_rank(), TOKENS_MAX + 1);
    for (uint32_t token = 0; token < tokens; token++) {
        uint32_t first = draw(step, 1000 + job_rank() * TOKENS_MAX + token, EXPERTS - PER_TOKEN);
        for (uint32_t k = 0; k < PER_TOKEN; k++)
            experts[token * PER_TOKEN + k] = first + k;
        for (uint32_t i = 0; i < WORDS; i++)
            rows[token][i] = word(job_rank(), step, token, i);
    }
    return tokens;
}

/* An expert adds its number to each word. */
static void compute(const struct exchange_received *received) {
    const uint32_t *own = placement_of_rank(&placement, 0, job_rank());
    for (uint32_t g = 0; g < received->group_count; g++) {
        const struct exchange_group *group = &received->groups[g];
        for (uint32_t row = group->first_row; row < group->first_row + group->row_count; row++) {
            const uint32_t *in =
                (const uint32_t *)(const void *)received->token_data[received->row_token[row]];
            uint32_t *out = (uint32_t *)(void *)exchange_result(carrier, row);
            for (uint32_t i = 0; i < WORDS; i++)
                out[i] = in[i] + own[group->slot];
        }
        exchange_progress(carrier);
    }
    if (received->row_count) exchange_combine_begin(carrier, 0, received->row_count);
}

static void run_step(uint32_t step) {
    struct exchange_received received;
    struct exchange_returned returned;
    uint32_t tokens = draw_rows(step);
    exchange_split_replicas(carrier, step % 3 == 0);
    exchange_set_two_levels(carrier, step % 4 != 1); /* while all live */
    exchange_dispatch_begin(carrier, 0, experts, NULL, tokens, (const char *)rows);
    exchange_dispatch_finish(carrier, &received);
    compute(&received);
    exchange_combine_finish(carrier, &returned);
    for (uint32_t pair = 0; pair < tokens * PER_TOKEN && !job_broken(); pair++) {
        const uint32_t *result =
            (const uint32_t *)(const void *)(returned.results +
                                             (size_t)returned.token_rows[pair] * sizeof rows[0]);
        for (uint32_t i = 0; i < WORDS; i++)
            check(result[i] == word(job_rank(), step, pair / PER_TOKEN, i) + experts[pair]);
    }
}

static void die(int signal) {
    raise(stops ? SIGSTOP : SIGKILL);
}

/* Rank 1 dies some time behind the first step; rank 3 later, while the others come together without
 * rank 1, or in a step behind that. */
static void dies_soon(void) {
    uint32_t us = 200 + draw(0, 77 + job_rank(), 15000);
    if (job_rank() == 3) us += 20000 + draw(0, 99, 300000);
    const struct itimerval timer = {.it_value = {.tv_usec = (suseconds_t)us}};
    if (job_rank() % 2 == 0) return;
    signal(SIGALRM, die);
    check(setitimer(ITIMER_REAL, &timer, NULL) == 0);
}

static int work(void) {
    uint32_t order;
    for (;;) {
        if (job_receive(0, &order, sizeof order) == sizeof order) {
            if (order == UINT32_MAX) break;
            run_step(order);
            if (order == 0) dies_soon();
            job_send(0, &order, sizeof order);
        }
        if (job_broken()) go_on_without();
    }
    job_end();
    return 0;
}

static bool drive_step(uint32_t step) {
    uint32_t done;
    for (uint32_t rank = 1; rank < RANKS; rank++)
        job_send(rank, &step, sizeof step);
    run_step(step);
    for (uint32_t rank = 1; rank < RANKS; rank++)
        if (job_receive(rank, &done, sizeof done)) check(done == step);
    return !job_broken();
}

static int drive(void) {
    uint32_t steps = 0, after = 0, lost = 0, again = 0, end = UINT32_MAX;
    int64_t worst_ns = 0;
    while (after < STEPS_AFTER) {
        int64_t began_ns = clock_now_ns();
        bool whole = drive_step(steps);
        steps += whole;
        again += !whole;
        after += whole && lost == 2;
        if (!job_broken()) continue;
        go_on_without();
        lost = !job_is_alive(1) + !job_is_alive(3);
        int64_t took_ns = clock_now_ns() - began_ns;
        if (took_ns > worst_ns) worst_ns = took_ns;
    }
    for (uint32_t rank = 1; rank < RANKS; rank++)
        job_send(rank, &end, sizeof end);
    job_end();
    fprintf(stderr, "seed %u%s: %u steps, %u of them again, at most %.1f ms until all had left\n",
            seed, stops ? ", stopped" : "", steps, again, (double)worst_ns * 1e-6);
    return 0;
}

static void say_end(uint32_t rank, const char *what, const char *why) {
    fprintf(stderr, "rank %u ends, %s: %s\n", rank, what, why);
}

static int be_rank(char **argv) {
    struct error error;
    job_on_abort(say_end);
    seed = (uint32_t)strtoul(argv[1], NULL, 10);
    stops = seed % 3 == 2;
    check(!job_begin(&error));
    open_exchange();
    return job_rank() ? work() : drive();
}

/* ---- who launches them ---- */

struct launched {
    uint32_t killed, failed;
};

static void on_ended(void *context, uint32_t rank, int status) {
    struct launched *all = context;
    bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && rank % 2;
    all->killed += killed;
    all->failed += status != 0 && !killed;
    if (status && !killed)
        fprintf(stderr, "rank %u ended with status %#x\n", rank, (unsigned)status);
}

static bool stands_still(int pid) {
    char path[64], state = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = pid > 0 ? fopen(path, "r") : NULL;
    if (!file) return false;
    if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1) state = 0;
    fclose(file);
    return state == 'T';
}

static void launch(uint32_t number) {
    char self[RANK_LAUNCH_PATH_BYTES], text[16];
    struct error error;
    struct rank_launch *ranks;
    struct launched all = {0};
    const char *const arguments[] = {self, text, NULL};
    const struct rank_launch_options options = {
        .arguments = arguments, .count = RANKS, .total = RANKS, .context = &all, .ended = on_ended};
    snprintf(text, sizeof text, "%u", number);
    assert_true(rank_launch_self(self));
    assert_false(rank_launch_open(&options, &ranks, &error));
    struct pollfd file = {rank_launch_file(ranks), POLLIN, 0};
    while (rank_launch_left(ranks) && !all.failed) {
        poll(&file, 1, 10);
        rank_launch_tend(ranks);
        for (uint32_t rank = 1; rank < RANKS; rank += 2)
            if (stands_still(rank_launch_pid(ranks, rank)))
                rank_launch_signal(ranks, rank, SIGKILL);
    }
    rank_launch_close(ranks);
    assert_int_equal(all.failed, 0);
    assert_int_equal(all.killed, 2);
}

TEST(survivors_leave_the_step_and_go_on) {
    for (uint32_t number = 0; number < LAUNCHES; number++)
        launch(number);
}

int main(int argc, char **argv) {
    if (job_exists()) return be_rank(argv);
    return test_cases_run();
}
