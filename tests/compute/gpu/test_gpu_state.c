/* SPDX-License-Identifier: Apache-2.0
 * Protects the arrays of a batch that kernels read: each token's position, its KV row and the rows
 * that it attends to, with the shift of MTP's rows; the runs of each micro-batch's prompts; and for
 * MTP the output that a position uses. The test reads them back from the emulated device. A rank
 * can allocate memory for any number of hosts.
 */
#include "test_case.h"

#include "../../golden/golden.h"
#include "compute/emulated/compute_emulated.h"
#include "compute/gpu/compute_gpu.h"
#include "compute/gpu/gpu_state.h"
#include "compute/model/model.h"

#define WORDS 16

static struct model *open_model(void) {
    static char directory[512];
    struct error error;
    struct model *model;
    snprintf(directory, sizeof directory, "%s/v3-fp8-yarn-g8-mtp-sharded", golden_home());
    struct model_options options = {.directory = directory,
                                    .device = &model_on_emulated,
                                    .activations = ACTIVATIONS_F32,
                                    .threads = 1,
                                    .kv_bytes = 4 << 20,
                                    .step_tokens_max = 8,
                                    .step_rows_max = 2,
                                    .mtp = true,
                                    .mtp_required = true};
    if (model_open(&options, &model, &error) != STATUS_OK) fail_msg("%s", error.text);
    return model;
}

/* Reads words of the device into one of few node_ranks. */
static const uint32_t *fetch(const struct model *model, const void *from, uint32_t count) {
    static uint32_t words[WORDS];
    struct gpu_state *state = model->gpu;
    struct device_stream *stream = state->micro_batches[0].stream;
    struct error error;
    assert_in_range(count, 1, WORDS);
    device_copy(state->device, stream, state->words_host, from, count * sizeof(uint32_t),
                DEVICE_TO_HOST);
    assert_int_equal(device_synchronize_stream(state->device, stream, &error), STATUS_OK);
    memcpy(words, state->words_host, count * sizeof(uint32_t));
    return words;
}

#define expect_words(model, from, ...)                                                             \
    do {                                                                                           \
        const uint32_t expected[] = {__VA_ARGS__};                                                 \
        assert_memory_equal(fetch(model, from, sizeof expected / sizeof *expected), expected,      \
                            sizeof expected);                                                      \
    } while (0)

static const struct page_id pages[] = {{7}, {3}, {5}};

/* A prompt of three tokens from position 63 on, cut after the second one; a generated token. */
TEST(a_step_is_reported_token_by_token) {
    struct model *model = open_model();
    struct batch *batch = &model->batch;
    batch_clear(batch);
    batch_begin_run(batch, (struct run){.first_position = 63, .pages = pages});
    for (uint32_t i = 0; i < 3; i++)
        batch_add(batch, 100 + i);
    batch_end_prompts(batch);
    batch_begin_run(batch, (struct run){.plan_row = 1, .first_position = 9, .pages = pages + 2});
    batch_add(batch, 200);
    model->micro_batch_count = 2;
    model->micro_batches[0].first = 0;
    batch_take(&model->micro_batches[0].batch, batch, 0, 2);
    model->micro_batches[1].first = 2;
    batch_take(&model->micro_batches[1].batch, batch, 2, 2);
    struct gpu_batch sent = gpu_state_send(model, batch, NULL);
    expect_words(model, sent.ids, 100, 101, 102, 200);
    expect_words(model, sent.positions, 63, 64, 65, 9);
    expect_words(model, sent.kv_index, 63, 64, 65, 9);
    expect_words(model, sent.kv_first, 0, 0, 0, 0);
    expect_words(model, sent.first_page, 0, 0, 0, 2);
    expect_words(model, sent.pages, 7, 3, 5);
    expect_words(model, sent.runs, 0, 2, 0, 0, /* rows 0 and 1 of the first lane */
                 0, 1, 0, 0);
    struct gpu_batch second = gpu_state_from(&sent, 2, 1);
    expect_words(model, second.positions, 65, 9);
    model_close(model);
}

TEST(mtp_is_reported_whose_outputs_it_takes) {
    struct model *model = open_model();
    struct batch *rows = &model->mtp_rows, *batch = &model->mtp_batch;
    batch_clear(rows);
    batch_clear(batch);
    batch_begin_run(rows, (struct run){.first_position = 5, .kv_shift = 1, .pages = pages});
    batch_add_output(rows, 11, (struct output_ref){1, 1});
    batch_add_output(rows, 12, (struct output_ref){OUTPUT_OF_STEP, 3});
    batch_begin_run(batch, (struct run){.first_position = 63, .kv_shift = 1, .pages = pages});
    batch_add_output(batch, 13, (struct output_ref){0, 0});
    struct gpu_batch sent = gpu_state_send(model, rows, batch);
    expect_words(model, sent.ids, 11, 12, 13);
    expect_words(model, sent.positions, 5, 6, 63);
    expect_words(model, sent.kv_index, 6, 7, 64);
    expect_words(model, sent.kv_first, 1, 1, 1);
    expect_words(model, sent.first_page, 0, 0, 1);
    expect_words(model, sent.pages, 7, 7, 3);
    expect_words(model, sent.source, GPU_KEPT | (1 + LIMIT_DRAFTS + 1), 3, GPU_KEPT);
    model_close(model);
}

/* Of each other host a rank passes rows on, in memory of their own; DeepSeek's largest unit has
 * 40. */
TEST(memory_is_taken_piece_by_piece_without_end) {
    struct model *model = open_model();
    struct error error;
    struct gpu_allocator allocator = {.state = model->gpu, .error = &error};
    for (uint32_t i = 0; i < 1000; i++)
        assert_non_null(gpu_state_allocate(&allocator, 16, false, "rows of a host"));
    assert_int_equal(allocator.status, STATUS_OK);
    model_close(model); /* the device reports what is not released */
}
