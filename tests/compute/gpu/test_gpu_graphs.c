/* SPDX-License-Identifier: Apache-2.0
 * Protects walks that a device keeps as graphs: steps of generated tokens give the same bits
 * whether their layers are put in line anew or by a graph that was captured with other tokens,
 * other numbers of them and other pages; what makes a step unlike others is never captured; no more
 * graphs are kept than there is room for. With an MTP layer, whose own work stands before and
 * behind the graph, drafts are the same, too. What a host value in a graph would do is planted at
 * the seam, for each kernel, and found.
 *
 * Any step, by a graph or not, takes no memory of the device and has the host wait for its logits
 * and its end alone.
 *
 *   test_gpu_graphs           reference bodies, beside the CPU's bits
 *   test_gpu_graphs planted   the planted bugs
 *   test_gpu_graphs_kernels   kernels for GPUs, emulated, beside themselves without graphs
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../golden/golden.h"
#include "base/check.h"
#include "compute/device/device.h"
#include "compute/emulated/compute_emulated.h"
#include "compute/emulated/gpu_reference.h"
#include "compute/gpu/compute_gpu.h"
#include "compute/gpu/gpu_graphs.h"
#include "compute/gpu/gpu_state.h"
#include "compute/model/draft.h"
#include "compute/model/forward.h"
#include "contract/machine.h"
#include "host/engine/solo.h"

#define SEQUENCES 6
#define CONTEXT 128
#define LONG_CONTEXT 1152
#define STEP_TOKENS 64

static uint64_t random_state;

static uint32_t draw(uint32_t below) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((random_state >> 33) % below);
}

static const struct gpu_kernels *kernels_used; /* NULL: reference bodies */

static uint32_t context = CONTEXT;

static struct solo *open_solo(const struct model_device *device, enum activations activations,
                              uint64_t seed) {
    static char directory[512];
    struct error error;
    struct solo *solo;
    snprintf(directory, sizeof directory, "%s/v2lite-softmax-greedy-yarn", golden_home());
    struct solo_options options = {.model = {.directory = directory,
                                             .activations = activations,
                                             .device = device,
                                             .device_seed = seed,
                                             .device_kernels = kernels_used,
                                             .level = kernels_detect_fma1(),
                                             .threads = 1,
                                             .step_tokens_max = STEP_TOKENS},
                                   .sequences = SEQUENCES,
                                   .context_max = context};
    if (solo_open(&options, &solo, &error) != STATUS_OK) fail_msg("%s", error.text);
    return solo;
}

static struct gpu_graphs *graphs_of(const struct solo *solo) {
    return solo_model(solo)->gpu->graphs;
}

/* ---- steps ---- */

static uint32_t lengths[SEQUENCES], vocab;
static uint32_t pairs_each; /* of a token */
static uint32_t tokens[STEP_TOKENS];

struct drawn_step {
    struct solo_row rows[SEQUENCES];
    uint32_t count, token_count;
    enum overlap_kind overlap;
    struct step_cut cuts[OVERLAP_MICRO_BATCHES - 1];
};

static void add_row(struct drawn_step *step, uint32_t sequence, enum mla_mode format,
                    uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        tokens[step->token_count + i] = draw(vocab);
    step->rows[step->count++] = (struct solo_row){.sequence = sequence,
                                                  .form = format,
                                                  .tokens = tokens + step->token_count,
                                                  .token_count = count,
                                                  .logits_count = count > 3 ? 1 : count};
    step->token_count += count;
}

/* Any of the sequences, in any order, with a token each; now and then two, or a prompt among
 * them. */
