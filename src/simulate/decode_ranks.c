/* SPDX-License-Identifier: Apache-2.0
 * The ranks of a decode unit in virtual time. Every request gets one token a step; its pages are
 * counted as its tokens in whole blocks, half a block more than its tokens on average. A request
 * that has to leave a rank waits in front of the queue and goes on where it is bound next.
 */
#include <string.h>

#include "base/check.h"
#include "contract/kv_block.h"
#include "serving/policy/balance_decode.h"
#include "serving/policy/predict_length.h"
#include "simulate/hardware.h"
#include "simulate/ranks.h"

#define NONE UINT32_MAX
#define RING_STEPS (1u << 20) /* more than any answer has tokens */

struct decode_answer {
    uint32_t rank;
    uint32_t next, before; /* the ring's list of those that end in the same step */
    uint32_t expected;     /* tokens, as guessed when it was bound */
    uint32_t done;         /* tokens when it was bound, then at its end */
    uint64_t bound_step;
    int64_t first_ns;
};

struct decode_ranks_rank {
    uint32_t requests;
    uint64_t context; /* KV tokens */
    double expected;  /* tokens by which its requests will yet grow */
};

struct decode_world {
    const struct ranks_options *options;
    const struct ranks_request *requests;
    struct decode_costs costs;
    struct predict_length lengths;
    struct decode_answer *answers; /* [count] */
    struct decode_ranks_rank *ranks;
    uint32_t *order;   /* [count] requests by ready time */
    uint32_t *waiting; /* [count] first in, first out, but moved ones in front: a stack of those */
    uint32_t *moved;   /* [count] */
    uint32_t waiting_first, waiting_end, moved_count;
    uint32_t *ends; /* [RING_STEPS] first answer that ends after that step */
    uint64_t step, draws;
    int64_t now_ns;
    struct decode_rank *view;
    struct balance_rank *simple;
    struct hardware_decode_rank *work;
    struct decode_running *running; /* [requests_max] */
    uint32_t *running_index;
};

static uint32_t pages_of(uint64_t tokens, uint32_t requests) {
    return (uint32_t)(tokens / KV_BLOCK_TOKENS + (requests + 1) / 2);
}

static uint32_t pages_total(const struct decode_world *world) {
    return (uint32_t)(world->options->rank_tokens / KV_BLOCK_TOKENS);
}

/* Tokens so far: those from before it was bound, and one for each step since. */
static uint32_t tokens_of(const struct decode_world *world, const struct decode_answer *answer) {
    return answer->done + (uint32_t)(world->step - answer->bound_step);
}

static void ring_add(struct decode_world *world, uint32_t index, uint32_t left) {
    uint32_t *head = &world->ends[(world->step + left) % RING_STEPS];
    struct decode_answer *answer = &world->answers[index];
    answer->next = *head;
    answer->before = NONE;
    if (*head != NONE) world->answers[*head].before = index;
    *head = index;
}

static void ring_remove(struct decode_world *world, uint32_t index, uint32_t left) {
    struct decode_answer *answer = &world->answers[index];
    uint32_t *head = &world->ends[(world->step + left) % RING_STEPS];
    if (answer->before == NONE)
        *head = answer->next;
    else
        world->answers[answer->before].next = answer->next;
    if (answer->next != NONE) world->answers[answer->next].before = answer->before;
}

static void bind(struct decode_world *world, uint32_t index, uint32_t r) {
    struct decode_answer *answer = &world->answers[index];
    struct decode_ranks_rank *rank = &world->ranks[r];
    uint32_t total = world->requests[index].output_tokens;
    answer->rank = r;
    answer->bound_step = world->step;
    answer->expected = predict_length_left(&world->lengths, answer->done, RING_STEPS / 2);
    rank->requests++;
    rank->context += world->requests[index].prompt_tokens + answer->done;
    rank->expected += answer->expected;
    ring_add(world, index, total - answer->done);
}

static void leave(struct decode_world *world, uint32_t index) {
    struct decode_answer *answer = &world->answers[index];
    struct decode_ranks_rank *rank = &world->ranks[answer->rank];
    uint32_t grown = (uint32_t)(world->step - answer->bound_step);
    rank->requests--;
    rank->context -= world->requests[index].prompt_tokens + answer->done + grown;
    rank->expected -= answer->expected > grown ? answer->expected - grown : 0;
    if (rank->requests == 0 || rank->expected < 0) rank->expected = 0;
    answer->done += grown;
    answer->rank = NONE;
}

