/* SPDX-License-Identifier: Apache-2.0
 * A block of threads takes 128 tokens of a run and a head. One warpgroup brings the queries and,
 * two blocks of 128 keys ahead, keys and values. The two others take 64 tokens each: while the
 * tensor cores weigh a block's values, they turn the next block's scores into probabilities, which
 * stay in registers as an operand of the next product. What they wait for in a round is the scores'
 * product alone.
 */
#include "compute/kernels/cuda/mla_prompt.h"

#include "compute/kernels/cuda/prompt_places.cuh"
#include "compute/kernels/cuda/softmax_rows.cuh"

#define TILE MLA_PROMPT_TILE
#define HALF (TILE / 2) /* tokens of a warpgroup */
#define CHANNELS 64u
#define BOX_BYTES (TILE * CHANNELS * 2)
#define STAGES 2u
#define THREADS (3 * GPU_WARPGROUP)
#define CONSUMING_WARPS 8
#define SCORES 64 /* of a thread: 64 x 128 of a warpgroup */
#define STEPS 8   /* of 16 keys */

/* ---- keys leave their pages ---- */

#define TAKE_THREADS 256u
#define TAKE_WARPS (TAKE_THREADS / GPU_WARP)
#define PIECE 8u /* channels: 16 bytes */

struct take_job {
    struct mla_prompt_runs runs;
    struct mla_prompt_rows rows;
    struct mla_prompt_round round;
    float *latents;
    uint16_t *rounded, *tails;
};

GPU_DEVICE void store_floats(float *to, const struct gpu_words *pairs) {
    GPU_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        struct gpu_words words;
        GPU_UNROLL
        for (uint32_t k = 0; k < 2; k++) {
            words.word[2 * k] = pairs->word[2 * i + k] << 16;
            words.word[2 * k + 1] = pairs->word[2 * i + k] & 0xFFFF0000u;
        }
        gpu_store16(to + 4 * i, words);
    }
}

/* A warp takes a place, a lane 8 channels at a time. */
GPU_KERNEL(TAKE_THREADS) mla_take(struct take_job job) {
    uint32_t at = gpu_block() * TAKE_WARPS + gpu_thread() / GPU_WARP;
    uint32_t rank = job.rows.rank, rope = job.rows.rope;
    if (at >= job.round.count) return;
    const char *row = find_row(&job.runs, &job.rows, job.round.first + at);
    for (uint32_t i = gpu_thread() % GPU_WARP * PIECE; i < rank + rope; i += GPU_WARP * PIECE) {
        struct gpu_words words = {};
        if (row) words = gpu_load16(row + i * sizeof(uint16_t));
        if (i >= rank)
            gpu_store16(job.tails + (size_t)at * rope + (i - rank), words);
        else if (job.latents)
            store_floats(job.latents + (size_t)at * rank + i, &words);
        else
            gpu_store16(job.rounded + (size_t)at * rank + i, words);
    }
}

void mla_prompt_take(void *stream, const struct mla_prompt_runs *runs,
                     const struct mla_prompt_rows *rows, const struct mla_prompt_round *round,
                     float *latents, uint16_t *rounded, uint16_t *tails) {
    struct take_job job = {*runs, *rows, *round, latents, rounded, tails};
    struct gpu_shape shape = {(round->count + TAKE_WARPS - 1) / TAKE_WARPS, 1, TAKE_THREADS, 0};
    if (round->count) gpu_launch("mla_take", mla_take, shape, stream, job);
}

/* ---- attention ---- */

struct prompt_job {
    struct mla_prompt_runs runs;
    struct mla_prompt_round round;
    float *marks; /* [row][head]: the largest score, the sum of probabilities */
    float *y;
    float scale; /* of base 2 */
    uint32_t heads, value, nope_boxes;
};

/* Boxes of 64 channels: of queries and keys, of values. */
template <int KEYS, int VALUES> struct prompt_stages {
    char q[KEYS][BOX_BYTES];
    char keys[STAGES][KEYS][BOX_BYTES];
    char values[STAGES][VALUES][BOX_BYTES];
    uint64_t q_full, keys_full[STAGES], keys_empty[STAGES], values_full[STAGES],
        values_empty[STAGES];
};

