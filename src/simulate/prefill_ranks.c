/* SPDX-License-Identifier: Apache-2.0
 * The ranks of a prefill unit in virtual time. BALANCE_WORK binds a prompt when a rank is about to
 * take it; the simple methods bind it on arrival, as a router in front of engines does. All else is
 * the same for all of them: the ranks' steps are levelled, or not; what a prompt need not compute
 * is looked up again when its first chunk is due; on a rank prompts run in the order they were
 * bound, none with more than three quarters of a step while others wait.
 */
#include <string.h>

#include "base/check.h"
#include "base/limits.h"
#include "serving/policy/balance_prefill.h"
#include "simulate/hardware.h"
#include "simulate/ranks.h"

#define QUEUE_LOOK_A_RANK                                                                          \
    64 /* prompts of the queue that are looked at in a step, for each rank                         \
        */

struct prompt {
    uint32_t rank, next;   /* the rank's list: index of the next one, or NONE */
    uint32_t cached, done; /* tokens; done counts the cached ones */
    uint32_t chunk;        /* tokens in this step */
    int64_t fetched_ns;    /* when what it fetches is there */
};

struct prefill_ranks_rank {
    uint32_t first, last; /* prompts bound, in order */
    uint32_t requests;
    uint64_t tokens;   /* left of those */
    uint64_t computed; /* in all: the clock of its pages */
    double bound_ns;
};

struct prefill_block {
    uint32_t rank;     /* where it lies in pages; NONE: nowhere yet */
    uint64_t computed; /* that rank's clock */
};

#define NONE UINT32_MAX

struct prefill_world {
    const struct ranks_options *options;
    const struct ranks_request *requests;
    struct prefill_costs costs;
    struct prompt *prompts; /* [count] */
    struct prefill_ranks_rank *ranks;
    struct prefill_block *blocks; /* [block_ids] */
    uint32_t *queue;              /* [count] those that wait, in order */
    uint32_t queued, arrived, count;
    uint64_t draws;
    int64_t now_ns;
    struct prefill_hit *hits; /* [rank_count] */
    struct prefill_rank *view;
    struct balance_rank *simple;
    struct hardware_prefill_rank *work;
    double *full_ns;
};

/* ---- what is cached ---- */

static uint32_t cached_blocks(const struct prefill_world *world,
                              const struct ranks_request *request) {
    uint32_t count = 0;
    while (count < request->block_count && world->blocks[request->blocks[count]].rank != NONE)
        count++;
    uint32_t most = (request->prompt_tokens - 1) / RANKS_BLOCK_TOKENS; /* one token is computed */
    return count < most ? count : most;
}

/* Whether a rank's own pages still have the block. */
static bool in_pages(const struct prefill_world *world, const struct prefill_block *block) {
    return world->ranks[block->rank].computed - block->computed < world->options->device_tokens;
}

static void find_hits(struct prefill_world *world, const struct ranks_request *request) {
    uint32_t count = cached_blocks(world, request);
    for (uint32_t r = 0; r < world->options->rank_count; r++)
        world->hits[r] = (struct prefill_hit){.cached_tokens = count * RANKS_BLOCK_TOKENS,
                                              .fetch_cost = count * RANKS_BLOCK_TOKENS *
                                                            world->options->fetch_token_ns};
    for (uint32_t i = 0; i < count; i++) {
        const struct prefill_block *block = &world->blocks[request->blocks[i]];
        if (in_pages(world, block))
            world->hits[block->rank].fetch_cost -=
                RANKS_BLOCK_TOKENS * world->options->fetch_token_ns;
    }
}

static void keep_blocks(struct prefill_world *world, const struct ranks_request *request,
                        uint32_t rank) {
    for (uint32_t i = 0; i < request->block_count; i++)
        world->blocks[request->blocks[i]] =
            (struct prefill_block){rank, world->ranks[rank].computed};
}

/* ---- binding ---- */

static double left_ns(const struct prefill_world *world, uint32_t index) {
    const struct prompt *prompt = &world->prompts[index];
    return prefill_costs_of(&world->costs, world->requests[index].prompt_tokens - prompt->done,
                            prompt->done);
}

static void bind(struct prefill_world *world, uint32_t index, uint32_t r) {
    struct prefill_ranks_rank *rank = &world->ranks[r];
    struct prompt *prompt = &world->prompts[index];
    prompt->rank = r;
    prompt->next = NONE;
    prompt->cached = prompt->done = world->hits[r].cached_tokens;
    prompt->fetched_ns = world->now_ns + (int64_t)world->hits[r].fetch_cost;
    if (rank->last == NONE)
        rank->first = index;
    else
        world->prompts[rank->last].next = index;
    rank->last = index;
    rank->requests++;
    rank->tokens += world->requests[index].prompt_tokens - prompt->done;
    rank->bound_ns += left_ns(world, index);
}

