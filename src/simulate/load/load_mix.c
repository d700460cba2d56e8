/* SPDX-License-Identifier: Apache-2.0
 * A heap holds the conversations that have another turn, by its time. The draws of a turn depend
 * only on the number of the conversation and of the turn. Because prompts only grow, the id of a
 * block is a hash of the conversation (or of its system prompt) and the block's position.
 */
#include "simulate/load/load_mix.h"

#include <math.h>

#include "base/heap.h"
#include "base/limits.h"

#define HEAP_SPARE 1024
#define PAST_TURNS 16 /* length of the past, in mean durations of a conversation */
#define SYSTEM_NAMES ((uint64_t)1 << 63)

enum { DRAW_START, DRAW_TURN };

struct mix_turn {
    int64_t at_ns;
    uint64_t talk;   /* number of the conversation */
    uint32_t turn;   /* 0: the first */
    uint32_t said;   /* tokens of the earlier turns, including answers */
    uint32_t stored; /* prompt tokens from before the run */
};

struct load_mix {
    struct load_mix_options options;
    struct draw_lengths answers, texts;
    struct mix_turn *heap; /* [room], the earliest first */
    uint32_t count, room;
    uint64_t talks, given, cut;
    double start_s;   /* start of the next conversation */
    uint64_t *blocks; /* [tokens_max / KV_BLOCK_TOKENS + 1] of the last request returned */
};

static bool load_mix_is_before(const void *context, const void *a, const void *b) {
    const struct mix_turn *one = a, *other = b;
    return one->at_ns != other->at_ns ? one->at_ns < other->at_ns : one->talk < other->talk;
}

static const struct heap_order turns_order = {sizeof(struct mix_turn), load_mix_is_before, NULL};

/* ---- times ---- */

static double mean_gap_s(const struct load_mix_options *options) {
    return options->think_s + options->ttft_s + options->shape.answer_tokens * options->tpot_s;
}

static double past_s(const struct load_mix_options *options) {
    return options->past ? PAST_TURNS * options->shape.turns * mean_gap_s(options) : 0;
}

static double start_gap_s(struct load_mix *mix) {
    struct load_dice dice = {mix->options.seed, mix->talks, DRAW_START, 0};
    double mean = mix->options.shape.turns / mix->options.requests_per_s;
    return mix->options.arrival_cv == 1 ? load_draw_exponential(&dice, mean)
                                        : load_draw_gamma(&dice, mean, mix->options.arrival_cv);
}

static int64_t load_mix_ns_of(double seconds) {
    return (int64_t)llround(seconds * 1e9);
}

/* ---- turns ---- */

/* The length of a system prompt: whole blocks, with the right mean over all system prompts. */
static uint32_t system_tokens(const struct load_mix *mix, uint64_t system) {
    double blocks = mix->options.shape.system_tokens / KV_BLOCK_TOKENS, whole = floor(blocks);
    /* The first system prompts have one block more. */
    double more = (blocks - whole) * mix->options.shape.systems;
    return KV_BLOCK_TOKENS * ((uint32_t)whole + ((double)system + 0.5 < more ? 1 : 0));
}

static uint64_t system_of(const struct load_mix *mix, uint64_t talk) {
    return load_draw_hash(mix->options.seed ^ SYSTEM_NAMES, talk) % mix->options.shape.systems;
}

/* A turn, drawn at its time. */
struct drawn_turn {
    uint32_t prompt, answer;
    bool fits, goes_on;
    double think_s;
};

static struct drawn_turn draw_turn(const struct load_mix *mix, const struct mix_turn *turn) {
    const struct load_shape *shape = &mix->options.shape;
    struct load_dice dice = {mix->options.seed, load_draw_hash(turn->talk, turn->turn), DRAW_TURN,
                             0};
    struct drawn_turn drawn = {0};
    uint32_t said = turn->turn ? turn->said : system_tokens(mix, system_of(mix, turn->talk));
    drawn.prompt = said + load_draw_length(&dice, &mix->texts);
    drawn.answer = load_draw_length(&dice, &mix->answers);
    drawn.goes_on = load_draw_uniform(&dice) < 1 - 1 / shape->turns;
    drawn.think_s = load_draw_exponential(&dice, mix->options.think_s);
    drawn.fits = (uint64_t)drawn.prompt + drawn.answer <= shape->tokens_max;
    return drawn;
}

/* Removes the earliest turn from the heap. */
static struct mix_turn take_turn(struct load_mix *mix) {
    int64_t start_ns = load_mix_ns_of(mix->start_s);
    if (mix->count && mix->heap[0].at_ns <= start_ns) {
        heap_pop(&turns_order, NULL, mix->heap, mix->count--);
        return mix->heap[mix->count];
    }
    struct mix_turn turn = {.at_ns = start_ns, .talk = mix->talks++};
    mix->start_s += start_gap_s(mix);
    turn.stored = system_tokens(mix, system_of(mix, turn.talk));
    return turn;
}