/* A block's tokens, and which of their blocks of keys the round has. */
struct prompt_tile {
    uint32_t row, rows;
    uint32_t index, kv_first;        /* the first token's own key; keys before it are none */
    uint32_t place;                  /* of key 0, less the round's first (modulo 2^32) */
    uint32_t first_block, end_block; /* of 128 keys */
    bool begins, ends;               /* no round before has any, none behind */
};

GPU_DEVICE uint32_t least(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

/* Blocks of the run that has its places from `place` on. */
GPU_DEVICE void find_blocks(const struct prompt_job *job, uint32_t place,
                            struct prompt_tile *tile) {
    uint32_t first = tile->kv_first / TILE, end = (tile->index + tile->rows - 1) / TILE + 1;
    uint32_t round_end = job->round.first + job->round.count;
    uint32_t behind = job->round.first > place ? (job->round.first - place) / TILE : 0;
    uint32_t before = round_end > place ? (round_end - place) / TILE : 0;
    tile->place = place - job->round.first;
    tile->first_block = behind > first ? behind : first;
    tile->end_block = least(before, end);
    tile->begins = tile->first_block == first;
    tile->ends = tile->end_block == end;
}

/* False: the round has none of its keys. */
GPU_DEVICE bool find_tile(const struct prompt_job *job, uint32_t number, struct prompt_tile *tile) {
    uint32_t place = 0;
    for (uint32_t i = 0; i < job->runs.count; i++) {
        struct mla_prompt_run run = job->runs.runs[i];
        uint32_t tiles = tiles_of(run.count);
        if (number >= tiles) {
            number -= tiles;
            place += tiles_of(keys_of(&job->runs, &run)) * TILE;
            continue;
        }
        tile->row = run.first + number * TILE;
        tile->rows = least(run.count - number * TILE, TILE);
        tile->index = job->runs.kv_index[tile->row];
        tile->kv_first = run.kv_first;
        find_blocks(job, place, tile);
        return tile->first_block < tile->end_block;
    }
    return false;
}

/* Box i of queries or keys: its own channels, then the rotated ones. */
GPU_DEVICE void load_box(char *to, const struct tensor_map *own, const struct tensor_map *rotated,
                         const struct prompt_job *job, uint32_t i, uint32_t rotated_head,
                         uint32_t row, uint64_t *barrier) {
    if (i < job->nope_boxes)
        gpu_load_box(to, own, barrier, (int32_t)(i * CHANNELS), (int32_t)gpu_block_y(),
                     (int32_t)row);
    else
        gpu_load_box(to, rotated, barrier, (int32_t)((i - job->nope_boxes) * CHANNELS),
                     (int32_t)rotated_head, (int32_t)row);
}

/* One thread brings all. */
template <int KEYS, int VALUES>
GPU_DEVICE void produce(const struct tensor_map *q_nope, const struct tensor_map *q_rope,
                        const struct tensor_map *k_nope, const struct tensor_map *k_rope,
                        const struct tensor_map *values, const struct prompt_job *job,
                        const struct prompt_tile *tile, struct prompt_stages<KEYS, VALUES> *room) {
    gpu_barrier_expect(&room->q_full, sizeof room->q);
    for (uint32_t i = 0; i < KEYS; i++)
        load_box(room->q[i], q_nope, q_rope, job, i, gpu_block_y(), tile->row, &room->q_full);
    uint32_t turn = 0;
    for (uint32_t block = tile->first_block; block < tile->end_block; block++, turn++) {
        uint32_t at = turn % STAGES, parity = turn / STAGES % 2 ^ 1;
        uint32_t place = tile->place + block * TILE;
        gpu_barrier_wait(&room->keys_empty[at], parity);
        gpu_barrier_expect(&room->keys_full[at], sizeof room->keys[at]);
        for (uint32_t i = 0; i < KEYS; i++)
            load_box(room->keys[at][i], k_nope, k_rope, job, i, 0, place, &room->keys_full[at]);
        gpu_barrier_wait(&room->values_empty[at], parity);
        gpu_barrier_expect(&room->values_full[at], sizeof room->values[at]);
        for (uint32_t i = 0; i < VALUES; i++)
            gpu_load_box(room->values[at][i], values, &room->values_full[at],
                         (int32_t)(i * CHANNELS), (int32_t)gpu_block_y(), (int32_t)place);
    }
}

/* Where a thread stands: its first row in the tile. */
struct prompt_place {
    uint32_t half, row, lane;
};

/* Puts the product of 64 queries and a block's keys in line. */
template <int KEYS, int VALUES>
GPU_DEVICE void begin_scores(float (&s)[SCORES], const struct prompt_stages<KEYS, VALUES> *room,
                             uint32_t at, uint32_t half) {
    uint32_t q = gpu_shared_address(room->q[0]) + half * (BOX_BYTES / 2);
    uint32_t keys = gpu_shared_address(room->keys[at][0]);
    gpu_pin(s);
    gpu_wgmma_fence();
    GPU_UNROLL
    for (uint32_t i = 0; i < KEYS * 4; i++) {
        uint32_t offset = i / 4 * BOX_BYTES + i % 4 * 32;
        gpu_wgmma_bf16<0>(s, gpu_operand(q + offset), gpu_operand(keys + offset), i != 0);
    }
    gpu_wgmma_commit();
}

/* Puts y += probabilities times a block's values in line. */
template <int KEYS, int VALUES>
GPU_DEVICE void begin_values(float (&y)[VALUES * 32], const uint32_t (&p)[STEPS][4],
                             const struct prompt_stages<KEYS, VALUES> *room, uint32_t at) {
    uint32_t values = gpu_shared_address(room->values[at][0]);
    gpu_pin(y);
    gpu_wgmma_fence();
    GPU_UNROLL
    for (uint32_t step = 0; step < STEPS; step++)
        gpu_wgmma_bf16<1>(
            y, p[step], gpu_operand_transposed(values + step * 16 * CHANNELS * 2, BOX_BYTES), true);
    gpu_wgmma_commit();
}

/* The warp has read what the barrier's stage holds. */
GPU_DEVICE void let_go(uint64_t *empty, uint32_t lane) {
    gpu_sync_warp();
    if (lane == 0) gpu_barrier_arrive(empty);
}

/* Scores of keys that a row does not see. */
GPU_DEVICE void hide(float (&s)[SCORES], const struct prompt_tile *tile,
                     const struct prompt_place *own, uint32_t first_key) {
    if (first_key + TILE - 1 <= tile->index + own->half * HALF && first_key >= tile->kv_first)
        return; /* all rows see all */
    GPU_UNROLL
    for (uint32_t i = 0; i < SCORES; i++) {
        uint32_t key = first_key + i / 4 * 8 + own->lane % 4 * 2 + i % 2;
        uint32_t last = tile->index + own->row + i / 2 % 2 * 8;
        if (key < tile->kv_first || key > last) s[i] = gpu_float(0xFF800000u);
    }
}

/* Scores become probabilities, and the maxima and sums go on. Returns by what earlier sums shrink.
 * */
GPU_DEVICE struct two soften(float (&s)[SCORES], float scale, struct two *maxima,
                             struct two *sums) {
    struct two now = *maxima, factor, offset, more = {{0, 0}};
    GPU_UNROLL
    for (uint32_t i = 0; i < SCORES; i++)
        now.value[i / 2 % 2] = larger(now.value[i / 2 % 2], s[i]);
    GPU_UNROLL
    for (uint32_t r = 0; r < 2; r++) {
        now.value[r] = row_largest(now.value[r]);
        offset.value[r] = now.value[r] * scale;
        factor.value[r] = gpu_power2((maxima->value[r] - now.value[r]) * scale);
    }
    GPU_UNROLL
    for (uint32_t i = 0; i < SCORES; i++) {
        uint32_t r = i / 2 % 2;
        s[i] = gpu_power2(gpu_fma(s[i], scale, -offset.value[r]));
        more.value[r] = more.value[r] + s[i];
    }
    GPU_UNROLL
    for (uint32_t r = 0; r < 2; r++)
        sums->value[r] = gpu_fma(sums->value[r], factor.value[r], row_total(more.value[r]));
    *maxima = now;
    return factor;
}

/* Rounded to BF16, as wgmma takes a left operand: a thread's two rows, keys 2t and 2t + 8 of each
 * 16. */
GPU_DEVICE void pack(uint32_t (&p)[STEPS][4], const float (&s)[SCORES]) {
    GPU_UNROLL
    for (uint32_t i = 0; i < SCORES / 2; i++)
        p[i / 4][i % 4] = gpu_to_bf16_pair(s[2 * i], s[2 * i + 1]);
}

/* Reads the state that an earlier round left. */
template <int COUNT>
GPU_DEVICE void take_up(float (&y)[COUNT], const struct prompt_job *job,
                        const struct prompt_tile *tile, const struct prompt_place *own,
                        struct two *maxima, struct two *sums) {
    GPU_UNROLL
    for (uint32_t r = 0; r < 2; r++) {
        uint32_t row = own->row + r * 8;
        if (row >= tile->rows) continue;
        size_t at = (size_t)(tile->row + row) * job->heads + gpu_block_y();
        maxima->value[r] = job->marks[at * 2];
        sums->value[r] = job->marks[at * 2 + 1];
    }
    GPU_UNROLL
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t row = own->row + i / 2 % 2 * 8, channel = i / 4 * 8 + own->lane % 4 * 2 + i % 2;
        if (row >= tile->rows || channel >= job->value) continue;
        size_t at = (size_t)(tile->row + row) * job->heads + gpu_block_y();
        y[i] = job->y[at * job->value + channel];
    }
}