static struct drawn_step draw_step(void) {
    struct drawn_step step = {.overlap = OVERLAP_SEQUENTIAL};
    uint32_t order[SEQUENCES], most = 1 + draw(SEQUENCES), prompt = draw(12);
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        uint32_t at = draw(i + 1);
        order[i] = order[at];
        order[at] = i;
    }
    for (uint32_t i = 0; i < most; i++) {
        bool prompts = i == 0 && prompt == 0;
        add_row(&step, order[i], prompts ? TOKEN_PROMPT : TOKEN_GENERATED,
                prompts ? 5 : 1 + (draw(10) == 0));
    }
    if (draw(4)) return step;
    step.overlap = (enum overlap_kind)draw(OVERLAP_KIND_COUNT);
    for (uint32_t i = 0; i < OVERLAP_MICRO_BATCHES - 1; i++)
        step.cuts[i] = (struct step_cut){.row = 1 + draw(2)};
    return step;
}

static uint32_t take(struct solo *solo, const struct drawn_step *step, float *logits) {
    struct error error;
    uint32_t rows = 0;
    for (uint32_t i = 0; i < step->count; i++)
        rows += step->rows[i].logits_count;
    memset(logits, 0xFF, (size_t)rows * vocab * sizeof *logits);
    solo_cut_next(solo, step->overlap, step->cuts);
    if (solo_step(solo, step->rows, step->count, logits, NULL, &error)) fail_msg("%s", error.text);
    return rows;
}

/* Sequences that have become too long begin anew. */
static void follow(const struct drawn_step *step, struct solo *const *solos, uint32_t count) {
    for (uint32_t i = 0; i < step->count; i++)
        lengths[step->rows[i].sequence] += step->rows[i].token_count;
    for (uint32_t i = 0; i < SEQUENCES; i++)
        if (lengths[i] > context - 8 || draw(60) == 0) {
            lengths[i] = 0;
            for (uint32_t k = 0; k < count; k++)
                solo_reset(solos[k], i);
        }
}

/* The graph that was used last holds for the step. */
static void expect_bounds(const struct gpu_graphs *graphs, const struct drawn_step *step) {
    const struct gpu_captured_step *last = &graphs->kept[0];
    if (!graphs->is_step) return;
    for (uint32_t i = 1; i < GPU_CAPTURED_STEPS_MAX; i++)
        if (graphs->kept[i].used > last->used) last = &graphs->kept[i];
    uint32_t keys = 0, tokens_max = 0;
    for (uint32_t micro_batch = 0; micro_batch < last->step_shape.micro_batches; micro_batch++)
        if (last->step_shape.rows[micro_batch])
            tokens_max = last->step_shape.first[micro_batch] + last->step_shape.rows[micro_batch];
    assert_true(tokens_max >= step->token_count);
    for (uint32_t i = 0; i < step->count; i++) {
        uint32_t end = lengths[step->rows[i].sequence] + step->rows[i].token_count;
        assert_int_equal(step->rows[i].form, TOKEN_GENERATED);
        if (end > keys) keys = end;
    }
    assert_true(last->step_shape.keys_max >= keys);
}

/* False: a step's logits differ. */
static bool run_steps(struct solo *expected, struct solo *found, uint32_t steps) {
    struct solo *const both[] = {expected, found};
    size_t bytes = (size_t)2 * SEQUENCES * vocab * sizeof(float);
    float *one = malloc(bytes), *other = malloc(bytes);
    bool same = true;
    check(one && other);
    for (uint32_t i = 0; i < steps && same; i++) {
        struct drawn_step step = draw_step();
        uint32_t rows = take(expected, &step, one);
        take(found, &step, other);
        expect_bounds(graphs_of(found), &step);
        same = !memcmp(one, other, (size_t)rows * vocab * sizeof(float));
        follow(&step, both, 2);
    }
    free(one);
    free(other);
    return same;
}

static void begin(struct solo *solo, uint64_t seed) {
    memset(lengths, 0, sizeof lengths);
    random_state = seed;
    vocab = model_shape(solo_model(solo))->vocab;
    pairs_each = model_shape(solo_model(solo))->experts_per_token;
}

#ifndef GRAPHS_ON_KERNELS

#define SEEDS 2
#define STEPS 60

