/* SPDX-License-Identifier: Apache-2.0
 * The parts of a layer's stages (contract/overlap.h), in the order in which they run: what one
 * kernel, or a fused few, would be. The engine tells them while it runs, a bench times them, and
 * tables of measured times (simulate/hardware/stage_table.h) name them.
 */
#ifndef CONTRACT_STAGE_PART_H
#define CONTRACT_STAGE_PART_H

#include "contract/overlap.h"

enum stage_part {
    PART_ATTENTION_NORM, /* RMSNorm, and the input as q_a and kv_a take it */
    PART_DOWN,           /* q_a (or q_proj) and kv_a */
    PART_LATENT,         /* both latents normalized, the key rotated, KV row written, q_b's input */
    PART_QUERY,          /* q_b */
    PART_ROPE,           /* queries rotated and rounded */
    PART_CORE_PROMPT,    /* expanded form: kv_b and attention over prompts' tokens */
    PART_ABSORB_QUERY,   /* absorbed form: queries into the latent space */
    PART_CORE,           /* absorbed form: attention over the latents */
    PART_ABSORB_VALUE,   /* absorbed form: out of the latent space */
    PART_OUTPUT_INPUT,   /* o's input */
    PART_OUTPUT,         /* o */
    PART_ATTENTION_ADD,  /* added to the residual stream */
    PART_GATE_NORM,      /* RMSNorm, and the inputs of routed and shared experts */
    PART_GATE, /* router logits; at one rank alone, the shared expert's gate and up, too */
    PART_TOP_K,
    PART_SEND,        /* activations made ready to travel; not their travel */
    PART_SHARED_UP,   /* gate and up */
    PART_SHARED_SILU, /* and down's input */
    PART_SHARED_DOWN,
    PART_EXPERT_INPUT, /* what came, by expert */
    PART_EXPERT_UP,    /* gate and up */
    PART_EXPERT_SILU,  /* and down's input */
    PART_EXPERT_DOWN,
    PART_EXPERT_RESULT, /* results rounded, made ready to travel */
    PART_DENSE,         /* a dense layer's whole MLP */
    PART_COMBINE,       /* what came back, summed by token */
    PART_SHARED_ADD,
    PART_MLP_ADD, /* added to the residual stream */
    STAGE_PART_COUNT
};

/* "attention_norm", "down", … */
const char *stage_part_name(enum stage_part part);

/* The stage that it is a part of. */
enum stage stage_part_of(enum stage_part part);

#endif
