/* SPDX-License-Identifier: Apache-2.0
 * test_gpu_ranks RANKS [HOSTS]: protects walks that a device keeps by legs, as its rank is one of
 * several. Steps of generated tokens give each rank the bits of one CPU alone for its sequences,
 * whether its layers are put in line anew or by graphs that were captured with other tokens, other
 * numbers of them and other pages, while other ranks have none, or prompts: under any schedule,
 * with drafts, with experts that change their slots between steps, and with rows going from device
 * to device, over comm and by the host. A step by graphs takes no memory of the device, has the
 * host wait no more often than one without, and puts few things in line: how many, of a model of
 * V3's layers, is printed. No more graphs are kept than there is room for. FATHOM_SEEDS="first
 * count" asks for other seeds.
 *
 * test_gpu_ranks RANKS HOSTS deaths: a rank is killed in the middle of a step that is put in line
 * by legs; those that live go on with the legs that they have kept.
 *
 * test_gpu_ranks planted: what a host's value in a leg would do is planted at the seam, for each
 * kernel and copy that legs have, and found; each in a job of its own, as a rank that is led astray
 * may end anywhere.
 *
 * test_gpu_ranks_kernels RANKS: kernels for GPUs, emulated, beside one device with them.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../exchange/on_ranks.h"
#include "compute/device/device.h"
#include "compute/emulated/compute_emulated.h"
#include "compute/emulated/gpu_reference.h"
#include "compute/gpu/compute_gpu.h"
#include "compute/gpu/gpu_graphs.h"
#include "compute/gpu/gpu_state.h"
#include "compute/model/draft.h"
#include "compute/model/forward.h"
#include "compute/weights/random_checkpoint.h"
#include "contract/machine.h"
#include "moving_experts.h"
#include "rank_models.h"

enum { SEQUENCES = 4, PAGES = 3, STEP_TOKENS = 32, PROMPT = 5, VOCAB_MAX = 512 };

static uint32_t hosts;
static struct gpu_kernels kernels; /* without a name: reference bodies, beside a CPU */

static void begin_draws(uint64_t seed) {
    shared_state = seed;
    own_state = 1000 * seed + job_rank();
}

static struct model *open_model(const struct way *way, const struct model_device *device,
                                uint32_t ranks) {
    struct model *model = open_way(
        way, device, ranks,
        (struct model_options){.device_kernels = kernels.numerics ? &kernels : NULL,
                               .kv_bytes = (uint64_t)2 << 20,
                               .step_tokens_max = STEP_TOKENS,
                               .step_rows_max = SEQUENCES,
                               .node_ranks = ranks > 2 && ranks % 2 == 0 ? 2 : 0,
                               .placement_seed = way->in_order ? 0 : 1 + shared_state % 9});
    assert_true(model_page_count(model) >= SEQUENCES * PAGES);
    assert_true(model_shape(model)->vocab <= VOCAB_MAX);
    return model;
}

static struct gpu_graphs *graphs_of(const struct model *model) {
    return model->gpu->graphs;
}

/* ---- steps ---- */

static uint32_t done[SEQUENCES]; /* tokens of each that are computed */
static _Alignas(16) char plan_memory[1 << 14];
static struct step_plan *const plan = (struct step_plan *)(void *)plan_memory;

/* The first row is perhaps a prompt's; the others bring a token each, and may want a draft behind
 * it. */
static void make_plan(uint32_t first, uint32_t rows, bool prompt, bool drafts, uint32_t vocab) {
    uint32_t tokens = rows + (prompt ? PROMPT - 1 : 0), at = 0;
    memset(plan_memory, 0, sizeof plan_memory);
    *plan =
        (struct step_plan){.row_count = rows, .token_count = tokens, .page_count = rows * PAGES};
    record_set_head(plan, RECORD_RUN_STEP);
    assert_true(plan->record.bytes <= sizeof plan_memory);
    for (uint32_t i = 0; i < rows; i++) {
        uint32_t sequence = (first + i) % SEQUENCES, begin = done[sequence];
        uint32_t count = prompt && i == 0 ? PROMPT : 1;
        step_plan_rows(plan)[i] =
            (struct step_row){.slot = sequence,
                              .form = count > 1 ? TOKEN_PROMPT : TOKEN_GENERATED,
                              .first_position = begin,
                              .token_count = count,
                              .token_index = at,
                              .page_index = i * PAGES,
                              .page_count = PAGES,
                              .logits_count = 1,
                              .sample = 1,
                              .draft_count = drafts && count == 1 && begin &&
                                             step_drafts_fit(begin + 1, 1) && draw(3),
                              .fresh = begin == 0,
                              .sampling = {.top_p = 1}};
        for (uint32_t k = 0; k < count; k++)
            step_plan_tokens(plan)[at++] = draw(vocab);
        for (uint32_t page = 0; page < PAGES; page++)
            step_plan_pages(plan)[i * PAGES + page].index = page * SEQUENCES + sequence;
    }
}

