/* SPDX-License-Identifier: Apache-2.0
 * The parts of a layer's stages (contract/overlap.h), in the order of execution. A part is the work
 * of one kernel or a few. The engine reports the time of each part, a benchmark measures the parts,
 * and tables of measured times (simulate/hardware/stage_table.h) use their names. The input of a
 * projection consists of activations in the format that the projection reads, such as FP8.
 */
#pragma once

#include "contract/overlap.h"

enum stage_part {
    PART_ATTENTION_NORM, /* RMSNorm, and the input of q_a and kv_a */
    PART_DOWN,           /* q_a (or q_proj) and kv_a */
    /* RMSNorm of both latents, RoPE of the key, the write of the KV row, and the input of q_b */
    PART_LATENT,
    PART_QUERY,         /* q_b */
    PART_ROPE,          /* RoPE of the queries, and their rounding */
    PART_INDEX_KEYS,    /* sparse attention: the indexer's keys, with the write of their rows */
    PART_INDEX_QUERY,   /* sparse attention: the indexer's queries and weights */
    PART_INDEX_SCORE,   /* sparse attention: a score of each row */
    PART_INDEX_CHOICE,  /* sparse attention: the rows with the largest scores */
    PART_CORE_PROMPT,   /* expanded MLA: kv_b, and attention of prompt tokens */
    PART_ABSORB_QUERY,  /* absorbed MLA: queries projected into the latent space */
    PART_CORE,          /* absorbed MLA: attention over the latents */
    PART_ABSORB_VALUE,  /* absorbed MLA: outputs projected back from the latent space */
    PART_OUTPUT_INPUT,  /* input of o */
    PART_OUTPUT,        /* o */
    PART_ATTENTION_ADD, /* the output added to the residual stream */
    PART_GATE_NORM,     /* RMSNorm, and the inputs of routed and shared experts */
    PART_GATE,          /* router logits; on a single rank also gate and up of the shared expert */
    PART_TOP_K,
    PART_SEND,        /* activations packed for the dispatch, without the transfer */
    PART_SHARED_UP,   /* gate and up */
    PART_SHARED_SILU, /* SiLU, and the input of down */
    PART_SHARED_DOWN,
    PART_EXPERT_INPUT, /* received tokens, grouped by expert */
    PART_EXPERT_UP,    /* gate and up */
    PART_EXPERT_SILU,  /* SiLU, and the input of down */
    PART_EXPERT_DOWN,
    PART_EXPERT_RESULT, /* results rounded and packed for the combine */
    PART_DENSE,         /* the whole MLP of a dense layer */
    PART_COMBINE,       /* sum of each token's received results */
    PART_SHARED_ADD,
    PART_MLP_ADD, /* the output added to the residual stream */
    STAGE_PART_COUNT
};

/* The phases in which parts are measured: each of many sequences has one token, one sequence has a
 * chunk of tokens, or experts compute rows. */
enum stage_phase { STAGE_PHASE_DECODE, STAGE_PHASE_PROMPT, STAGE_PHASE_EXPERTS, STAGE_PHASE_COUNT };

/* "attention_norm", "down", … */
const char *stage_part_name(enum stage_part part);

/* The stage that contains the part. */
enum stage stage_part_of(enum stage_part part);

/* True if the part runs in the phase. */
bool stage_part_is_in(enum stage_part part, enum stage_phase phase);

/* True if the part's time depends on the context. */
bool stage_part_is_of_context(enum stage_part part);

/* True if a MoE layer of DeepSeek-V3 has no such part. */
bool stage_part_is_optional(enum stage_part part);