/* Tokens of the next step that are free for others. */
static uint32_t room_of(const struct prefill_world *world, const struct prefill_ranks_rank *rank) {
    uint32_t most = world->options->step_tokens, share = most / 4 * 3, used = 0;
    for (uint32_t i = rank->first; i != NONE && used < most; i = world->prompts[i].next) {
        uint32_t left = world->requests[i].prompt_tokens - world->prompts[i].done;
        used += left < share ? left : share;
    }
    return used < most ? most - used : 0;
}

static void view_rank(struct prefill_world *world, uint32_t r) {
    world->view[r] = (struct prefill_rank){.takes = room_of(world, &world->ranks[r]) > 0,
                                           .pages_free = UINT32_MAX,
                                           .bound_cost = world->ranks[r].bound_ns};
}

static void bind_late(struct prefill_world *world) {
    uint32_t kept = 0, taken = 0;
    for (uint32_t r = 0; r < world->options->rank_count; r++)
        view_rank(world, r);
    for (; taken < world->queued && taken < QUEUE_LOOK_A_RANK * world->options->rank_count;
         taken++) {
        uint32_t index = world->queue[taken];
        const struct ranks_request *request = &world->requests[index];
        find_hits(world, request);
        struct prefill_need need = {.prompt_tokens = request->prompt_tokens,
                                    .patient = world->now_ns - request->arrival_ns <
                                               world->options->patience_ns};
        struct prefill_choice choice = balance_prefill(&world->costs, &need, world->view,
                                                       world->hits, world->options->rank_count);
        if (choice.rank == BALANCE_NO_RANK) {
            world->queue[kept++] = index;
            if (choice.reason == PREFILL_WAITS_ROOM) {
                taken++;
                break;
            }
            continue;
        }
        bind(world, index, choice.rank);
        view_rank(world, choice.rank);
    }
    memmove(world->queue + kept, world->queue + taken,
            (world->queued - taken) * sizeof *world->queue);
    world->queued -= taken - kept;
}

static void bind_early(struct prefill_world *world) {
    for (uint32_t i = 0; i < world->queued; i++) {
        for (uint32_t r = 0; r < world->options->rank_count; r++)
            world->simple[r] =
                (struct balance_rank){world->ranks[r].requests, world->ranks[r].tokens, true};
        uint32_t r = balance_simply(world->options->method, world->simple,
                                    world->options->rank_count, world->draws++);
        find_hits(world, &world->requests[world->queue[i]]);
        bind(world, world->queue[i], r);
    }
    world->queued = 0;
}

/* ---- a step ---- */

/* A prompt that has not begun finds the blocks that were computed since it was bound, as well. */
static void look_again(struct prefill_world *world, struct prefill_ranks_rank *rank,
                       uint32_t index) {
    struct prompt *prompt = &world->prompts[index];
    const struct ranks_request *request = &world->requests[index];
    uint32_t count = cached_blocks(world, request), fetched = 0;
    uint32_t known = prompt->cached / RANKS_BLOCK_TOKENS;
    if (prompt->done > prompt->cached || count <= known) return;
    for (uint32_t i = known; i < count; i++) {
        const struct prefill_block *block = &world->blocks[request->blocks[i]];
        if (block->rank != prompt->rank || !in_pages(world, block)) fetched += RANKS_BLOCK_TOKENS;
    }
    double before = left_ns(world, index);
    rank->tokens -= (count - known) * RANKS_BLOCK_TOKENS;
    prompt->cached = prompt->done = count * RANKS_BLOCK_TOKENS;
    prompt->fetched_ns = world->now_ns + (int64_t)(fetched * world->options->fetch_token_ns);
    rank->bound_ns += left_ns(world, index) - before;
}

static double chunk_ns(const struct prefill_world *world, uint32_t index, uint32_t tokens) {
    return prefill_costs_of(&world->costs, tokens, world->prompts[index].done);
}

/* The most of `tokens` that cost at most ns, in whole blocks, but no fewer than a chunk may have.
 */
