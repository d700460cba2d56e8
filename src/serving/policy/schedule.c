/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/schedule.h"

#include "base/check.h"
#include "base/heap.h"

int64_t schedule_turn(int64_t arrival_ns, int64_t work_ns, int32_t priority, int64_t priority_ns) {
    int64_t turn, head_start;
    if (__builtin_mul_overflow(work_ns, (int64_t)SCHEDULE_SHARE, &turn) ||
        __builtin_add_overflow(arrival_ns, turn, &arrival_ns))
        arrival_ns = INT64_MAX;
    if (__builtin_mul_overflow((int64_t)priority, priority_ns, &head_start))
        head_start = priority > 0 ? INT64_MAX : INT64_MIN;
    if (__builtin_sub_overflow(arrival_ns, head_start, &turn))
        turn = head_start > 0 ? INT64_MIN : INT64_MAX;
    return turn;
}

bool schedule_goes_first(const struct schedule_item *a, const struct schedule_item *b) {
    if (a->turn != b->turn) return a->turn < b->turn;
    if (a->arrival != b->arrival) return a->arrival < b->arrival;
    return a->slot < b->slot;
}

static bool schedule_comes_before(const struct schedule_item *a, const struct schedule_item *b) {
    bool a_decodes = a->phase == SCHEDULE_DECODE, b_decodes = b->phase == SCHEDULE_DECODE;
    return a_decodes != b_decodes ? a_decodes : schedule_goes_first(a, b);
}

static bool schedule_comes_after(const void *items, const void *a, const void *b) {
    const struct schedule_item *all = items;
    return schedule_comes_before(&all[*(const uint32_t *)b], &all[*(const uint32_t *)a]);
}

static const struct heap_order last_first = {sizeof(uint32_t), schedule_comes_after, NULL};

/* Heap sort: in place, without recursion, and with the same result everywhere. If the items are
 * already sorted, as usual between steps of decode rows, it only verifies that. */
void schedule_order(const struct schedule_item *items, uint32_t count, uint32_t *order) {
    uint32_t ordered = 1;
    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    while (ordered < count && !schedule_comes_before(&items[ordered], &items[ordered - 1]))
        ordered++;
    if (ordered < count) heap_choose(&last_first, items, order, count, count);
}

struct spending { /* resources left in the step while it is filled */
    uint32_t tokens;
    uint32_t promised; /* tokens reserved for decode rows that are not chosen yet */
    uint32_t prompt_tokens;
    uint32_t pages;
    uint32_t rows_running;
    uint32_t constraint_bytes, constraint_tokens;
    double prompt_ns;
    bool waits; /* an earlier request could not start */
};

/* The length of the longest row with at most `most` tokens that the rules for chunks allow. */
static uint32_t schedule_row_tokens(const struct schedule_item *item, uint32_t most) {
    uint32_t wanted = item->row_end - item->computed_tokens;
    if (wanted <= most) return wanted;
    if (item->generated) return most; /* any split gives identical bits */
    uint32_t end = (item->computed_tokens + most) / KV_BLOCK_TOKENS * KV_BLOCK_TOKENS;
    return end > item->computed_tokens ? end - item->computed_tokens : 0;
}

static struct schedule_choice choose_prompt(const struct schedule_item *item,
                                            const struct schedule_limits *limits,
                                            struct spending *left) {
    struct schedule_choice choice = {.reason = SCHEDULE_NO_TOKENS};
    uint32_t most =
        left->tokens < limits->chunk_tokens_max ? left->tokens : limits->chunk_tokens_max;
    if (left->prompt_tokens < most) most = left->prompt_tokens;
    if (schedule_row_tokens(item, most) == 0) return choice;
    if (left->prompt_ns < SCHEDULE_UNBOUND)
        most = step_cost_afford(limits->cost, item->computed_tokens, most, left->prompt_ns);
    choice.token_count = schedule_row_tokens(item, most);
    choice.reason = SCHEDULE_NO_TIME;
    if (choice.token_count == 0) return choice;
    left->tokens -= choice.token_count;
    left->prompt_tokens -= choice.token_count;
    if (left->prompt_ns < SCHEDULE_UNBOUND)
        left->prompt_ns -=
            step_cost_run_ns(limits->cost, item->computed_tokens, choice.token_count);
    uint32_t end = item->computed_tokens + choice.token_count;
    choice.reason = end == item->known_tokens ? SCHEDULE_PROMPT_END : SCHEDULE_CHUNK;
    return choice;
}

static bool constraint_fits(const struct schedule_item *item, const struct spending *left) {
    return item->constraint_bytes <= left->constraint_bytes &&
           item->constraint_tokens <= left->constraint_tokens;
}

/* A waiting request starts only together with its first chunk, so that it never holds idle
 * pages. */
static struct schedule_choice choose_waiting(const struct schedule_item *item,
                                             const struct schedule_limits *limits,
                                             struct spending *left) {
    struct unit_capacity capacity = {
        .pages_available = left->pages,
        .rows_max = limits->rows_max,
        .rows_running = left->rows_running,
        .waits = left->waits || item->unseen,
    };
    struct schedule_choice choice = {0};
    switch (admit_start(item->pages_needed, &capacity)) {
    case ADMIT_NOW:
        if (constraint_fits(item, left))
            choice = choose_prompt(item, limits, left);
        else
            choice.reason = SCHEDULE_NO_BYTES;
        break;
    case ADMIT_WAIT_TURN:
        choice.reason = SCHEDULE_WAITS_TURN;
        break;
    case ADMIT_WAIT_ROWS:
        choice.reason = SCHEDULE_WAITS_ROWS;
        break;
    default:
        choice.reason = SCHEDULE_WAITS_PAGES;
        break;
    }
    choice.starts = choice.token_count > 0;
    if (choice.starts) {
        left->pages -= item->pages_needed;
        left->rows_running++;
    } else {
        left->waits = true;
    }
    return choice;
}