static uint32_t choose(struct decode_world *world, uint32_t index) {
    uint32_t rank_count = world->options->rank_count;
    uint32_t tokens = world->requests[index].prompt_tokens + world->answers[index].done + 1;
    for (uint32_t r = 0; r < rank_count; r++) {
        const struct decode_ranks_rank *rank = &world->ranks[r];
        uint32_t held = pages_of(rank->context, rank->requests);
        world->view[r] =
            (struct decode_rank){.requests = rank->requests,
                                 .requests_max = world->options->requests_max,
                                 .pages_total = pages_total(world),
                                 .pages_held = held,
                                 .pages_expected = (uint32_t)(rank->expected / KV_BLOCK_TOKENS)};
        world->simple[r] =
            (struct balance_rank){rank->requests, held,
                                  rank->requests < world->options->requests_max &&
                                      held + tokens / KV_BLOCK_TOKENS + 1 <= pages_total(world)};
    }
    if (world->options->method != BALANCE_WORK)
        return balance_simply(world->options->method, world->simple, rank_count, world->draws++);
    uint32_t growth =
        predict_length_left(&world->lengths, world->answers[index].done, RING_STEPS / 2);
    struct decode_need need = {.page_count = tokens / KV_BLOCK_TOKENS + 1,
                               .pages_expected = growth / KV_BLOCK_TOKENS};
    return balance_decode(&world->costs, &need, world->view, rank_count).rank;
}

/* Moved ones first; each waits for its turn. */
static void bind_waiting(struct decode_world *world) {
    while (world->moved_count || world->waiting_first < world->waiting_end) {
        bool moved = world->moved_count > 0;
        uint32_t index =
            moved ? world->moved[world->moved_count - 1] : world->waiting[world->waiting_first];
        uint32_t r = choose(world, index);
        if (r == BALANCE_NO_RANK) return;
        bind(world, index, r);
        if (moved)
            world->moved_count--;
        else
            world->waiting_first++;
    }
}

static void relieve(struct decode_world *world, uint32_t r, uint32_t count,
                    struct ranks_report *report) {
    uint32_t held = pages_of(world->ranks[r].context, world->ranks[r].requests);
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct decode_answer *answer = &world->answers[i];
        if (answer->rank != r) continue;
        uint32_t tokens = world->requests[i].prompt_tokens + tokens_of(world, answer);
        world->running[found] = (struct decode_running){pages_of(tokens, 1), (int64_t)i};
        world->running_index[found++] = i;
    }
    uint32_t first = balance_decode_relieve(world->running, found, held - pages_total(world));
    check(first != BALANCE_NO_RANK && found > 1);
    uint32_t index = world->running_index[first];
    uint32_t left = world->requests[index].output_tokens - tokens_of(world, &world->answers[index]);
    ring_remove(world, index, left);
    leave(world, index);
    world->moved[world->moved_count++] = index;
    report->moved++;
}

/* Pages for one more token of everybody. */
static void make_room(struct decode_world *world, uint32_t count, struct ranks_report *report) {
    for (uint32_t r = 0; r < world->options->rank_count; r++)
        while (pages_of(world->ranks[r].context + world->ranks[r].requests,
                        world->ranks[r].requests) > pages_total(world))
            relieve(world, r, count, report);
}

static void end_answers(struct decode_world *world, double *tpot_ns, uint32_t *left) {
    uint32_t *head = &world->ends[world->step % RING_STEPS];
    for (uint32_t i = *head; i != NONE; i = world->answers[i].next) {
        leave(world, i);
        uint32_t tokens = world->requests[i].output_tokens;
        check(world->answers[i].done == tokens);
        predict_length_learn(&world->lengths, tokens);
        tpot_ns[i] =
            tokens > 1 ? (double)(world->now_ns - world->answers[i].first_ns) / (tokens - 1) : 0;
        --*left;
    }
    *head = NONE;
}

