/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/stage_part.h"

#include "base/check.h"

#define DECODE (1u << STAGE_PHASE_DECODE)
#define PROMPT (1u << STAGE_PHASE_PROMPT)
#define EXPERTS (1u << STAGE_PHASE_EXPERTS)
#define TOKENS (DECODE | PROMPT)
#define OF_CONTEXT (1u << STAGE_PHASE_COUNT)
#define OPTIONAL (2u << STAGE_PHASE_COUNT)

static const struct {
    const char *name;
    enum stage stage;
    uint32_t flags;
} parts[STAGE_PART_COUNT] = {
    [PART_ATTENTION_NORM] = {"attention_norm", STAGE_ATTENTION_0, TOKENS},
    [PART_DOWN] = {"down", STAGE_ATTENTION_0, TOKENS},
    [PART_LATENT] = {"latent", STAGE_ATTENTION_0, TOKENS},
    [PART_QUERY] = {"query", STAGE_ATTENTION_0, TOKENS},
    [PART_ROPE] = {"rope", STAGE_ATTENTION_0, TOKENS},
    [PART_INDEX_KEYS] = {"index_keys", STAGE_ATTENTION_0, TOKENS | OPTIONAL},
    [PART_INDEX_QUERY] = {"index_query", STAGE_ATTENTION_0, TOKENS | OF_CONTEXT | OPTIONAL},
    [PART_INDEX_SCORE] = {"index_score", STAGE_ATTENTION_0, TOKENS | OF_CONTEXT | OPTIONAL},
    [PART_INDEX_CHOICE] = {"index_choice", STAGE_ATTENTION_0, TOKENS | OF_CONTEXT | OPTIONAL},
    [PART_CORE_PROMPT] = {"core_prompt", STAGE_ATTENTION_1, PROMPT | OF_CONTEXT},
    [PART_ABSORB_QUERY] = {"absorb_query", STAGE_ATTENTION_1, DECODE},
    [PART_CORE] = {"core", STAGE_ATTENTION_1, DECODE | OF_CONTEXT},
    [PART_ABSORB_VALUE] = {"absorb_value", STAGE_ATTENTION_1, DECODE},
    [PART_OUTPUT_INPUT] = {"output_input", STAGE_ATTENTION_1, TOKENS},
    [PART_OUTPUT] = {"output", STAGE_ATTENTION_1, TOKENS},
    [PART_ATTENTION_ADD] = {"attention_add", STAGE_ATTENTION_1, TOKENS},
    [PART_GATE_NORM] = {"gate_norm", STAGE_ATTENTION_1, TOKENS},
    [PART_GATE] = {"gate", STAGE_ATTENTION_1, TOKENS},
    [PART_TOP_K] = {"top_k", STAGE_ATTENTION_1, TOKENS},
    [PART_SEND] = {"send", STAGE_DISPATCH, TOKENS},
    [PART_SHARED_UP] = {"shared_up", STAGE_SHARED, TOKENS},
    [PART_SHARED_SILU] = {"shared_silu", STAGE_SHARED, TOKENS},
    [PART_SHARED_DOWN] = {"shared_down", STAGE_SHARED, TOKENS},
    [PART_EXPERT_INPUT] = {"expert_input", STAGE_MLP, EXPERTS},
    [PART_EXPERT_UP] = {"expert_up", STAGE_MLP, EXPERTS},
    [PART_EXPERT_SILU] = {"expert_silu", STAGE_MLP, EXPERTS},
    [PART_EXPERT_DOWN] = {"expert_down", STAGE_MLP, EXPERTS},
    [PART_EXPERT_RESULT] = {"expert_result", STAGE_MLP, EXPERTS},
    [PART_DENSE] = {"dense", STAGE_MLP, TOKENS | OPTIONAL},
    [PART_COMBINE] = {"combine", STAGE_COMBINE, TOKENS},
    [PART_SHARED_ADD] = {"shared_add", STAGE_COMBINE, TOKENS},
    [PART_MLP_ADD] = {"mlp_add", STAGE_COMBINE, TOKENS},
};

const char *stage_part_name(enum stage_part part) {
    check(part < STAGE_PART_COUNT);
    return parts[part].name;
}

enum stage stage_part_of(enum stage_part part) {
    check(part < STAGE_PART_COUNT);
    return parts[part].stage;
}

bool stage_part_is_in(enum stage_part part, enum stage_phase phase) {
    check(part < STAGE_PART_COUNT && phase < STAGE_PHASE_COUNT);
    return parts[part].flags >> phase & 1;
}

bool stage_part_is_of_context(enum stage_part part) {
    check(part < STAGE_PART_COUNT);
    return parts[part].flags & OF_CONTEXT;
}

bool stage_part_is_optional(enum stage_part part) {
    check(part < STAGE_PART_COUNT);
    return parts[part].flags & OPTIONAL;
}