/* Most steps are of generated tokens; of kernels all, of about as many. */
static void draw_plan(const struct way *way, uint32_t vocab) {
    uint32_t rows = draw(3) ? 3 + draw(2) : draw(1 + SEQUENCES);
    if (kernels.numerics) {
        make_plan(draw(SEQUENCES), 3 + draw(2), false, way->mtp, vocab);
        return;
    }
    make_plan(draw(SEQUENCES), rows, rows && draw(12) == 0, way->mtp, vocab);
}

/* How the ranks do it, which changes nothing. Mostly one schedule, so that its walks come again.
 * Returns whether by nodes. */
static bool choose_ways(const struct way *way, struct model *there, enum overlap_kind usual) {
    bool by_nodes = draw_shared(2), any = !kernels.numerics && draw_shared(4) == 0,
         as_before = draw(4) > 0;
    plan->overlap = any ? draw_shared(OVERLAP_KIND_COUNT) : usual;
    plan->others_draft = way->mtp;
    for (uint32_t i = 0; i < OVERLAP_MICRO_BATCHES - 1; i++)
        plan->cuts[i].row = as_before ? i + 1 : draw(3) ? 1 + draw(2) : plan->row_count;
    model_go_by_nodes(there, by_nodes);
    return by_nodes;
}

static float logits[2][2 * SEQUENCES * VOCAB_MAX];

/* Both run the plan. False: logits or drafts differ. Drafts are taken for right now and then,
 * whatever they are. */
static bool run_both(const struct way *way, struct model *const models[2],
                     enum overlap_kind usual) {
    struct error error;
    uint32_t outputs = plan->row_count, vocab = model_shape(models[0])->vocab;
    for (uint32_t i = 0; i < 2; i++) {
        if (i) (void)choose_ways(way, models[i], usual);
        if (forward_run(models[i], plan, logits[i], NULL, &error)) fail_msg("%s", error.text);
    }
    for (uint32_t i = 0; i < plan->row_count; i++) {
        const struct step_row *row = &step_plan_rows(plan)[i];
        struct model_draft one = draft_of_row(models[0], i), other = draft_of_row(models[1], i);
        if (one.count != other.count || (one.count && one.tokens[0] != other.tokens[0]))
            return false;
        outputs += one.count;
        done[row->slot] += row->token_count + (one.count && draw(2));
        if (done[row->slot] + PROMPT + 4 > PAGES * KV_BLOCK_TOKENS) done[row->slot] = 0;
    }
    return !memcmp(logits[0], logits[1], (size_t)outputs * vocab * sizeof(float));
}

/* ---- bits ---- */

static uint32_t captured, replayed[OVERLAP_KIND_COUNT]; /* of all seeds */

static uint32_t replayed_of_all(void) {
    uint32_t sum = 0;
    for (uint32_t i = 0; i < OVERLAP_KIND_COUNT; i++)
        sum += replayed[i];
    return sum;
}

static void expect_same(const struct way *way, uint64_t seed, uint32_t steps) {
    enum overlap_kind usual = kernels.numerics ? OVERLAP_SEQUENTIAL : seed % OVERLAP_KIND_COUNT;
    begin_draws(seed);
    memset(done, 0, sizeof done);
    const struct model_device *device = kernels.numerics ? &model_on_emulated : &model_on_cpu;
    struct model *const models[2] = {open_model(way, device, 0),
                                     open_model(way, &model_on_emulated, job_count())};
    enum gpu_transport direct = hosts > 1 ? GPU_VIA_COMM : GPU_VIA_PEER_MEMORY;
    if (kernels.numerics) graphs_of(models[0])->off = true;
    assert_int_equal(models[1]->gpu->transport, way->by_host ? GPU_VIA_HOST : direct);
    for (uint32_t step = 0; step < steps; step++) {
        bool moves = way->moves && draw_shared(4) == 0;
        draw_plan(way, model_shape(models[0])->vocab);
        if (moves) begin_moves(models[1], draw_shared);
        uint64_t before = graphs_of(models[1])->replayed;
        if (!run_both(way, models, usual))
            fail_msg("%s, %s, seed %llu: step %u differs", way->golden,
                     activations_name(way->activations), (unsigned long long)seed, step);
        replayed[plan->overlap] += graphs_of(models[1])->replayed > before;
        if (moves) end_moves(models[1]);
    }
    captured += (uint32_t)graphs_of(models[1])->captured;
    job_barrier();
    model_close(models[1]);
    model_close(models[0]);
}

#ifdef WALKS_ON_KERNELS
#include "compute/kernels/emulate/emulate.h"

