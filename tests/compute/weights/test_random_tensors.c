/* SPDX-License-Identifier: Apache-2.0
 * Protects the checkpoint in memory: it has every tensor that the shape asks for, with its scales,
 * all values finite, codes of the size that keeps a product's results near its inputs', and
 * a model opens on it and runs.
 */
#include <math.h>

#include "test_case.h"

#include "base/check.h"
#include "compute/model/forward.h"
#include "compute/model/model.h"
#include "compute/weights/layout.h"
#include "compute/weights/named_shapes.h"
#include "compute/weights/random_tensors.h"

static struct shape shape_of(const char *name, enum named_weights weights) {
    char config[NAMED_SHAPES_CONFIG_BYTES];
    struct named_shape named = {.name = name, .weights = weights};
    size_t bytes = named_shapes_write_config(&named, config);
    struct error error = {""};
    struct shape shape;
    assert_true(bytes > 0);
    if (shape_parse((struct bytes){config, bytes}, name, &shape, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    return shape;
}

static enum status find(void *context, const struct layout_tensor *wanted, struct error *error) {
    const struct tensor *tensor = checkpoint_tensor(context, wanted->name);
    assert_non_null(tensor);
    assert_int_equal(tensor->shape[0], wanted->rows);
    assert_int_equal(tensor->shape[1], wanted->columns);
    assert_int_equal(tensor_check_finite(tensor, error), STATUS_OK);
    const struct layout_stored stored =
        layout_stored_as(tensor->type, wanted->rows, wanted->columns);
    const struct tensor *scale = checkpoint_scale(context, tensor);
    assert_int_equal(scale != NULL, stored.scale_suffix != NULL);
    if (!scale) return STATUS_OK;
    assert_int_equal(scale->shape[0], stored.scale_rows);
    assert_int_equal(scale->shape[1], stored.scale_columns);
    float values[96], factor, squares = 0;
    tensor_to_float(tensor, 0, 96, values);
    tensor_to_float(scale, 0, 1, &factor);
    for (int i = 0; i < 96; i++)
        squares += values[i] * values[i] * factor * factor;
    squares *= (float)wanted->columns / 96; /* 1, but MXFP4's scales are powers of two */
    assert_true(squares > 0.4f && squares < 2.2f);
    return STATUS_OK;
}

TEST(every_tensor_is_there) {
    static const enum named_weights all[] = {NAMED_WEIGHTS_FP8, NAMED_WEIGHTS_BF16,
                                             NAMED_WEIGHTS_INT4_32, NAMED_WEIGHTS_MXFP4};
    for (size_t i = 0; i < ARRAY_COUNT(all); i++) {
        struct shape shape = shape_of("tiny", all[i]);
        struct checkpoint *checkpoint;
        struct error error = {""};
        assert_int_equal(random_tensors_open(&shape, &checkpoint, &error), STATUS_OK);
        assert_int_equal(layout_for_each(&shape, find, checkpoint, &error), STATUS_OK);
        assert_false(checkpoint_has_mtp(checkpoint));
        checkpoint_close(checkpoint);
    }
}

/* The logits of one prompt token: finite, and not all the same. */
static void runs_on(enum named_weights weights) {
    struct shape shape = shape_of("tiny", weights);
    struct error error = {""};
    struct model *model;
    struct model_options options = {.activations = ACTIVATIONS_FP8,
                                    .threads = 1,
                                    .kv_bytes = 1 << 20,
                                    .step_tokens_max = 4,
                                    .step_rows_max = 1};
    assert_int_equal(random_tensors_open(&shape, &options.checkpoint, &error), STATUS_OK);
    if (model_open(&options, &model, &error) != STATUS_OK) fail_msg("%s", error.text);
    _Alignas(8) char memory[4096] = {0};
    struct step_plan *plan = (struct step_plan *)(void *)memory;
    *plan = (struct step_plan){.row_count = 1, .token_count = 1, .page_count = 1};
    record_set_head(plan, RECORD_RUN_STEP);
    assert_true(plan->record.bytes <= sizeof memory);
    step_plan_rows(plan)[0] =
        (struct step_row){.token_count = 1, .page_count = 1, .logits_count = 1};
    float *logits = calloc(shape.vocab, sizeof *logits);
    if (forward_run(model, plan, logits, NULL, &error) != STATUS_OK) fail_msg("%s", error.text);
    float least = logits[0], most = logits[0];
    for (uint32_t i = 0; i < shape.vocab; i++) {
        assert_true(isfinite(logits[i]));
        least = fminf(least, logits[i]);
        most = fmaxf(most, logits[i]);
    }
    assert_true(most > least);
    free(logits);
    model_close(model);
}

TEST(a_model_runs_on_it) {
    runs_on(NAMED_WEIGHTS_FP8);
    runs_on(NAMED_WEIGHTS_INT4_32);
    runs_on(NAMED_WEIGHTS_MXFP4);
}