/* One sequence gets a context of some tokens less than 1,024. */
static void lengthen(struct solo *const *solos, uint32_t count) {
    float *logits = malloc(vocab * sizeof *logits);
    check(logits);
    while (lengths[0] < 1000) {
        struct drawn_step step = {.overlap = OVERLAP_SEQUENTIAL};
        add_row(&step, 0, TOKEN_GENERATED, 50);
        for (uint32_t i = 0; i < count; i++)
            take(solos[i], &step, logits);
        lengths[0] += 50;
    }
    free(logits);
}

static void graphs_change_no_bit(void **state) {
    uint64_t captured = 0, launched = 0, walks = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        enum activations activations = seed % 2 ? ACTIVATIONS_BF16 : ACTIVATIONS_F32;
        context = seed == 0 ? LONG_CONTEXT : CONTEXT;
        struct solo *cpu = open_solo(&model_on_cpu, activations, 0);
        struct solo *there = open_solo(&model_on_emulated, activations, seed);
        struct solo *const both[] = {cpu, there};
        begin(cpu, seed);
        if (seed == 0) lengthen(both, 2);
        if (!run_steps(cpu, there, STEPS)) fail_msg("seed %llu differs", (unsigned long long)seed);
        captured += graphs_of(there)->captured;
        launched += graphs_of(there)->launched;
        walks += graphs_of(there)->walks;
        solo_close(cpu);
        solo_close(there);
    }
    print_message("# %u steps that might be graphs: %u captured, %u launched\n", (uint32_t)walks,
                  (uint32_t)captured, (uint32_t)launched);
    assert_true(launched > 2 * captured && captured > 3 * SEEDS);
}

static uint32_t token_count; /* of the step, for what is planted */

/* ---- drafts ---- */

enum { DRAFTED = 4, PAGES = 3, DRAFT_STEPS = 80, PLAN_BYTES = 1 << 14 };

static struct model *open_drafting(const struct model_device *device, uint64_t seed) {
    static char directory[512];
    struct error error;
    struct model *model;
    snprintf(directory, sizeof directory, "%s/v3-bf16-negbias-dense0-mtp", golden_home());
    struct model_options options = {.directory = directory,
                                    .activations = ACTIVATIONS_BF16,
                                    .device = device,
                                    .device_seed = seed,
                                    .level = kernels_detect_fma1(),
                                    .threads = 1,
                                    .kv_bytes = (uint64_t)4 << 20,
                                    .step_tokens_max = STEP_TOKENS,
                                    .step_rows_max = DRAFTED,
                                    .mtp = true};
    if (model_open(&options, &model, &error) != STATUS_OK) fail_msg("%s", error.text);
    return model;
}

static _Alignas(16) char plan_memory[PLAN_BYTES];
static struct step_plan *const plan = (struct step_plan *)(void *)plan_memory;

/* Some of the sequences with a generated token each, that perhaps wants a draft behind it. */
static void plan_drafts(const uint32_t *done, uint32_t first, uint32_t rows) {
    memset(plan_memory, 0, sizeof plan_memory);
    *plan = (struct step_plan){.row_count = rows, .token_count = rows, .page_count = rows * PAGES};
    record_set_head(plan, RECORD_RUN_STEP);
    check(plan->record.bytes <= PLAN_BYTES);
    for (uint32_t i = 0; i < rows; i++) {
        uint32_t sequence = (first + i) % DRAFTED, at = done[sequence];
        step_plan_rows(plan)[i] =
            (struct step_row){.slot = sequence,
                              .form = TOKEN_GENERATED,
                              .first_position = at,
                              .token_count = 1,
                              .token_index = i,
                              .page_index = i * PAGES,
                              .page_count = PAGES,
                              .logits_count = 1,
                              .sample = 1,
                              .draft_count = at && step_drafts_fit(at + 1, 1) && draw(3),
                              .fresh = at == 0,
                              .sampling = {.top_p = 1}};
        step_plan_tokens(plan)[i] = draw(vocab);
        for (uint32_t page = 0; page < PAGES; page++)
            step_plan_pages(plan)[i * PAGES + page].index = page * DRAFTED + sequence;
    }
}

