/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/stage_part.h"

#include "base/check.h"

static const struct {
    const char *name;
    enum stage stage;
} parts[STAGE_PART_COUNT] = {
    [PART_ATTENTION_NORM] = {"attention_norm", STAGE_ATTENTION_0},
    [PART_DOWN] = {"down", STAGE_ATTENTION_0},
    [PART_LATENT] = {"latent", STAGE_ATTENTION_0},
    [PART_QUERY] = {"query", STAGE_ATTENTION_0},
    [PART_ROPE] = {"rope", STAGE_ATTENTION_0},
    [PART_CORE_PROMPT] = {"core_prompt", STAGE_ATTENTION_1},
    [PART_ABSORB_QUERY] = {"absorb_query", STAGE_ATTENTION_1},
    [PART_CORE] = {"core", STAGE_ATTENTION_1},
    [PART_ABSORB_VALUE] = {"absorb_value", STAGE_ATTENTION_1},
    [PART_OUTPUT_INPUT] = {"output_input", STAGE_ATTENTION_1},
    [PART_OUTPUT] = {"output", STAGE_ATTENTION_1},
    [PART_ATTENTION_ADD] = {"attention_add", STAGE_ATTENTION_1},
    [PART_GATE_NORM] = {"gate_norm", STAGE_ATTENTION_1},
    [PART_GATE] = {"gate", STAGE_ATTENTION_1},
    [PART_TOP_K] = {"top_k", STAGE_ATTENTION_1},
    [PART_SEND] = {"send", STAGE_DISPATCH},
    [PART_SHARED_UP] = {"shared_up", STAGE_SHARED},
    [PART_SHARED_SILU] = {"shared_silu", STAGE_SHARED},
    [PART_SHARED_DOWN] = {"shared_down", STAGE_SHARED},
    [PART_EXPERT_INPUT] = {"expert_input", STAGE_MLP},
    [PART_EXPERT_UP] = {"expert_up", STAGE_MLP},
    [PART_EXPERT_SILU] = {"expert_silu", STAGE_MLP},
    [PART_EXPERT_DOWN] = {"expert_down", STAGE_MLP},
    [PART_EXPERT_RESULT] = {"expert_result", STAGE_MLP},
    [PART_DENSE] = {"dense", STAGE_MLP},
    [PART_COMBINE] = {"combine", STAGE_COMBINE},
    [PART_SHARED_ADD] = {"shared_add", STAGE_COMBINE},
    [PART_MLP_ADD] = {"mlp_add", STAGE_COMBINE},
};

const char *stage_part_name(enum stage_part part) {
    check(part < STAGE_PART_COUNT);
    return parts[part].name;
}

enum stage stage_part_of(enum stage_part part) {
    check(part < STAGE_PART_COUNT);
    return parts[part].stage;
}