template <int COUNT>
GPU_DEVICE void store(const float (&y)[COUNT], const struct prompt_job *job,
                      const struct prompt_tile *tile, const struct prompt_place *own,
                      const struct two *maxima, const struct two *sums) {
    struct two factor = {{1, 1}};
    GPU_UNROLL
    for (uint32_t r = 0; r < 2; r++)
        if (tile->ends) factor.value[r] = gpu_divide(1.0f, sums->value[r]);
    GPU_UNROLL
    for (uint32_t i = 0; i < COUNT; i += 2) {
        uint32_t r = i / 2 % 2, row = own->row + r * 8, channel = i / 4 * 8 + own->lane % 4 * 2;
        if (row >= tile->rows || channel >= job->value) continue;
        size_t at = (size_t)(tile->row + row) * job->heads + gpu_block_y();
        gpu_store_pair(job->y + at * job->value + channel, y[i] * factor.value[r],
                       y[i + 1] * factor.value[r]);
        if (channel == 0 && !tile->ends)
            gpu_store_pair(job->marks + at * 2, maxima->value[r], sums->value[r]);
    }
}

/* How many of the round's blocks a row of the warpgroup sees. */
GPU_DEVICE uint32_t own_blocks(const struct prompt_tile *tile, uint32_t half) {
    if (half * HALF >= tile->rows) return 0;
    uint32_t last = tile->index + least(half * HALF + HALF, tile->rows) - 1;
    uint32_t end = least(last / TILE + 1, tile->end_block);
    return end > tile->first_block ? end - tile->first_block : 0;
}

