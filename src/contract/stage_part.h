/* SPDX-License-Identifier: Apache-2.0
 * The parts of the stages of a layer (contract/overlap.h), in the order of execution. A part is the
 * work of one kernel or of a few fused kernels. The engine reports the time of each part, a
 * benchmark measures them, and tables of measured times (simulate/hardware/stage_table.h) use their
 * names.
 */
#pragma once

#include "contract/overlap.h"

enum stage_part {
    PART_ATTENTION_NORM, /* RMSNorm, and the input of q_a and kv_a in their format */
    PART_DOWN,           /* q_a (or q_proj) and kv_a */
    /* both latents normalized, the key rotated, the KV row written, the input of q_b */
    PART_LATENT,
    PART_QUERY,         /* q_b */
    PART_ROPE,          /* queries rotated and rounded */
    PART_CORE_PROMPT,   /* expanded form: kv_b and attention over prompt tokens */
    PART_ABSORB_QUERY,  /* absorbed form: queries projected into the latent space */
    PART_CORE,          /* absorbed form: attention over the latents */
    PART_ABSORB_VALUE,  /* absorbed form: values projected out of the latent space */
    PART_OUTPUT_INPUT,  /* input of o */
    PART_OUTPUT,        /* o */
    PART_ATTENTION_ADD, /* added to the residual stream */
    PART_GATE_NORM,     /* RMSNorm, and the inputs of routed and shared experts */
    PART_GATE, /* router logits; with a single rank also gate and up of the shared expert */
    PART_TOP_K,
    PART_SEND,        /* activations prepared for sending, without the transfer */
    PART_SHARED_UP,   /* gate and up */
    PART_SHARED_SILU, /* SiLU, and the input of down */
    PART_SHARED_DOWN,
    PART_EXPERT_INPUT, /* received tokens, gathered by expert */
    PART_EXPERT_UP,    /* gate and up */
    PART_EXPERT_SILU,  /* SiLU, and the input of down */
    PART_EXPERT_DOWN,
    PART_EXPERT_RESULT, /* results rounded and prepared for sending */
    PART_DENSE,         /* the whole MLP of a dense layer */
    PART_COMBINE,       /* received results, summed by token */
    PART_SHARED_ADD,
    PART_MLP_ADD, /* added to the residual stream */
    STAGE_PART_COUNT
};

/* "attention_norm", "down", … */
const char *stage_part_name(enum stage_part part);

/* The stage that contains the part. */
enum stage stage_part_of(enum stage_part part);