static void segments_of_kernels_change_no_bit(void **state) {
    static const struct way ways[] = {
        {GROUPS, ACTIVATIONS_FP8, EXPERT_SUM_GROUPS, .mtp = true},
        {LITE, ACTIVATIONS_BF16, EXPERT_SUM_EXPERTS, .by_host = true},
    };
    kernels = gpu_hopper;
    for (uint32_t i = 0; i < ARRAY_COUNT(ways); i++)
        expect_same(&ways[i], i, 8);
    print_message("# rank 0 captured %u walks, and put %u steps in line by legs\n", captured,
                  replayed_of_all());
    assert_true(captured > 1 && replayed_of_all() > 6);
}

int main(int argc, char **argv) {
    static const struct CMUnitTest tests[] = {cmocka_unit_test(segments_of_kernels_change_no_bit)};
    hosts = argv[2] ? (uint32_t)strtoul(argv[2], NULL, 10) : 1;
    return on_ranks(argv, "gpu_ranks_kernels", tests, 1);
}

#else

static void segments_change_no_bit(void **state) {
    static const struct way ways[] = {
        {LITE, ACTIVATIONS_F32, EXPERT_SUM_EXPERTS, .mtp = false},
        {MTP, ACTIVATIONS_BF16, EXPERT_SUM_EXPERTS, 6, .mtp = true, .moves = true},
        {GROUPS, ACTIVATIONS_FP8, EXPERT_SUM_GROUPS, .mtp = true},
        {GROUPS, ACTIVATIONS_FP8, EXPERT_SUM_GROUPS, 4, .moves = true, .by_host = true},
        {MTP, ACTIVATIONS_BF16, EXPERT_SUM_GROUPS, .mtp = true, .by_host = true},
    };
    const char *asked_for = getenv("FATHOM_SEEDS");
    unsigned long long first = 0, count = 20;
    uint32_t steps = asked_for ? 40 : 28; /* a step of ranks takes long where they outnumber CPUs */
    if (asked_for) assert_int_equal(sscanf(asked_for, "%llu %llu", &first, &count), 2);
    for (uint64_t seed = first; seed < first + count; seed++)
        expect_same(&ways[seed % ARRAY_COUNT(ways)], seed, steps);
    print_message(
        "# %u seeds of %u steps: rank 0 captured %u walks, and put %u steps in line by legs\n",
        (uint32_t)count, steps, captured, replayed_of_all());
    assert_true(captured > count && replayed_of_all() > 3 * count);
    for (uint32_t i = 0; i < OVERLAP_KIND_COUNT && !asked_for; i++) {
        print_message("# of %s: %u\n", overlap_name(i), replayed[i]);
        assert_true(replayed[i] > 2);
    }
}

/* ---- what a step asks of its device ---- */

static struct counts {
    uint32_t entries, copies, events, graphs; /* in line; an event's records and follows */
    uint32_t waits, taken, captures;          /* taken: memory, streams and events */
} counts;
static const struct device_backend *counted_body;

static enum status count_memory(struct device *device, size_t bytes, const char *what,
                                enum device_memory kind, void **memory_out, struct error *error) {
    counts.taken++;
    return counted_body->allocate(device, bytes, what, kind, memory_out, error);
}
static enum status count_stream(struct device *device, struct device_stream **stream_out,
                                struct error *error) {
    counts.taken++;
    return counted_body->open_stream(device, stream_out, error);
}
static enum status count_event(struct device *device, bool timed, struct device_event **event_out,
                               struct error *error) {
    counts.taken++;
    return counted_body->open_event(device, timed, event_out, error);
}
static void count_capture(struct device *device, struct device_stream *stream) {
    counts.captures++;
    counted_body->begin_capture(device, stream);
}
static enum status count_wait(struct device *device, struct device_event *event,
                              struct error *error) {
    counts.waits++;
    return counted_body->synchronize_event(device, event, error);
}
static enum status count_wait_for_stream(struct device *device, struct device_stream *stream,
                                         struct error *error) {
    counts.waits++;
    return counted_body->synchronize_stream(device, stream, error);
}
static void count_launch(struct device *device, struct device_stream *stream,
                         const struct device_kernel *kernel, const void *arguments, size_t bytes) {
    counts.entries++;
    counted_body->launch(device, stream, kernel, arguments, bytes);
}
static void count_copy(struct device *device, struct device_stream *stream,
                       const struct device_copy *copy) {
    counts.copies++;
    counted_body->copy(device, stream, copy);
}
static void count_record(struct device *device, struct device_event *event,
                         struct device_stream *stream) {
    counts.events++;
    counted_body->record(device, event, stream);
}
static void count_follow(struct device *device, struct device_stream *stream,
                         struct device_event *event) {
    counts.events++;
    counted_body->stream_wait_event(device, stream, event);
}
static void count_graph(struct device *device, struct device_stream *stream,
                        struct device_graph *graph) {
    counts.graphs++;
    counted_body->launch_graph(device, stream, graph);
}