template <int KEYS, int VALUES>
GPU_DEVICE void attend(float (&y)[VALUES * 32], const struct prompt_job *job,
                       const struct prompt_tile *tile, struct prompt_stages<KEYS, VALUES> *room,
                       const struct prompt_place *own, uint32_t blocks, struct two *maxima,
                       struct two *sums) {
    float s[SCORES];
    uint32_t p[STEPS][4];
    gpu_barrier_wait(&room->keys_full[0], 0);
    begin_scores<KEYS, VALUES>(s, room, 0, own->half);
    gpu_wgmma_wait<0>();
    gpu_pin(s);
    let_go(&room->keys_empty[0], own->lane);
    hide(s, tile, own, tile->first_block * TILE);
    struct two factor = soften(s, job->scale, maxima, sums);
    GPU_UNROLL
    for (uint32_t i = 0; i < VALUES * 32; i++)
        y[i] = y[i] * factor.value[i / 2 % 2];
    pack(p, s);
    for (uint32_t turn = 1; turn < blocks; turn++) {
        uint32_t at = turn % STAGES, before = (turn - 1) % STAGES;
        gpu_barrier_wait(&room->keys_full[at], turn / STAGES % 2);
        begin_scores<KEYS, VALUES>(s, room, at, own->half);
        gpu_barrier_wait(&room->values_full[before], (turn - 1) / STAGES % 2);
        begin_values<KEYS, VALUES>(y, p, room, before);
        gpu_wgmma_wait<1>();
        gpu_pin(s);
        let_go(&room->keys_empty[at], own->lane);
        hide(s, tile, own, (tile->first_block + turn) * TILE);
        factor = soften(s, job->scale, maxima, sums);
        gpu_wgmma_wait<0>();
        gpu_pin(y);
        let_go(&room->values_empty[before], own->lane);
        GPU_UNROLL
        for (uint32_t i = 0; i < VALUES * 32; i++)
            y[i] = y[i] * factor.value[i / 2 % 2];
        pack(p, s);
    }
    uint32_t last = (blocks - 1) % STAGES;
    gpu_barrier_wait(&room->values_full[last], (blocks - 1) / STAGES % 2);
    begin_values<KEYS, VALUES>(y, p, room, last);
    gpu_wgmma_wait<0>();
    gpu_pin(y);
    let_go(&room->values_empty[last], own->lane);
}

