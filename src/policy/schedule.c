/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/schedule.h"

#include "base/check.h"

const char *schedule_reason_name(enum schedule_reason reason) {
    static const char *const names[SCHEDULE_REASON_COUNT] = {
        [SCHEDULE_NEXT_TOKEN] = "generates its next token",
        [SCHEDULE_PROMPT_END] = "computes its prompt to the end",
        [SCHEDULE_CHUNK] = "computes a chunk of its prompt",
        [SCHEDULE_NO_TOKENS] = "waits: the step's tokens are spent",
        [SCHEDULE_WAITS_TURN] = "waits for its turn",
        [SCHEDULE_WAITS_ROWS] = "waits for a row in the step",
        [SCHEDULE_WAITS_PAGES] = "waits for free pages",
    };
    check(reason < SCHEDULE_REASON_COUNT);
    return names[reason];
}

/* Decode rows, then prompts, under way or waiting; inside: urgency, arrival, slot. */
static bool comes_before(const struct schedule_item *a, const struct schedule_item *b) {
    bool a_decodes = a->phase == SCHEDULE_DECODE, b_decodes = b->phase == SCHEDULE_DECODE;
    if (a_decodes != b_decodes) return a_decodes;
    if (a->priority != b->priority) return a->priority > b->priority;
    if (a->arrival != b->arrival) return a->arrival < b->arrival;
    return a->slot < b->slot;
}

static void sift_down(const struct schedule_item *items, uint32_t *order, uint32_t at,
                      uint32_t count) {
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= count) return;
        if (child + 1 < count && comes_before(&items[order[child]], &items[order[child + 1]]))
            child++;
        if (!comes_before(&items[order[at]], &items[order[child]])) return;
        uint32_t moved = order[at];
        order[at] = order[child];
        order[child] = moved;
        at = child;
    }
}

/* Heap sort: in place, no recursion, same result everywhere. */
static void sort_items(const struct schedule_item *items, uint32_t *order, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    for (uint32_t i = count / 2; i-- > 0;)
        sift_down(items, order, i, count);
    for (uint32_t end = count; end > 1;) {
        uint32_t last = order[--end];
        order[end] = order[0];
        order[0] = last;
        sift_down(items, order, 0, end);
    }
}

struct spending { /* what is left of the step while it is filled */
    uint32_t tokens;
    uint32_t pages;
    uint32_t rows_running;
    bool waits; /* a request before this one could not start */
};

static uint32_t chunk_tokens(const struct schedule_item *item, uint32_t tokens_left,
                             uint32_t chunk_tokens_max) {
    uint32_t wanted = item->prompt_tokens - item->computed_tokens;
    uint32_t most = tokens_left < chunk_tokens_max ? tokens_left : chunk_tokens_max;
    if (wanted <= most) return wanted;
    uint32_t end = (item->computed_tokens + most) / KV_BLOCK_TOKENS * KV_BLOCK_TOKENS;
    return end > item->computed_tokens ? end - item->computed_tokens : 0;
}

static struct schedule_choice choose_prompt(const struct schedule_item *item,
                                            const struct schedule_limits *limits,
                                            struct spending *left) {
    struct schedule_choice choice = {
        .token_count = chunk_tokens(item, left->tokens, limits->chunk_tokens_max)};
    left->tokens -= choice.token_count;
    uint32_t end = item->computed_tokens + choice.token_count;
    choice.reason = choice.token_count == 0      ? SCHEDULE_NO_TOKENS
                    : end == item->prompt_tokens ? SCHEDULE_PROMPT_END
                                                 : SCHEDULE_CHUNK;
    return choice;
}

/* A waiting request starts only together with its first chunk, so that it holds no pages idly. */
static struct schedule_choice choose_waiting(const struct schedule_item *item,
                                             const struct schedule_limits *limits,
                                             struct spending *left) {
    struct admit_need need = {item->prompt_tokens, item->new_tokens_max};
    struct admit_house house = {
        .pages_free = left->pages,
        .rows_max = limits->rows_max,
        .rows_running = left->rows_running,
        .waits = left->waits,
    };
    struct schedule_choice choice = {0};
    switch (admit_start(need, &house)) {
    case ADMIT_NOW:
        choice = choose_prompt(item, limits, left);
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
        left->pages -= (uint32_t)admit_pages(need);
        left->rows_running++;
    } else {
        left->waits = true;
    }
    return choice;
}

static struct schedule_choice choose(const struct schedule_item *item,
                                     const struct schedule_limits *limits, struct spending *left) {
    if (item->phase == SCHEDULE_WAITING) return choose_waiting(item, limits, left);
    if (item->phase == SCHEDULE_PREFILL) return choose_prompt(item, limits, left);
    check(left->tokens > 0);
    left->tokens--;
    return (struct schedule_choice){.token_count = 1, .reason = SCHEDULE_NEXT_TOKEN};
}

uint32_t schedule_step(const struct schedule_item *items, uint32_t item_count,
                       const struct schedule_limits *limits, int64_t now_ns, uint32_t *order,
                       struct schedule_choice *choices_out) {
    (void)now_ns; /* ages will count once there are deadlines */
    check(limits->tokens_max >= limits->rows_max + KV_BLOCK_TOKENS);
    check(limits->chunk_tokens_max >= KV_BLOCK_TOKENS);
    struct spending left = {.tokens = limits->tokens_max, .pages = limits->pages_free};
    for (uint32_t i = 0; i < item_count; i++)
        left.rows_running += items[i].phase != SCHEDULE_WAITING;
    check(left.rows_running <= limits->rows_max);
    sort_items(items, order, item_count);
    uint32_t running = 0, idle = item_count;
    for (uint32_t i = 0; i < item_count; i++) {
        struct schedule_choice choice = choose(&items[order[i]], limits, &left);
        choice.item = order[i];
        choices_out[choice.token_count ? running++ : --idle] = choice;
    }
    for (uint32_t a = running, b = item_count; a + 1 < b; a++) { /* the idle ones, in order again */
        struct schedule_choice moved = choices_out[a];
        choices_out[a] = choices_out[--b];
        choices_out[b] = moved;
    }
    return running;
}