static struct device_backend counting_body(const struct device *device) {
    counted_body = device->backend;
    struct device_backend body = *device->backend;
    body.allocate = count_memory;
    body.open_stream = count_stream;
    body.open_event = count_event;
    body.begin_capture = count_capture;
    body.synchronize_event = count_wait;
    body.synchronize_stream = count_wait_for_stream;
    body.launch = count_launch;
    body.copy = count_copy;
    body.record = count_record;
    body.stream_wait_event = count_follow;
    body.launch_graph = count_graph;
    return body;
}

/* Of the plan. */
static struct counts counts_of(struct model *model) {
    struct device_backend body = counting_body(model->device);
    struct error error;
    counts = (struct counts){0};
    model->device->backend = &body;
    enum status status = forward_run(model, plan, logits[0], NULL, &error);
    model->device->backend = counted_body;
    if (status != STATUS_OK) fail_msg("%s", error.text);
    return counts;
}

/* Any step: the first model has no graphs. Rows that pass the host are copied in as many parts
 * either way. */
static void a_step_by_segments_takes_nothing_and_waits_no_more(void **state) {
    static const struct way ways[] = {{MTP, ACTIVATIONS_BF16, EXPERT_SUM_EXPERTS, .mtp = true},
                                      {LITE, ACTIVATIONS_F32, EXPERT_SUM_EXPERTS, .by_host = true}};
    for (uint32_t i = 0; i < ARRAY_COUNT(ways); i++) {
        const struct way *way = &ways[i];
        uint32_t asked = 0;
        begin_draws(i);
        memset(done, 0, sizeof done);
        struct model *plain = open_model(way, &model_on_emulated, job_count());
        struct model *there = open_model(way, &model_on_emulated, job_count());
        graphs_of(plain)->off = true;
        for (uint32_t step = 0; step < 30; step++) {
            draw_plan(way, model_shape(there)->vocab);
            model_go_by_nodes(plain, choose_ways(way, there, OVERLAP_SEQUENTIAL));
            struct counts expected = counts_of(plain), found = counts_of(there);
            assert_int_equal(found.waits, expected.waits);
            assert_int_equal(expected.graphs, 0);
            for (uint32_t k = 0; k < plan->row_count; k++)
                if (++done[step_plan_rows(plan)[k].slot] + PROMPT + 4 > PAGES * KV_BLOCK_TOKENS)
                    done[step_plan_rows(plan)[k].slot] = 0;
            assert_int_equal(found.taken, 0);
            if (found.captures || !found.graphs) continue;
            asked++;
            assert_true(found.entries < expected.entries && found.copies <= expected.copies);
        }
        assert_true(asked > 5);
        job_barrier();
        model_close(there);
        model_close(plain);
    }
}

/* ---- V3's layers ---- */

enum { V3_ROWS = 4 };

static char made[256];