template <int KEYS, int VALUES>
GPU_DEVICE void consume(const struct prompt_job *job, const struct prompt_tile *tile,
                        struct prompt_stages<KEYS, VALUES> *room) {
    uint32_t half = gpu_thread() / GPU_WARPGROUP - 1, lane = gpu_thread() % GPU_WARP;
    uint32_t row = half * HALF + gpu_thread() % GPU_WARPGROUP / GPU_WARP * 16 + lane / 4;
    struct prompt_place own = {half, row, lane};
    uint32_t blocks = own_blocks(tile, half);
    float lowest = gpu_float(0xFF800000u);
    struct two maxima = {{lowest, lowest}}, sums = {{0, 0}};
    float y[VALUES * 32] = {0};
    if (!tile->begins) take_up(y, job, tile, &own, &maxima, &sums);
    gpu_barrier_wait(&room->q_full, 0);
    if (blocks) attend<KEYS, VALUES>(y, job, tile, room, &own, blocks, &maxima, &sums);
    for (uint32_t turn = blocks; turn < tile->end_block - tile->first_block; turn++) {
        uint32_t at = turn % STAGES, parity = turn / STAGES % 2; /* the other half's alone */
        gpu_barrier_wait(&room->keys_full[at], parity);
        let_go(&room->keys_empty[at], lane);
        gpu_barrier_wait(&room->values_full[at], parity);
        let_go(&room->values_empty[at], lane);
    }
    store(y, job, tile, &own, &maxima, &sums);
}

template <int KEYS, int VALUES>
GPU_KERNEL(THREADS)
mla_prompt(GPU_MAP q_nope, GPU_MAP q_rope, GPU_MAP k_nope, GPU_MAP k_rope, GPU_MAP values,
           struct prompt_job job) {
    struct prompt_stages<KEYS, VALUES> *room = (struct prompt_stages<KEYS, VALUES> *)gpu_shared();
    struct prompt_tile tile;
    /* The last of a run's tiles have the most keys: they come first. */
    if (!find_tile(&job, gpu_grid() - 1 - gpu_block(), &tile)) return;
    if (gpu_thread() == 0) {
        gpu_barrier_init(&room->q_full, 1);
        for (uint32_t i = 0; i < STAGES; i++) {
            gpu_barrier_init(&room->keys_full[i], 1);
            gpu_barrier_init(&room->values_full[i], 1);
            gpu_barrier_init(&room->keys_empty[i], CONSUMING_WARPS);
            gpu_barrier_init(&room->values_empty[i], CONSUMING_WARPS);
        }
        gpu_barriers_ready();
    }
    gpu_sync();
    if (gpu_thread() < GPU_WARPGROUP) {
        gpu_registers_give<40>();
        if (gpu_thread() == 0)
            produce<KEYS, VALUES>(&q_nope, &q_rope, &k_nope, &k_rope, &values, &job, &tile, room);
    } else {
        gpu_registers_take<232>();
        consume<KEYS, VALUES>(&job, &tile, room);
    }
}