static void push_next(struct load_mix *mix, const struct mix_turn *turn,
                      const struct drawn_turn *drawn, int64_t end_ns) {
    if (!drawn->goes_on) return;
    if (mix->count == mix->room) {
        mix->cut++;
        return;
    }
    uint32_t blocks = drawn->prompt / KV_BLOCK_TOKENS;
    mix->heap[mix->count] = (struct mix_turn){
        .at_ns = end_ns + load_mix_ns_of(drawn->think_s),
        .talk = turn->talk,
        .turn = turn->turn + 1,
        .said = drawn->prompt + drawn->answer,
        .stored = turn->at_ns < 0 ? blocks * KV_BLOCK_TOKENS : turn->stored,
    };
    heap_sift_up(&turns_order, NULL, mix->heap, mix->count++);
}

static void fill_blocks(struct load_mix *mix, const struct mix_turn *turn, uint32_t prompt) {
    uint64_t system = system_of(mix, turn->talk);
    uint32_t shared = system_tokens(mix, system) / KV_BLOCK_TOKENS;
    uint64_t talk_name = load_draw_hash(mix->options.seed, turn->talk);
    uint64_t system_name = load_draw_hash(mix->options.seed, SYSTEM_NAMES | system);
    for (uint32_t i = 0; i < prompt / KV_BLOCK_TOKENS; i++)
        mix->blocks[i] = load_draw_hash(i < shared ? system_name : talk_name, i);
}

/* Makes a standing request of a past turn that is still being answered at time 0. Returns false if
 * the answer is over. */
static bool place_in_past(const struct load_mix *mix, const struct mix_turn *turn, int64_t end_ns,
                          const struct drawn_turn *drawn, struct simulator_request *request) {
    if (end_ns <= 0) return false;
    double answering = -1e-9 * (double)turn->at_ns - mix->options.ttft_s;
    double said = answering > 0 ? floor(answering / mix->options.tpot_s) : 0;
    uint32_t already = said < drawn->answer - 1 ? (uint32_t)said : drawn->answer - 1;
    request->arrival_ns = 0;
    request->standing = 1;
    request->prompt_tokens += already;
    request->answer_tokens -= already;
    return true;
}

static bool load_mix_next_request(void *self, struct simulator_request *request_out) {
    struct load_mix *mix = self;
    for (;;) {
        if (mix->options.requests && mix->given == mix->options.requests) return false;
        struct mix_turn turn = take_turn(mix);
        struct drawn_turn drawn = draw_turn(mix, &turn);
        if (!drawn.fits) continue;
        double seconds = mix->options.ttft_s + drawn.answer * mix->options.tpot_s;
        int64_t end_ns = turn.at_ns + load_mix_ns_of(seconds);
        push_next(mix, &turn, &drawn, end_ns);
        struct simulator_request request = {
            .arrival_ns = turn.at_ns,
            .prompt_tokens = drawn.prompt,
            .answer_tokens = drawn.answer,
            .blocks = mix->blocks,
            .block_tokens = KV_BLOCK_TOKENS,
            .stored_tokens = mix->options.stored ? turn.stored : 0,
            .tenant = turn.talk,
        };
        if (turn.at_ns < 0 && !place_in_past(mix, &turn, end_ns, &drawn, &request)) continue;
        if (!request.standing) mix->given++;
        request.block_count = request.prompt_tokens / KV_BLOCK_TOKENS;
        fill_blocks(mix, &turn, request.prompt_tokens);
        *request_out = request;
        return true;
    }
}

/* ---- opening ---- */

static size_t heap_room(const struct load_mix_options *options) {
    double waiting = options->requests_per_s * mean_gap_s(options);
    return (size_t)(2 * waiting) + HEAP_SPARE;
}

static size_t blocks_room(const struct load_mix_options *options) {
    return options->shape.tokens_max / KV_BLOCK_TOKENS + 1;
}

size_t load_mix_bytes(const struct load_mix_options *options) {
    return sizeof(struct load_mix) + heap_room(options) * sizeof(struct mix_turn) +
           blocks_room(options) * sizeof(uint64_t) + 64;
}

enum status load_mix_open(struct arena *arena, const struct load_mix_options *options,
                          struct load_mix **mix_out, struct error *error) {
    const struct load_shape *shape = &options->shape;
    struct load_mix *mix = arena_take_zeroed(arena, sizeof *mix);
    size_t room = heap_room(options);
    struct mix_turn *heap = arena_take(arena, room * sizeof *heap);
    uint64_t *blocks = arena_take(arena, blocks_room(options) * sizeof *blocks);
    if (!mix || !heap || !blocks)
        return error_set(error, STATUS_NO_MEMORY, "no memory for the load's conversations");
    mix->options = *options;
    mix->heap = heap;
    mix->room = (uint32_t)room;
    mix->blocks = blocks;
    if (!load_draw_fit(shape->answer_tokens, shape->answer_cv, shape->tokens_max, &mix->answers) ||
        !load_draw_fit(shape->text_tokens, shape->text_cv, shape->tokens_max, &mix->texts))
        return error_set(error, STATUS_INVALID,
                         "answers of %.0f tokens or texts of %.0f do not fit into tokens_max %u",
                         shape->answer_tokens, shape->text_tokens, shape->tokens_max);
    mix->start_s = -past_s(options);
    mix->start_s += start_gap_s(mix);
    *mix_out = mix;
    return STATUS_OK;
}

struct simulator_source load_mix_source(struct load_mix *mix) {
    return (struct simulator_source){mix, load_mix_next_request};
}

uint64_t load_mix_cut(const struct load_mix *mix) {
    return mix->cut;
}