/* As many layers as V3 has, of the same kinds, but small. */
static void make_layers_of_v3(void) {
    static const char config[] =
        "{\"architectures\":[\"DeepseekV3ForCausalLM\"],\"model_type\":\"deepseek_v3\","
        "\"hidden_size\":64,\"intermediate_size\":64,\"moe_intermediate_size\":32,"
        "\"num_hidden_layers\":61,\"first_k_dense_replace\":3,\"moe_layer_freq\":1,"
        "\"n_routed_experts\":8,\"n_shared_experts\":1,\"num_experts_per_tok\":2,\"n_group\":4,"
        "\"topk_group\":2,\"topk_method\":\"noaux_tc\",\"scoring_func\":\"sigmoid\","
        "\"norm_topk_prob\":true,\"routed_scaling_factor\":2.5,\"num_attention_heads\":2,"
        "\"num_key_value_heads\":2,\"q_lora_rank\":32,\"kv_lora_rank\":32,\"qk_nope_head_dim\":16,"
        "\"qk_rope_head_dim\":8,\"v_head_dim\":16,\"rms_norm_eps\":1e-6,\"rope_theta\":10000,"
        "\"max_position_embeddings\":1024,\"vocab_size\":100,\"hidden_act\":\"silu\","
        "\"tie_word_embeddings\":false,\"num_nextn_predict_layers\":0,\"bos_token_id\":0,"
        "\"eos_token_id\":1}";
    struct error error;
    snprintf(made, sizeof made, "%s/fathom-walks-XXXXXX",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    assert_non_null(mkdtemp(made));
    struct random_checkpoint checkpoint = {
        .directory = made, .config = BYTES_LITERAL(config), .seed = 7};
    if (random_checkpoint_write(&checkpoint, &error)) fail_msg("%s", error.text);
}

static void remove_layers_of_v3(void) {
    char command[300];
    snprintf(command, sizeof command, "rm -r '%s'", made);
    assert_int_equal(system(command), 0);
}

static struct model *open_layers_of_v3(bool alone) {
    struct error error;
    struct model *model;
    struct model_options options = {.directory = made,
                                    .activations = ACTIVATIONS_BF16,
                                    .device = &model_on_emulated,
                                    .level = kernels_detect_fma1(),
                                    .threads = 1,
                                    .kv_bytes = (uint64_t)8 << 20,
                                    .step_tokens_max = STEP_TOKENS,
                                    .step_rows_max = SEQUENCES,
                                    .rank = alone ? 0 : job_rank(),
                                    .rank_count = alone ? 0 : job_count()};
    if (model_open(&options, &model, &error) != STATUS_OK) fail_msg("%s", error.text);
    assert_true(model_page_count(model) >= SEQUENCES * PAGES);
    return model;
}

/* The same step again, in one lane or in two. */
static struct counts counts_of_v3(struct model *model, enum overlap_kind overlap) {
    begin_draws(1);
    make_plan(0, V3_ROWS, false, false, model_shape(model)->vocab);
    plan->overlap = overlap;
    plan->cuts[0].row = V3_ROWS / 2;
    return counts_of(model);
}

static uint32_t sum_of(const struct counts *of) {
    return of->entries + of->copies + of->events + of->graphs;
}

static void print_counts(const char *what, const struct counts *of) {
    print_message("# 61 layers, %s: %u entries, %u graphs, %u copies, %u events: %u in all\n", what,
                  of->entries, of->graphs, of->copies, of->events, sum_of(of));
}

/* Of a layer with experts: legs up to the dispatch, of the shared expert, and of rows that came;
 * the first is in two where the host stops for the other lane meanwhile. */
static void segments_save_a_steps_launches(void **state) {
    static const enum overlap_kind kinds[] = {OVERLAP_SEQUENTIAL, OVERLAP_DECODE_FIVE_STAGE};
    enum { LAYERS = 58, HEAD = 3 };
    memset(done, 0, sizeof done);
    make_layers_of_v3();
    struct model *alone = open_layers_of_v3(true), *there = open_layers_of_v3(false);
    struct counts one = counts_of_v3(alone, OVERLAP_SEQUENTIAL);
    assert_int_equal(one.entries, 1740 + HEAD);
    print_counts("alone", &one);
    for (uint32_t micro_batches = 1; micro_batches <= 2; micro_batches++) {
        enum overlap_kind kind = kinds[micro_batches - 1];
        graphs_of(there)->off = true;
        struct counts anew = counts_of_v3(there, kind);
        graphs_of(there)->off = false;
        (void)counts_of_v3(there, kind);
        (void)counts_of_v3(there, kind);
        struct counts kept = counts_of_v3(there, kind);
        print_counts(micro_batches > 1 ? "in two lanes, anew" : "among ranks, anew", &anew);
        print_counts(micro_batches > 1 ? "in two lanes, by legs" : "among ranks, by legs", &kept);
        assert_true(!kept.taken && !kept.captures);
        assert_true(kept.graphs <= (micro_batches > 1 ? 8 * LAYERS + 2 : 3 * LAYERS + 1));
        assert_true((hosts > 1 ? 3 : 6) * sum_of(&kept) < sum_of(&anew));
        if (hosts == 1)
            assert_int_equal(kept.entries, HEAD + (micro_batches > 1)); /* the embedding */
    }
    job_barrier();
    model_close(there);
    model_close(alone);
    remove_layers_of_v3();
}

/* Those of walks that were not used for longest make way, though there is a place for the walk. */
static void no_more_graphs_are_kept_than_there_is_room_for(void **state) {
    const struct way way = {LITE, ACTIVATIONS_F32, EXPERT_SUM_EXPERTS, .mtp = false};
    enum { LANES = 8, LAYERS = 3, MOST = 5 * LANES * LAYERS };
    begin_draws(4);
    memset(done, 0, sizeof done);
    struct model *const models[2] = {open_model(&way, &model_on_cpu, 0),
                                     open_model(&way, &model_on_emulated, job_count())};
    struct gpu_graphs *graphs = graphs_of(models[1]);
    struct error error;
    graphs->most = MOST + 10;
    for (uint32_t turn = 0; turn < 24; turn++) {
        make_plan(turn, SEQUENCES, false, false, model_shape(models[0])->vocab);
        plan->overlap = turn / 8 % 2 ? OVERLAP_SEQUENTIAL : OVERLAP_OCTO_BATCH;
        for (uint32_t i = 0; i < LANES - 1; i++)
            plan->cuts[i].row = turn / 2 % 4 == 3 ? i / 2 : turn / 2 % 4 + i;
        for (uint32_t i = 0; i < 2; i++)
            if (forward_run(models[i], plan, logits[i], NULL, &error)) fail_msg("%s", error.text);
        size_t bytes = (size_t)SEQUENCES * model_shape(models[0])->vocab * sizeof(float);
        assert_memory_equal(logits[0], logits[1], bytes);
        uint32_t kept = 0;
        for (uint32_t i = 0; i < GPU_CAPTURED_STEPS_MAX; i++)
            kept += graphs->kept[i].segment_count;
        assert_int_equal(kept, graphs->count);
        assert_true(kept <= graphs->most);
    }
    assert_true(graphs->captured > 4 && graphs->replayed > 0);
    job_barrier();
    model_close(models[1]);
    model_close(models[0]); /* the device says if a graph was left behind */
}

/* ---- deaths ---- */

enum { DEATHS = 2, LIVES_ON = UINT32_MAX };

static uint32_t graphs_until_death = LIVES_ON;

static void die_behind_a_graph(struct device *device, struct device_stream *stream,
                               struct device_graph *graph) {
    counted_body->launch_graph(device, stream, graph);
    if (graphs_until_death != LIVES_ON && graphs_until_death-- == 0) raise(SIGKILL);
}

/* The rows of a turn on both; what the ranks make of it means nothing if one of them dies
 * meanwhile. */
static void run_turn(struct model *const models[2], uint32_t turn, bool means_nothing) {
    struct error error;
    uint32_t rows = 3 + turn % 2;
    make_plan(turn, rows, false, false, model_shape(models[0])->vocab);
    for (uint32_t i = 0; i < 2; i++)
        if (forward_run(models[i], plan, logits[i], NULL, &error)) fail_msg("%s", error.text);
    if (means_nothing) return;
    assert_memory_equal(logits[0], logits[1], rows * model_shape(models[0])->vocab * sizeof(float));
    for (uint32_t i = 0; i < rows; i++)
        done[step_plan_rows(plan)[i].slot]++;
}

/* Behind its third leg or its fifth: behind a dispatch, and with its experts in line. */
static void those_that_live_go_on_with_their_segments(void **state) {
    struct way way = {LITE, ACTIVATIONS_F32, EXPERT_SUM_EXPERTS, .in_order = true};
    begin_draws(9);
    memset(done, 0, sizeof done);
    struct model *alone = open_model(&way, &model_on_cpu, 0);
    way.redundant = model_shape(alone)->experts * (job_count() - 1);
    struct model *there = open_model(&way, &model_on_emulated, job_count());
    struct model *const models[2] = {alone, there};
    struct device_backend body = *(counted_body = there->device->backend);
    struct gpu_graphs *graphs = graphs_of(there);
    body.launch_graph = die_behind_a_graph;
    for (uint32_t turn = 0; turn < 6; turn++)
        run_turn(models, turn, false);
    uint64_t walks = graphs->captured, steps = graphs->replayed;
    assert_true(walks == 1 && steps == 4);
    there->device->backend = &body;
    for (uint32_t death = 0; death < DEATHS; death++) {
        if (job_rank() == job_count() - 1 - death) graphs_until_death = 2 + 2 * death;
        run_turn(models, 0, true);
        while (!job_poll())
            ;
        job_regroup();
        leave_out_the_dead(there);
        for (uint32_t turn = 0; turn < 4; turn++)
            run_turn(models, turn, false);
    }
    assert_int_equal(graphs->captured, walks);
    assert_int_equal(graphs->replayed, steps + DEATHS * 5);
    there->device->backend = counted_body;
    job_barrier();
    model_close(there);
    model_close(alone);
}

/* ---- planted bugs ---- */

/* Where an entry's arguments have what a graph may not fix. */
struct entry {
    const char *name;
    const struct device_kernel *kernel;
    size_t live_at, rows_at;
    bool of_rows; /* that came */
};
#define ENTRY(entry, type, rows, of_rows)                                                          \
    {                                                                                              \
#entry, &gpu_reference.entry, offsetof(struct type, live), offsetof(struct type, rows),    \
            of_rows                                                                                \
    }
static const struct entry entries[] = {
    ENTRY(embed, gpu_embed, rows, false),       ENTRY(prepare, gpu_prepare, rows, false),
    ENTRY(product, gpu_product, rows, false),   ENTRY(activate, gpu_activate, rows, false),
    ENTRY(add, gpu_add, rows, false),           ENTRY(latent, gpu_latent, rows, false),
    ENTRY(queries, gpu_queries, rows, false),   ENTRY(absorb, gpu_absorb, rows, false),
    ENTRY(core, gpu_core, rows, false),         ENTRY(release, gpu_release, rows, false),
    ENTRY(route, gpu_route, rows, false),       ENTRY(gather, gpu_gather, rows, false),
    ENTRY(combine, gpu_combine, tokens, false), ENTRY(gather, gpu_gather, rows, true),
    ENTRY(activate, gpu_activate, rows, true),  ENTRY(prepare, gpu_prepare, rows, true),
};

/* Copies that legs have, which bring as much as the host wants when they are captured. */
enum { COPY_CHOICES, COPY_WEIGHTS, COPY_PAIRS, COPY_GROUPS, COPY_PLACES, COPY_COUNT };
static const char *const copy_names[COPY_COUNT] = {"choices", "weights of choices", "results' rows",
                                                   "groups", "rows' node_ranks"};

/* Graphs that were captured for fewer tokens, or for fewer rows that came. Behind the last nothing
 * is planted. */
enum { PLANT_TOKENS = ARRAY_COUNT(entries) + COPY_COUNT, PLANT_ROWS, PLANTS };

static const char *name_of_plant(uint32_t plant) {
    if (plant < ARRAY_COUNT(entries)) return entries[plant].name;
    if (plant < PLANT_TOKENS) return copy_names[plant - ARRAY_COUNT(entries)];
    return plant == PLANT_TOKENS ? "fewer tokens" : "fewer rows";
}

static struct planting {
    uint32_t plant;
    const struct model *model;
    uint32_t captures;     /* that are open */
    bool of_rows;          /* experts of rows that came are captured */
    uint32_t tokens, rows; /* of the step; that came, when they are captured */
    uint32_t to_host;      /* copies of the capture so far */
} planting;

static void begin_planted_capture(struct device *device, struct device_stream *stream) {
    counted_body->begin_capture(device, stream);
    planting.captures++;
    planting.of_rows = false;
    planting.to_host = 0;
}

static enum status end_planted_capture(struct device *device, struct device_stream *stream,
                                       struct device_graph **graph_out, struct error *error) {
    planting.captures--;
    return counted_body->end_capture(device, stream, graph_out, error);
}

/* The host's count instead of the device's. */
static void launch_planted(struct device *device, struct device_stream *stream,
                           const struct device_kernel *kernel, const void *arguments,
                           size_t bytes) {
    _Alignas(16) char changed[DEVICE_ARGUMENT_BYTES];
    const struct entry *entry =
        planting.plant < ARRAY_COUNT(entries) ? &entries[planting.plant] : NULL;
    memcpy(changed, arguments, bytes);
    if (entry && planting.captures && kernel == entry->kernel &&
        planting.of_rows == entry->of_rows) {
        uint32_t *live, rows = entry->of_rows ? planting.rows : planting.tokens;
        memcpy(&live, changed + entry->live_at, sizeof live);
        if (live) memcpy(changed + entry->rows_at, &rows, sizeof rows);
        live = NULL;
        memcpy(changed + entry->live_at, &live, sizeof live);
    }
    counted_body->launch(device, stream, kernel, changed, bytes);
}

/* Which copy of a capture it is, and how much of it the host wants. Lists are of all groups, of
 * which the last is all rows, and of node_ranks. */
static bool is_planted(const struct device_copy *copy, size_t *wanted_out) {
    const struct model *model = planting.model;
    uint32_t slots = model->placement.slots_per_rank;
    uint32_t plant = planting.plant - ARRAY_COUNT(entries);
    const struct gpu_group *groups = copy->from;
    *wanted_out = planting.tokens * model_shape(model)->experts_per_token * sizeof(uint32_t);
    if (copy->direction == DEVICE_TO_HOST) return plant == COPY_CHOICES + planting.to_host++;
    planting.of_rows = copy->row_count > 1;
    if (!planting.of_rows) return plant == COPY_PAIRS;
    planting.rows = groups[slots].row_count;
    *wanted_out = plant == COPY_GROUPS ? slots * sizeof *groups : planting.rows * sizeof(char *);
    return plant == COPY_GROUPS || plant == COPY_PLACES;
}

static void copy_planted(struct device *device, struct device_stream *stream,
                         const struct device_copy *copy) {
    struct device_copy changed = *copy;
    size_t wanted = 0;
    if (planting.captures && is_planted(copy, &wanted)) {
        assert_true(wanted <= copy->row_bytes);
        changed.row_bytes = wanted;
    }
    counted_body->copy(device, stream, &changed);
}

/* Larger bounds get the graphs of smaller ones. */
static void plant_bounds(struct gpu_graphs *graphs) {
    for (uint32_t i = 0; i < GPU_CAPTURED_STEPS_MAX && planting.plant == PLANT_TOKENS; i++)
        if (graphs->kept[i].step_shape.rows[0] == 2) graphs->kept[i].step_shape.rows[0] = 4;
    for (uint32_t i = GPU_ROW_BOUNDS; i-- > 1 && planting.plant == PLANT_ROWS;)
        if (graphs->rows[i - 1].graph) graphs->rows[i] = graphs->rows[i - 1];
}

/* Three or four rows, and fewer; captured with three. The rows of another turn are other
 * sequences'. */
static void planted_bits_are_the_same(void **state) {
    static const uint32_t rows[] = {2, 2, 4, 3, 4, 1, 4, 3, 2, 4, 4, 4};
    /* By the host results lie in another order each time, and weights go there for sums that are
     * made on their way. */
    static const struct way ways[] = {
        {LITE, ACTIVATIONS_F32, EXPERT_SUM_EXPERTS, .mtp = false},
        {GROUPS, ACTIVATIONS_F32, EXPERT_SUM_GROUPS, .by_host = true}};
    const uint32_t copy = planting.plant - ARRAY_COUNT(entries); /* or beyond all, wrapped around */
    const struct way way = ways[copy == COPY_WEIGHTS || copy == COPY_PAIRS];
    begin_draws(5);
    memset(done, 0, sizeof done);
    struct model *const models[2] = {open_model(&way, &model_on_cpu, 0),
                                     open_model(&way, &model_on_emulated, job_count())};
    struct device *device = models[1]->device;
    struct device_backend body = *(counted_body = device->backend);
    body.begin_capture = begin_planted_capture;
    body.end_capture = end_planted_capture;
    body.launch = launch_planted;
    body.copy = copy_planted;
    device->backend = &body;
    planting.model = models[1];
    for (uint32_t turn = 0; turn < ARRAY_COUNT(rows); turn++) {
        struct error error;
        planting.tokens = rows[turn];
        if (turn > 1) plant_bounds(graphs_of(models[1]));
        make_plan(turn, rows[turn], false, false, model_shape(models[0])->vocab);
        for (uint32_t i = 0; i < 2; i++)
            if (forward_run(models[i], plan, logits[i], NULL, &error)) fail_msg("%s", error.text);
        assert_memory_equal(logits[0], logits[1],
                            rows[turn] * model_shape(models[0])->vocab * sizeof(float));
        for (uint32_t i = 0; i < rows[turn]; i++)
            done[step_plan_rows(plan)[i].slot]++;
    }
    device->backend = counted_body;
    job_barrier();
    model_close(models[1]);
    model_close(models[0]);
}

/* Runs a job of two ranks with that bug. */
static bool job_ends_well(const char *self, uint32_t plant) {
    char number[16];
    int status = 0;
    snprintf(number, sizeof number, "%u", plant);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr)) _exit(2);
        signal(SIGSEGV, SIG_DFL); /* cmocka's would go on with the tests */
        execl(self, self, "2", "1", number, NULL);
        _exit(2);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status == 0;
}