/* ---- the host's side ---- */

static uint32_t boxes_of(uint32_t channels) {
    return (channels + CHANNELS - 1) / CHANNELS;
}

/* Rows of heads of `channels`, from the first head's first on. */
static bool make_map(struct tensor_map *map_out, const uint16_t *first, uint32_t channels,
                     uint32_t heads, uint32_t rows, uint64_t head_pitch, uint64_t row_pitch) {
    struct tensor_map_form form = {};
    form.base = first;
    form.type = MAP_ELEMENT_BF16;
    form.dimensions = 3;
    form.size[0] = channels;
    form.size[1] = heads;
    form.size[2] = rows;
    form.box[0] = CHANNELS;
    form.box[1] = 1;
    form.box[2] = TILE;
    form.pitch[0] = head_pitch;
    form.pitch[1] = row_pitch;
    form.swizzle = true;
    return tensor_map_make(map_out, &form);
}

bool mla_prompt_make(struct mla_prompt_maps *maps_out, const struct mla_prompt_heads *of,
                     const uint16_t *queries, uint64_t pitch, uint32_t rows,
                     const uint16_t *expanded, const uint16_t *tails, uint32_t places) {
    uint64_t q_head = (of->nope + of->rope) * sizeof(uint16_t), tail = of->rope * sizeof(uint16_t);
    uint64_t head = (of->nope + of->value) * sizeof(uint16_t), all = of->heads * head;
    maps_out->of = *of;
    return (of->nope | of->rope | of->value) % 8 == 0 && of->nope <= 128 && of->value <= 128 &&
           of->rope <= 64 &&
           make_map(&maps_out->q_nope, queries, of->nope, of->heads, rows, q_head, pitch) &&
           make_map(&maps_out->q_rope, queries + of->nope, of->rope, of->heads, rows, q_head,
                    pitch) &&
           make_map(&maps_out->k_nope, expanded, of->nope, of->heads, places, head, all) &&
           make_map(&maps_out->k_rope, tails, of->rope, 1, places, tail, tail) &&
           make_map(&maps_out->values, expanded + of->nope, of->value, of->heads, places, head,
                    all);
}

template <int KEYS, int VALUES>
static void launch(void *stream, const struct mla_prompt_maps *maps, const struct prompt_job *job,
                   uint32_t tiles) {
    struct gpu_shape shape = {tiles, job->heads, THREADS,
                              sizeof(struct prompt_stages<KEYS, VALUES>)};
    gpu_launch("mla_prompt", mla_prompt<KEYS, VALUES>, shape, stream, maps->q_nope, maps->q_rope,
               maps->k_nope, maps->k_rope, maps->values, *job);
}

void mla_prompt_attend(void *stream, const struct mla_prompt_maps *maps,
                       const struct mla_prompt_runs *runs, const struct mla_prompt_round *round,
                       uint32_t tiles, float *marks, float *y) {
    const struct mla_prompt_heads *of = &maps->of;
    struct prompt_job job = {
        *runs, *round, marks, y, of->scale * LOG2E, of->heads, of->value, boxes_of(of->nope)};
    if (!tiles || !round->count) return;
    if (of->nope <= 64 && of->value <= 64)
        launch<2, 1>(stream, maps, &job, tiles);
    else
        launch<3, 2>(stream, maps, &job, tiles);
}