/* False: logits or drafts differ. Drafts are taken for right now and then, whatever they are. */
static bool draft_alike(struct model *const models[2], uint32_t steps) {
    static float logits[2][2 * DRAFTED * 512];
    uint32_t done[DRAFTED] = {0};
    struct error error;
    for (uint32_t step = 0; step < steps; step++) {
        uint32_t rows = 1 + draw(DRAFTED), outputs = rows;
        plan_drafts(done, draw(DRAFTED), rows);
        token_count = rows;
        for (uint32_t i = 0; i < 2; i++)
            if (forward_run(models[i], plan, logits[i], NULL, &error)) fail_msg("%s", error.text);
        for (uint32_t i = 0; i < rows; i++) {
            const struct step_row *row = &step_plan_rows(plan)[i];
            struct model_draft one = draft_of_row(models[0], i), other = draft_of_row(models[1], i);
            if (one.count != other.count || (one.count && one.tokens[0] != other.tokens[0]))
                return false;
            outputs += one.count;
            done[row->slot] += 1 + (one.count && draw(2));
            if (done[row->slot] + 4 > PAGES * KV_BLOCK_TOKENS) done[row->slot] = 0;
        }
        if (memcmp(logits[0], logits[1], (size_t)outputs * vocab * sizeof(float))) return false;
    }
    return true;
}

static void begin_drafting(struct model *const models[2], uint64_t seed) {
    random_state = seed;
    vocab = model_shape(models[0])->vocab;
    pairs_each = model_shape(models[0])->experts_per_token;
    check(vocab <= 512);
}

static void graphs_change_no_draft(void **state) {
    struct model *const models[2] = {open_drafting(&model_on_cpu, 0),
                                     open_drafting(&model_on_emulated, 9)};
    const struct gpu_graphs *graphs = models[1]->gpu->graphs;
    begin_drafting(models, 9);
    assert_true(draft_alike(models, DRAFT_STEPS));
    print_message("# %u steps with drafts: %u captured, %u launched\n", (uint32_t)graphs->walks,
                  (uint32_t)graphs->captured, (uint32_t)graphs->launched);
    assert_true(graphs->captured > 2 && graphs->launched > DRAFT_STEPS / 2);
    model_close(models[0]);
    model_close(models[1]);
}

/* Four rows, again and again. */
static uint64_t launches_of_step(struct solo *solo) {
    struct drawn_step step = {.overlap = OVERLAP_SEQUENTIAL};
    float *logits = malloc(4 * vocab * sizeof *logits);
    check(logits);
    for (uint32_t i = 0; i < 4; i++)
        add_row(&step, i, TOKEN_GENERATED, 1);
    uint64_t before = solo_model(solo)->gpu->launches;
    take(solo, &step, logits);
    free(logits);
    return solo_model(solo)->gpu->launches - before;
}

static void a_graph_saves_a_steps_launches(void **state) {
    struct solo *solo = open_solo(&model_on_emulated, ACTIVATIONS_BF16, 1);
    begin(solo, 1);
    uint64_t first = launches_of_step(solo);
    uint64_t second = launches_of_step(solo); /* is captured */
    uint64_t third = launches_of_step(solo);
    print_message("# a step of 3 layers: %u launches; by a graph: %u, and the graph's\n",
                  (uint32_t)first, (uint32_t)third);
    assert_int_equal(first, second);
    assert_int_equal(third, 3); /* norm, its format and the product of the logits */
    assert_int_equal(graphs_of(solo)->launched, 2);
    solo_close(solo);
}

static void no_more_graphs_are_kept_than_there_is_room_for(void **state) {
    struct solo *solo = open_solo(&model_on_emulated, ACTIVATIONS_F32, 2);
    begin(solo, 2);
    float *logits = malloc(2 * SEQUENCES * vocab * sizeof *logits);
    check(logits);
    for (uint32_t turn = 0; turn < 2 * (GPU_CAPTURED_STEPS_MAX + 8); turn++) { /* each cut twice */
        struct drawn_step step = {.overlap = OVERLAP_OCTO_BATCH};
        for (uint32_t i = 0; i < SEQUENCES; i++)
            add_row(&step, i, TOKEN_GENERATED, 1 + (turn / 2 >> i) % 2);
        for (uint32_t i = 0; i < OVERLAP_MICRO_BATCHES - 1; i++)
            step.cuts[i].row = 1 + i;
        take(solo, &step, logits);
    }
    assert_int_equal(graphs_of(solo)->captured, GPU_CAPTURED_STEPS_MAX + 8);
    free(logits);
    solo_close(solo); /* the device says if a graph was left behind */
}