/* The minimum number of tokens of a decode row. */
static uint32_t decode_tokens_min(const struct schedule_item *item) {
    return item->phase == SCHEDULE_DECODE ? 1 + item->draft_tokens : 0;
}

/* Chooses one token, and forced tokens after it as long as other decode rows, and a block for
 * prompts, keep their tokens. */
static struct schedule_choice choose_decode(const struct schedule_item *item,
                                            struct spending *left) {
    uint32_t wanted = item->row_end - item->computed_tokens + item->draft_tokens;
    check(left->tokens > item->draft_tokens);
    check(item->draft_tokens == 0 || wanted == 1 + item->draft_tokens);
    uint32_t kept = left->promised + KV_BLOCK_TOKENS, least = decode_tokens_min(item);
    uint32_t most = left->tokens > kept + least ? left->tokens - kept : least;
    uint32_t taken = wanted < most ? wanted : most;
    left->tokens -= taken;
    return (struct schedule_choice){.token_count = taken - item->draft_tokens,
                                    .reason =
                                        taken < wanted ? SCHEDULE_CHUNK : SCHEDULE_NEXT_TOKEN};
}

static struct schedule_choice schedule_choose(const struct schedule_item *item,
                                              const struct schedule_limits *limits,
                                              struct spending *left) {
    struct schedule_choice choice = {.reason = SCHEDULE_NO_BYTES};
    left->promised -= decode_tokens_min(item);
    if (item->phase == SCHEDULE_WAITING)
        choice = choose_waiting(item, limits, left);
    else if (constraint_fits(item, left))
        choice = item->phase == SCHEDULE_DECODE ? choose_decode(item, left)
                                                : choose_prompt(item, limits, left);
    if (choice.token_count == 0) return choice;
    left->constraint_bytes -= item->constraint_bytes;
    left->constraint_tokens -= item->constraint_tokens;
    return choice;
}

uint32_t schedule_step(const struct schedule_item *items, uint32_t item_count,
                       const struct schedule_limits *limits, const uint32_t *order,
                       struct schedule_choice *choices_out) {
    check(limits->tokens_max >= limits->rows_max + KV_BLOCK_TOKENS);
    check(limits->chunk_tokens_max >= KV_BLOCK_TOKENS);
    check(!limits->prompt_tokens_max || limits->prompt_tokens_max >= KV_BLOCK_TOKENS);
    struct spending left = {.tokens = limits->tokens_max,
                            .prompt_tokens = limits->prompt_tokens_max ? limits->prompt_tokens_max
                                                                       : limits->tokens_max,
                            .pages = limits->pages_available,
                            .constraint_bytes = limits->constraint_bytes_max,
                            .constraint_tokens = limits->constraint_tokens_max,
                            .prompt_ns = limits->prompt_ns_max};
    for (uint32_t i = 0; i < item_count; i++) {
        left.rows_running += items[i].phase != SCHEDULE_WAITING;
        left.promised += decode_tokens_min(&items[i]);
    }
    check(left.rows_running <= limits->rows_max);
    uint32_t running = 0, idle = item_count;
    for (uint32_t i = 0; i < item_count; i++) {
        struct schedule_choice choice = schedule_choose(&items[order[i]], limits, &left);
        choice.item = order[i];
        choices_out[choice.token_count ? running++ : --idle] = choice;
    }
    /* restore the order of the idle items */
    for (uint32_t a = running, b = item_count; a + 1 < b; a++) {
        struct schedule_choice moved = choices_out[a];
        choices_out[a] = choices_out[--b];
        choices_out[b] = moved;
    }
    return running;
}

uint32_t schedule_portion(const struct step_cost *cost, const struct schedule_item *item,
                          double answers_ns) {
    uint32_t wanted = item->row_end - item->computed_tokens;
    uint32_t blocks = SCHEDULE_PORTION_BLOCKS;
    for (; blocks > 1; blocks--) {
        uint32_t tokens = blocks * KV_BLOCK_TOKENS;
        if (tokens > wanted) tokens = wanted;
        double ns = step_cost_run_ns(cost, item->computed_tokens, tokens);
        if (ns <= SCHEDULE_PORTION_ANSWERS * answers_ns) break;
    }
    return wanted < blocks * KV_BLOCK_TOKENS ? wanted : blocks * KV_BLOCK_TOKENS;
}

double schedule_earn(const struct schedule_pace *pace, double saved_ns, double answers_ns,
                     double portion_ns, int64_t waited_ns) {
    double earned = pace->target_ns ? (double)pace->target_ns - answers_ns
                                    : answers_ns * (pace->stretch_percent - 100.0) / 100.0;
    double least = portion_ns / SCHEDULE_PORTION_STEPS;
    if (earned < least) earned = least;
    if (waited_ns > pace->patience_ns) earned *= (double)waited_ns / (double)pace->patience_ns;
    double most = earned > portion_ns ? earned : portion_ns;
    return saved_ns + earned < most ? saved_ns + earned : most;
}