static void what_is_planted_is_found(void **state) {
    assert_true(job_ends_well(*state, PLANTS));
    for (uint32_t plant = 0; plant < PLANTS; plant++)
        if (job_ends_well(*state, plant))
            fail_msg("%u, %s: nothing differs", plant, name_of_plant(plant));
}

int main(int argc, char **argv) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(segments_change_no_bit),
        cmocka_unit_test(a_step_by_segments_takes_nothing_and_waits_no_more),
        cmocka_unit_test(segments_save_a_steps_launches),
        cmocka_unit_test(no_more_graphs_are_kept_than_there_is_room_for),
    };
    static const struct CMUnitTest of_deaths[] = {
        cmocka_unit_test(those_that_live_go_on_with_their_segments)};
    static const struct CMUnitTest with_a_plant[] = {cmocka_unit_test(planted_bits_are_the_same)};
    if (!strcmp(argv[1], "planted")) {
        const struct CMUnitTest driver[] = {
            cmocka_unit_test_prestate(what_is_planted_is_found, argv[0])};
        return cmocka_run_group_tests(driver, NULL, NULL);
    }
    hosts = argv[2] ? (uint32_t)strtoul(argv[2], NULL, 10) : 1;
    const char *more = argv[2] && argv[3] ? argv[3] : "";
    if (!strcmp(more, "deaths")) {
        on_ranks_deaths = DEATHS;
        return on_ranks(argv, "gpu_ranks_deaths", of_deaths, 1);
    }
    if (*more) {
        planting.plant = (uint32_t)strtoul(more, NULL, 10);
        return on_ranks(argv, "gpu_ranks_planted", with_a_plant, 1);
    }
    return on_ranks(argv, "gpu_ranks", tests, ARRAY_COUNT(tests));
}

#endif