/* ---- what a step asks of its device beside work ---- */

static const struct device_backend *counted_body;
static uint32_t taken,
    waited; /* memory, streams and events; the host's waits for what was not over */

static enum status count_memory(struct device *device, size_t bytes, const char *what,
                                enum device_memory kind, void **memory_out, struct error *error) {
    taken++;
    return counted_body->allocate(device, bytes, what, kind, memory_out, error);
}

static enum status count_stream(struct device *device, struct device_stream **stream_out,
                                struct error *error) {
    taken++;
    return counted_body->open_stream(device, stream_out, error);
}

static enum status count_event(struct device *device, bool timed, struct device_event **event_out,
                               struct error *error) {
    taken++;
    return counted_body->open_event(device, timed, event_out, error);
}

static enum status count_wait(struct device *device, struct device_event *event,
                              struct error *error) {
    waited += !counted_body->event_done(device, event);
    return counted_body->synchronize_event(device, event, error);
}

static enum status count_wait_for_stream(struct device *device, struct device_stream *stream,
                                         struct error *error) {
    waited++;
    return counted_body->synchronize_stream(device, stream, error);
}

/* Of any step, prompts and several lanes among them, the host reads logits, and what its end
 * brings. */
static void a_step_takes_nothing_and_waits_for_logits_and_its_end(void **state) {
    struct solo *solo = open_solo(&model_on_emulated, ACTIVATIONS_BF16, 3);
    struct device *device = solo_model(solo)->device;
    counted_body = device->backend;
    struct device_backend counting = *counted_body;
    counting.allocate = count_memory;
    counting.open_stream = count_stream;
    counting.open_event = count_event;
    counting.synchronize_event = count_wait;
    counting.synchronize_stream = count_wait_for_stream;
    begin(solo, 3);
    float *logits = malloc((size_t)2 * SEQUENCES * vocab * sizeof *logits);
    check(logits);
    device->backend = &counting;
    for (uint32_t i = 0; i < STEPS; i++) {
        struct drawn_step step = draw_step();
        taken = waited = 0;
        take(solo, &step, logits);
        assert_int_equal(taken, 0);
        assert_int_equal(waited, 2);
        follow(&step, &solo, 1);
    }
    device->backend = counted_body;
    assert_true(graphs_of(solo)->launched > 0);
    free(logits);
    solo_close(solo);
}

/* ---- planted bugs ---- */