static uint32_t afford(const struct prefill_world *world, uint32_t index, uint32_t tokens,
                       double ns) {
    uint32_t least = prefill_costs_chunk_min(&world->costs);
    if (tokens <= least || chunk_ns(world, index, tokens) <= ns) return tokens;
    uint32_t low = least / KV_BLOCK_TOKENS, high = tokens / KV_BLOCK_TOKENS;
    while (low < high) {
        uint32_t middle = low + (high - low + 1) / 2;
        if (chunk_ns(world, index, middle * KV_BLOCK_TOKENS) <= ns)
            low = middle;
        else
            high = middle - 1;
    }
    return low * KV_BLOCK_TOKENS;
}

/* Gives the rank's prompts their chunks: at most step_tokens in all, at most ns in all (but
 * somebody moves). Two rounds, so that what short prompts leave goes to the long one. */
static double fill_rank(struct prefill_world *world, struct prefill_ranks_rank *rank, double ns) {
    uint32_t most = world->options->step_tokens, share = most / 4 * 3, used = 0;
    double spent = 0;
    for (uint32_t i = rank->first; i != NONE; i = world->prompts[i].next)
        world->prompts[i].chunk = 0;
    for (int round = 0; round < 2; round++)
        for (uint32_t i = rank->first; i != NONE && used < most; i = world->prompts[i].next) {
            struct prompt *prompt = &world->prompts[i];
            if (prompt->fetched_ns > world->now_ns) continue;
            if (!prompt->chunk) look_again(world, rank, i);
            if (prompt->fetched_ns > world->now_ns) continue;
            uint32_t left = world->requests[i].prompt_tokens - prompt->done;
            uint32_t wanted = round || left < share ? left : share;
            if (wanted > most - used + prompt->chunk) wanted = most - used + prompt->chunk;
            double before = chunk_ns(world, i, prompt->chunk);
            wanted = afford(world, i, wanted, ns - spent + before);
            double cost = chunk_ns(world, i, wanted);
            if (wanted <= prompt->chunk || (spent > 0 && spent - before + cost > ns)) continue;
            used += wanted - prompt->chunk;
            spent += cost - before;
            prompt->chunk = wanted;
        }
    return spent;
}

static void note_work(struct prefill_world *world, uint32_t r) {
    struct hardware_prefill_rank *work = &world->work[r];
    *work = (struct hardware_prefill_rank){0};
    for (uint32_t i = world->ranks[r].first; i != NONE; i = world->prompts[i].next) {
        const struct prompt *prompt = &world->prompts[i];
        uint64_t chunk = prompt->chunk;
        if (!chunk) continue;
        work->tokens += prompt->chunk;
        work->attended += chunk * prompt->done + chunk * (chunk + 1) / 2;
        work->cached += prompt->done;
    }
}

static void plan_step(struct prefill_world *world) {
    uint32_t rank_count = world->options->rank_count;
    uint32_t deepest = 0;
    for (uint32_t r = 0; r < rank_count; r++) {
        world->full_ns[r] = fill_rank(world, &world->ranks[r], 1e300);
        for (uint32_t i = world->ranks[r].first; i != NONE; i = world->prompts[i].next)
            if (world->prompts[i].chunk && world->prompts[i].done > deepest)
                deepest = world->prompts[i].done;
    }
    if (!world->options->full_steps) {
        uint32_t chunk = prefill_costs_chunk_min(&world->costs);
        double least_ns = prefill_costs_of(&world->costs, chunk, deepest);
        double level_ns = balance_prefill_level(world->full_ns, rank_count, least_ns);
        for (uint32_t r = 0; r < rank_count; r++)
            if (world->full_ns[r] > level_ns) fill_rank(world, &world->ranks[r], level_ns);
    }
    for (uint32_t r = 0; r < rank_count; r++)
        note_work(world, r);
}

static void finish_prompts(struct prefill_world *world, uint32_t r, int64_t *ready_ns) {
    struct prefill_ranks_rank *rank = &world->ranks[r];
    uint32_t *link = &rank->first, last = NONE;
    for (uint32_t i = rank->first; i != NONE; i = world->prompts[i].next) {
        struct prompt *prompt = &world->prompts[i];
        double before = left_ns(world, i);
        prompt->done += prompt->chunk;
        rank->tokens -= prompt->chunk;
        rank->computed += prompt->chunk;
        rank->bound_ns += left_ns(world, i) - before;
        prompt->chunk = 0;
        if (prompt->done == world->requests[i].prompt_tokens) {
            *link = prompt->next;
            rank->requests--;
            keep_blocks(world, &world->requests[i], r);
            ready_ns[i] = world->now_ns;
        } else {
            link = &prompt->next;
            last = i;
        }
    }
    rank->last = last;
    if (rank->first == NONE) rank->bound_ns = 0; /* no rounding is carried along */
}

