/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/load/load_replay.h"

#include "base/check.h"
#include "base/number.h"
#include "simulate/load/load_draw.h"

struct play {       /* one play of the trace */
    size_t row;     /* next row */
    uint64_t gone;  /* rows since it began */
    double shift_s; /* offset to the times of the rows, before scaling */
};

struct load_replay {
    struct load_replay_options options;
    struct play plays[LOAD_REPLAY_ABREAST_MAX];
    double span_s; /* from the first row of a play to that of the next */
    double speed;
    uint64_t given;
    uint64_t *blocks; /* [most blocks of a row] of the last request returned */
};

/* The time of a row. Without times in the trace, one row arrives per second, before scaling. */
static double row_s(const struct load_replay *replay, size_t row) {
    const struct load_trace *trace = replay->options.trace;
    return trace->has_arrivals ? trace->rows[row].arrival : (double)row;
}

static double due_s(const struct load_replay *replay, const struct play *play) {
    return (row_s(replay, play->row) + play->shift_s) / replay->speed;
}

static bool load_replay_is_over(const struct load_replay *replay, const struct play *play) {
    uint64_t rows = (uint64_t)replay->options.plays * replay->options.trace->count;
    return replay->options.plays && play->gone == rows;
}

static struct play *earliest(struct load_replay *replay) {
    struct play *found = NULL;
    for (uint32_t i = 0; i < replay->options.abreast; i++) {
        struct play *play = &replay->plays[i];
        if (load_replay_is_over(replay, play)) continue;
        if (!found || due_s(replay, play) < due_s(replay, found)) found = play;
    }
    return found;
}

static bool next_row(void *self, struct simulator_request *request_out) {
    struct load_replay *replay = self;
    const struct load_replay_options *options = &replay->options;
    struct play *play = earliest(replay);
    if (!play || (options->requests && replay->given == options->requests)) return false;
    const struct load_trace_row *row = &options->trace->rows[play->row];
    uint64_t round = play->gone / options->trace->count;
    uint64_t name = load_draw_hash(options->seed + (uint64_t)(play - replay->plays), round);
    struct simulator_request request = {
        .arrival_ns = (int64_t)(due_s(replay, play) * 1e9 + 0.5),
        .prompt_tokens = load_trace_scale(row->prompt_tokens, options->block_tokens),
        .answer_tokens = load_trace_scale(row->output_tokens, options->block_tokens),
        .blocks = replay->blocks,
        .block_tokens = options->block_tokens,
        .tenant = replay->given++,
    };
    if (options->tokens_max) {
        request.prompt_tokens = min_u32(request.prompt_tokens, options->tokens_max - 1);
        request.answer_tokens =
            min_u32(request.answer_tokens, options->tokens_max - request.prompt_tokens);
    }
    request.block_count = min_u32(row->block_count, request.prompt_tokens / options->block_tokens);
    for (uint32_t i = 0; i < request.block_count; i++)
        replay->blocks[i] = load_draw_hash(name, options->trace->blocks[row->block_index + i]);
    play->gone++;
    if (++play->row == options->trace->count) {
        play->row = 0;
        play->shift_s += replay->span_s;
    }
    *request_out = request;
    return true;
}

static uint32_t load_replay_blocks_max(const struct load_trace *trace) {
    uint32_t most = 1;
    for (size_t i = 0; i < trace->count; i++)
        most = max_u32(most, trace->rows[i].block_count);
    return most;
}

size_t load_replay_bytes(const struct load_replay_options *options) {
    return sizeof(struct load_replay) + load_replay_blocks_max(options->trace) * sizeof(uint64_t) +
           64;
}

enum status load_replay_open(struct arena *arena, const struct load_replay_options *options,
                             struct load_replay **replay_out, struct error *error) {
    const struct load_trace *trace = options->trace;
    struct load_replay *replay = arena_take_zeroed(arena, sizeof *replay);
    uint64_t *blocks = arena_take(arena, load_replay_blocks_max(trace) * sizeof *blocks);
    if (!replay || !blocks) return error_set(error, STATUS_NO_MEMORY, "no memory for the load");
    check(trace->count > 0 && options->abreast >= 1);
    check(options->abreast <= LOAD_REPLAY_ABREAST_MAX && options->block_tokens >= 1);
    if (!trace->has_arrivals && options->requests_per_s <= 0)
        return error_set(error, STATUS_INVALID,
                         "the trace has no arrival times: give requests_per_s");
    replay->options = *options;
    replay->blocks = blocks;
    double rows = (double)trace->count;
    /* The last row is followed by the mean distance of rows. */
    replay->span_s = row_s(replay, trace->count - 1) * rows / (rows > 1 ? rows - 1 : 1);
    if (replay->span_s <= 0) replay->span_s = 1;
    replay->speed = options->speed;
    if (options->requests_per_s > 0)
        replay->speed = options->requests_per_s * replay->span_s / (rows * options->abreast);
    for (uint32_t i = 0; i < options->abreast; i++) {
        struct play *play = &replay->plays[i];
        play->row = (size_t)i * trace->count / options->abreast;
        play->shift_s = -row_s(replay, play->row);
    }
    *replay_out = replay;
    return STATUS_OK;
}

struct simulator_source load_replay_source(struct load_replay *replay) {
    return (struct simulator_source){replay, next_row};
}
