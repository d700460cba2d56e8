/* SPDX-License-Identifier: Apache-2.0
 * The bytes of a config.json. A shape that is accepted keeps every promise its readers lean on.
 */
#include <math.h>
#include <string.h>

#include "base/check.h"
#include "compute/weights/layout.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum status check_tensor(void *context, const struct layout_tensor *tensor,
                                struct error *error) {
    check(tensor->rows > 0 && tensor->columns > 0 && tensor->kind < LAYOUT_KIND_COUNT);
    check(!tensor->packed || tensor->columns % 32 == 0);
    check(strlen(tensor->name) + strlen("_scale_inv") < LAYOUT_NAME_BYTES);
    return STATUS_OK;
}

static void check_shape(const struct shape *shape) {
    check(shape->layers > 0 && shape->layers + shape->mtp_layers <= LIMIT_LAYERS);
    check(shape->vocab <= LIMIT_VOCAB && shape->context_max <= LIMIT_CONTEXT);
    check(shape->rope_dim % 2 == 0 && shape->eos_token_count <= LIMIT_STOP_TOKENS);
    for (uint32_t i = 0; i < shape->rope_dim / 2; i++)
        check(isfinite(shape->rope_frequency[i]) && shape->rope_frequency[i] >= 0);
    check(isfinite(shape->attention_scale) && shape->attention_scale > 0);
    check(isfinite(shape->rope_amplitude) && shape->rope_amplitude > 0);
    check(shape->groups >= 1 && shape->groups_kept >= 1 && shape->groups_kept <= shape->groups);
    if (shape->experts) {
        check(shape->experts <= LIMIT_EXPERTS && shape->experts % shape->groups == 0);
        check(shape->experts_per_token <= LIMIT_TOP_K_EXPERTS);
        check(shape->experts_per_token <= shape->experts / shape->groups * shape->groups_kept);
    }
    if ((shape->layers + shape->mtp_layers) * (shape->experts + 20) > 3000) return; /* takes long */
    check(layout_for_each(shape, check_tensor, NULL, NULL) == STATUS_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct bytes json = {(const char *)data, size};
    struct shape shape = {0};
    struct error error = {""};
    enum status status = shape_parse(json, "fuzz", &shape, &error);
    check((status == STATUS_OK) == (error.text[0] == '\0') && !strchr(error.text, '\n'));
    if (status == STATUS_OK) check_shape(&shape);
    struct shape generation = {.vocab = 100};
    struct error reason = {""};
    status = shape_add_generation(json, "fuzz", &generation, &reason);
    check((status == STATUS_OK) == (reason.text[0] == '\0'));
    check(generation.eos_token_count <= LIMIT_STOP_TOKENS);
    return 0;
}