/* False: nobody runs. */
static bool take_step(struct decode_world *world, bool measured, struct ranks_report *report) {
    uint32_t rank_count = world->options->rank_count;
    double most[2] = {0, 0}, sum[2] = {0, 0};
    for (uint32_t r = 0; r < rank_count; r++) {
        struct decode_ranks_rank *rank = &world->ranks[r];
        world->work[r] = (struct hardware_decode_rank){rank->requests, rank->context};
        const double load[2] = {(double)rank->context, rank->requests};
        for (int i = 0; i < 2; i++) {
            sum[i] += load[i];
            if (load[i] > most[i]) most[i] = load[i];
        }
        rank->context += rank->requests;
        rank->expected -= rank->expected > rank->requests ? rank->requests : rank->expected;
    }
    if (sum[1] == 0) return false;
    double ns = hardware_decode_ns(world->options->measured, world->work, rank_count);
    if (measured) ranks_note(report, ns, rank_count, most, sum);
    report->busy_s += ns * 1e-9;
    report->tokens += (uint64_t)sum[1];
    report->steps++;
    world->now_ns += (int64_t)ns;
    world->step++;
    return true;
}

/* A merge sort of the order by ready time; ties by index. */
static void sort_order(uint32_t *order, uint32_t *room, uint32_t count, const int64_t *ready_ns) {
    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    for (uint32_t width = 1; width < count; width *= 2) {
        for (uint32_t start = 0; start < count; start += 2 * width) {
            uint32_t a = start, middle = start + width < count ? start + width : count;
            uint32_t b = middle, end = start + 2 * width < count ? start + 2 * width : count;
            for (uint32_t at = start; at < end; at++)
                room[at] = b == end || (a < middle && ready_ns[order[a]] <= ready_ns[order[b]])
                               ? order[a++]
                               : order[b++];
        }
        memcpy(order, room, count * sizeof *order);
    }
}

static bool open_world(struct decode_world *world, uint32_t count, struct arena *arena) {
    uint32_t ranks = world->options->rank_count, places = world->options->requests_max;
    check(ranks > 0 && ranks <= LIMIT_RANKS && places > 0);
    world->answers = arena_take_zeroed(arena, count * sizeof *world->answers);
    world->order = arena_take(arena, count * sizeof *world->order);
    world->waiting = arena_take(arena, count * sizeof *world->waiting);
    world->moved = arena_take(arena, count * sizeof *world->moved);
    world->ends = arena_take(arena, RING_STEPS * sizeof *world->ends);
    world->ranks = arena_take_zeroed(arena, ranks * sizeof *world->ranks);
    world->view = arena_take(arena, ranks * sizeof *world->view);
    world->simple = arena_take(arena, ranks * sizeof *world->simple);
    world->work = arena_take(arena, ranks * sizeof *world->work);
    world->running = arena_take(arena, places * sizeof *world->running);
    world->running_index = arena_take(arena, places * sizeof *world->running_index);
    if (!world->answers || !world->order || !world->waiting || !world->moved || !world->ends ||
        !world->ranks || !world->view || !world->simple || !world->work || !world->running ||
        !world->running_index)
        return false;
    for (uint32_t i = 0; i < RING_STEPS; i++)
        world->ends[i] = NONE;
    for (uint32_t i = 0; i < count; i++)
        world->answers[i].rank = NONE;
    struct hardware_costs costs = hardware_costs_of_rank(world->options->measured);
    world->costs = (struct decode_costs){costs.request_ns, costs.context_ns * KV_BLOCK_TOKENS};
    return true;
}

enum status ranks_decode(const struct ranks_options *options, const struct ranks_request *requests,
                         uint32_t count, const int64_t *ready_ns, struct arena *arena,
                         double *tpot_ns_out, struct ranks_report *report_out) {
    struct decode_world world = {.options = options, .requests = requests};
    if (!open_world(&world, count, arena)) return STATUS_NO_MEMORY;
    *report_out = (struct ranks_report){0};
    sort_order(world.order, world.waiting, count, ready_ns);
    for (uint32_t left = count, arrived = 0; left > 0;) {
        for (; arrived < count && ready_ns[world.order[arrived]] <= world.now_ns; arrived++) {
            uint32_t index = world.order[arrived];
            world.answers[index].first_ns = ready_ns[index];
            world.waiting[world.waiting_end++] = index;
        }
        bind_waiting(&world);
        make_room(&world, count, report_out);
        if (!take_step(&world, arrived > count / 10 && arrived < count, report_out)) {
            check(arrived < count);
            world.now_ns = ready_ns[world.order[arrived]];
            continue;
        }
        end_answers(&world, tpot_ns_out, &left);
    }
    return STATUS_OK;
}