/* Where an entry's arguments have what a graph may not fix. */
struct entry {
    const char *name;
    const struct device_kernel *kernel;
    size_t live_at, rows_at;
    uint32_t each; /* rows for each token; 0: as many as experts are chosen */
};
#define ENTRY(entry, type, rows, each)                                                             \
    { #entry, &gpu_reference.entry, offsetof(struct type, live), offsetof(struct type, rows), each }
static const struct entry entries[] = {
    ENTRY(embed, gpu_embed, rows, 1),     ENTRY(prepare, gpu_prepare, rows, 1),
    ENTRY(product, gpu_product, rows, 1), ENTRY(activate, gpu_activate, rows, 1),
    ENTRY(add, gpu_add, rows, 1),         ENTRY(latent, gpu_latent, rows, 1),
    ENTRY(queries, gpu_queries, rows, 1), ENTRY(absorb, gpu_absorb, rows, 1),
    ENTRY(core, gpu_core, rows, 1),       ENTRY(release, gpu_release, rows, 1),
    ENTRY(route, gpu_route, rows, 1),     ENTRY(sort, gpu_sort, tokens, 1),
    ENTRY(gather, gpu_gather, rows, 0),   ENTRY(combine, gpu_combine, tokens, 1),
};

static const struct device_backend *true_body;
static struct device_backend planted_body;
static const struct entry *planted; /* NULL: arrays do not come */
static struct gpu_graphs *watched;

/* The host's count instead of the device's. */
static void launch_with_a_host_value(struct device *device, struct device_stream *stream,
                                     const struct device_kernel *kernel, const void *arguments,
                                     size_t bytes) {
    _Alignas(16) char changed[DEVICE_ARGUMENT_BYTES];
    memcpy(changed, arguments, bytes);
    if (planted && kernel == planted->kernel && watched->step && !watched->step->is_captured) {
        uint32_t *live = NULL;
        uint32_t each = planted->each ? planted->each : pairs_each;
        uint32_t rows = token_count * each;
        memcpy(changed + planted->live_at, &live, sizeof live);
        memcpy(changed + planted->rows_at, &rows, sizeof rows);
    }
    true_body->launch(device, stream, kernel, changed, bytes);
}

/* The arrays of a step that may be a graph stay where they are. */
static void copy_too_little(struct device *device, struct device_stream *stream,
                            const struct device_copy *copy) {
    if (!planted && copy->direction == DEVICE_FROM_HOST && watched->launched > 1) {
        struct device_copy half = *copy;
        half.row_bytes /= 2;
        true_body->copy(device, stream, &half);
        return;
    }
    true_body->copy(device, stream, copy);
}

#define TURNS 8

/* Three or four rows, and fewer; captured with three. The rows of another turn are other
 * sequences'. */
static struct drawn_step step_of_turn(uint32_t turn) {
    static const uint32_t counts[TURNS] = {4, 3, 4, 1, 4, 3, 2, 4};
    struct drawn_step step = {.overlap = OVERLAP_SEQUENTIAL};
    for (uint32_t i = 0; i < counts[turn]; i++)
        add_row(&step, (turn + i) % SEQUENCES, TOKEN_GENERATED, 1);
    return step;
}

/* What the CPU makes of the turns. */
static const float *expected_of(uint32_t turn) {
    static float all[TURNS][4 * 512];
    static bool done;
    if (done) return all[turn];
    struct solo *cpu = open_solo(&model_on_cpu, ACTIVATIONS_F32, 0);
    begin(cpu, 5);
    check(vocab <= 512);
    for (uint32_t i = 0; i < TURNS; i++) {
        struct drawn_step step = step_of_turn(i);
        take(cpu, &step, all[i]);
    }
    solo_close(cpu);
    done = true;
    return all[turn];
}

/* Whether a bug shows: logits that differ. */
static bool is_found(const struct entry *entry, uint64_t seed) {
    expected_of(0);
    struct solo *there = open_solo(&model_on_emulated, ACTIVATIONS_F32, seed);
    struct device *device = solo_model(there)->device;
    static float logits[4 * 512];
    bool found = false;
    begin(there, 5);
    planted = entry;
    watched = graphs_of(there);
    true_body = device->backend;
    planted_body = *true_body;
    planted_body.launch = launch_with_a_host_value;
    planted_body.copy = copy_too_little;
    device->backend = &planted_body;
    for (uint32_t turn = 0; turn < TURNS && !found; turn++) {
        struct drawn_step step = step_of_turn(turn);
        size_t bytes = (size_t)step.count * vocab * sizeof(float);
        token_count = step.count;
        take(there, &step, logits);
        found = memcmp(expected_of(turn), logits, bytes) != 0;
    }
    device->backend = true_body;
    solo_close(there);
    return found;
}

static void a_host_value_in_a_graph_is_found(void **state) {
    for (size_t i = 0; i < ARRAY_COUNT(entries); i++)
        if (!is_found(&entries[i], i)) fail_msg("%s: nothing differs", entries[i].name);
}

static void arrays_of_another_step_are_found(void **state) {
    assert_true(is_found(NULL, 1));
}

/* A graph that was captured for fewer tokens, or for more. */
static void a_graph_of_other_bounds_is_found(void **state) {
    static float one[4 * 512], other[4 * 512];
    struct solo *cpu = open_solo(&model_on_cpu, ACTIVATIONS_F32, 0);
    struct solo *there = open_solo(&model_on_emulated, ACTIVATIONS_F32, 3);
    begin(cpu, 3);
    for (uint32_t turn = 0; turn < 3; turn++) {
        struct drawn_step step = {.overlap = OVERLAP_SEQUENTIAL};
        for (uint32_t i = 0; i < (turn < 2 ? 2u : 4u); i++)
            add_row(&step, i, TOKEN_GENERATED, 1);
        if (turn == 2) graphs_of(there)->kept[0].step_shape.rows[0] = 4;
        take(cpu, &step, one);
        take(there, &step, other);
        bool same = !memcmp(one, other, (size_t)step.count * vocab * sizeof(float));
        assert_int_equal(same, turn < 2);
    }
    solo_close(cpu);
    solo_close(there);
}

static bool drafts_are_the_same(const struct entry *entry, uint64_t seed) {
    struct model *const models[2] = {open_drafting(&model_on_cpu, 0),
                                     open_drafting(&model_on_emulated, seed)};
    struct device *device = models[1]->device;
    begin_drafting(models, seed);
    planted = entry;
    watched = models[1]->gpu->graphs;
    true_body = device->backend;
    planted_body = *true_body;
    planted_body.launch = launch_with_a_host_value;
    planted_body.copy = copy_too_little;
    device->backend = &planted_body;
    return draft_alike(models, DRAFT_STEPS);
}

/* The same bugs in a graph between MTP's work, each in a process of its own: rows that were never
 * written may lead anywhere, and the end of such a process finds the bug as well. */
static void what_is_planted_is_found_with_drafts(void **state) {
    for (size_t i = 0; i <= ARRAY_COUNT(entries); i++) {
        const struct entry *entry = i < ARRAY_COUNT(entries) ? &entries[i] : NULL;
        int status = 0;
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
            signal(SIGSEGV, SIG_DFL); /* cmocka's would go on with the tests */
            _exit(drafts_are_the_same(entry, i) ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        if (status == 0) fail_msg("%s: nothing differs", entry ? entry->name : "arrays");
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graphs_change_no_bit),
        cmocka_unit_test(graphs_change_no_draft),
        cmocka_unit_test(a_graph_saves_a_steps_launches),
        cmocka_unit_test(no_more_graphs_are_kept_than_there_is_room_for),
        cmocka_unit_test(a_step_takes_nothing_and_waits_for_logits_and_its_end),
        cmocka_unit_test(a_graph_of_other_bounds_is_found),
    };
    const struct CMUnitTest planted_tests[] = {
        cmocka_unit_test(a_host_value_in_a_graph_is_found),
        cmocka_unit_test(arrays_of_another_step_are_found),
        cmocka_unit_test(what_is_planted_is_found_with_drafts),
    };
    if (argc > 1) return cmocka_run_group_tests(planted_tests, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

static void graphs_of_kernels_change_no_bit(void **state) {
    static const enum activations modes[] = {ACTIVATIONS_BF16, ACTIVATIONS_F32};
    kernels_used = &gpu_hopper;
    for (uint32_t i = 0; i < ARRAY_COUNT(modes); i++) {
        struct solo *plain = open_solo(&model_on_emulated, modes[i], 0);
        struct solo *there = open_solo(&model_on_emulated, modes[i], i);
        graphs_of(plain)->off = true;
        begin(plain, i);
        assert_true(run_steps(plain, there, 16));
        print_message("# %s: %u captured, %u launched\n", activations_name(modes[i]),
                      (uint32_t)graphs_of(there)->captured, (uint32_t)graphs_of(there)->launched);
        assert_true(graphs_of(there)->launched > 3);
        assert_int_equal(graphs_of(plain)->launched, 0);
        solo_close(plain);
        solo_close(there);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graphs_of_kernels_change_no_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