static void note_step(const struct prefill_world *world, struct ranks_report *report, double ns) {
    double most[2] = {0, 0}, sum[2] = {0, 0};
    for (uint32_t r = 0; r < world->options->rank_count; r++) {
        const double load[2] = {(double)world->work[r].attended, world->work[r].tokens};
        for (int i = 0; i < 2; i++) {
            sum[i] += load[i];
            if (load[i] > most[i]) most[i] = load[i];
        }
    }
    report->tokens += (uint64_t)sum[1];
    report->busy_s += ns * 1e-9;
    report->steps++;
    if (world->arrived > world->count / 10 && world->arrived < world->count)
        ranks_note(report, ns, world->options->rank_count, most, sum);
}

/* The time at which something can go on when no rank has work now. */
static int64_t next_event(const struct prefill_world *world) {
    int64_t next_ns = INT64_MAX;
    if (world->arrived < world->count) next_ns = world->requests[world->arrived].arrival_ns;
    for (uint32_t r = 0; r < world->options->rank_count; r++)
        for (uint32_t i = world->ranks[r].first; i != NONE; i = world->prompts[i].next)
            if (world->prompts[i].fetched_ns < next_ns) next_ns = world->prompts[i].fetched_ns;
    return next_ns;
}

static bool has_work(const struct prefill_world *world) {
    for (uint32_t r = 0; r < world->options->rank_count; r++)
        if (world->work[r].tokens) return true;
    return false;
}

static bool open_world(struct prefill_world *world, struct arena *arena) {
    const struct ranks_options *options = world->options;
    uint32_t ranks = options->rank_count, count = world->count;
    check(ranks > 0 && ranks <= LIMIT_RANKS && options->step_tokens >= 4 * KV_BLOCK_TOKENS);
    world->prompts = arena_take_zeroed(arena, count * sizeof *world->prompts);
    world->queue = arena_take(arena, count * sizeof *world->queue);
    world->ranks = arena_take_zeroed(arena, ranks * sizeof *world->ranks);
    world->blocks = arena_take(arena, (options->block_ids + 1) * sizeof *world->blocks);
    world->hits = arena_take(arena, ranks * sizeof *world->hits);
    world->view = arena_take(arena, ranks * sizeof *world->view);
    world->simple = arena_take(arena, ranks * sizeof *world->simple);
    world->work = arena_take_zeroed(arena, ranks * sizeof *world->work);
    world->full_ns = arena_take(arena, ranks * sizeof *world->full_ns);
    if (!world->prompts || !world->queue || !world->ranks || !world->blocks || !world->hits ||
        !world->view || !world->simple || !world->work || !world->full_ns)
        return false;
    for (uint32_t r = 0; r < ranks; r++)
        world->ranks[r].first = world->ranks[r].last = NONE;
    for (uint32_t i = 0; i < options->block_ids; i++)
        world->blocks[i] = (struct prefill_block){NONE, 0};
    struct hardware_costs costs = hardware_costs_of_rank(options->measured);
    world->costs = (struct prefill_costs){costs.token_ns, costs.attended_ns, costs.read_ns};
    return true;
}

enum status ranks_prefill(const struct ranks_options *options, const struct ranks_request *requests,
                          uint32_t count, struct arena *arena, int64_t *ready_ns_out,
                          struct ranks_report *report_out) {
    struct prefill_world world = {.options = options, .requests = requests, .count = count};
    if (!open_world(&world, arena)) return STATUS_NO_MEMORY;
    *report_out = (struct ranks_report){0};
    for (uint32_t left = count; left > 0;) {
        while (world.arrived < count && requests[world.arrived].arrival_ns <= world.now_ns)
            world.queue[world.queued++] = world.arrived++;
        if (options->method == BALANCE_WORK)
            bind_late(&world);
        else
            bind_early(&world);
        plan_step(&world);
        if (!has_work(&world)) {
            check(next_event(&world) > world.now_ns);
            world.now_ns = next_event(&world);
            continue;
        }
        double ns = hardware_prefill_ns(options->measured, world.work, options->rank_count);
        note_step(&world, report_out, ns);
        world.now_ns += (int64_t)ns;
        for (uint32_t r = 0; r < options->rank_count; r++) {
            uint32_t before = world.ranks[r].requests;
            finish_prompts(&world, r, ready_ns_out);
            left -= before - world.ranks[r].requests;
        }
    }
    for (uint32_t i = 0; i < count; i++)
        report_out->cached_tokens += world.prompts[i].cached;
    return STATUS_OK;
}
