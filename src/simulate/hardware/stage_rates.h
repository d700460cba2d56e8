/* SPDX-License-Identifier: Apache-2.0
 * The stage data of a hardware file, and the time of each stage of a layer computed from it. Times
 * are in microseconds. Rates are FLOP, bytes or bits per microsecond, or in the multiple per second
 * that their key names (tflops, gbps: GB/s).
 *
 * A stage takes its compute time or its memory time, whichever is longer. A transfer takes its
 * latency plus the time of the link. The file states the bandwidths of the machine on which its
 * numbers were measured (`measured`). Times bound by memory or a link scale with the bandwidths of
 * the simulated hardware, and no others do. Sources of the formulas: the published kernel tables of
 * DeepGEMM, FlashMLA and DeepEP, combined as twin/hardware/h800.yaml describes.
 */
#pragma once

#include "simulate/hardware/figure_table.h"
#include "simulate/hardware/hardware_file.h"
#include "simulate/hardware/stage_table.h"
#include "simulate/hardware/step_load.h"

/* Matrix products over all tokens of a micro-batch. */
enum stage_product {
    PRODUCT_DOWN,   /* q_a and kv_a */
    PRODUCT_QUERY,  /* q_b */
    PRODUCT_EXPAND, /* kv_b, in the expanded form of prompts */
    PRODUCT_OUTPUT,
    PRODUCT_SHARED_UP, /* gate and up */
    PRODUCT_SHARED_DOWN,
    PRODUCT_DENSE, /* the three of a dense layer */
    STAGE_PRODUCT_COUNT
};

/* A product with up to 64 rows takes as long as with 64, because it must read the weights. From
 * there on, times are interpolated and extrapolated linearly from the first two rates, while the
 * product is memory-bound. They are never less than at `tflops`, where it is compute-bound. */
struct product_rates {
    double tflops_64, tflops_128, tflops;
};

struct answer_rates { /* for tokens in the form GENERATED; all SMs compute */
    double attention_0_us, attention_1_us, shared_us; /* norms, RoPE, quantization, gate */
    double absorb_us, absorb_tflops; /* each of the two absorptions: weight reads, and compute */
    double core_us, core_tflops, core_tflops_2, core_gbps; /* _2: two query tokens of a request */
    double experts_us, up_us, down_us, up_tflops, down_tflops, weights_gbps;
    double issue_us, step_us;
};

struct prompt_rates {     /* for tokens in the form PROMPT; some SMs serve the link */
    double compute_share; /* share of the SMs */
    double core_tflops, up_tflops, down_tflops;
    double attention_us, experts_us; /* per token, without matrix products */
    double step_us;
};

struct link_rates {
    struct figure_table low_latency; /* ep, dispatch_us, dispatch_us_128, combine_us, _us_128 */
    struct figure_table normal;      /* nodes, dispatch_gbps, combine_gbps, dispatch_us, … */
    double dispatch_scales;          /* bytes of a token with its scales over bytes without them */
    double contention;               /* factor on the time of a transfer during computation */
};

struct move_rates {  /* for experts that move to another rank */
    double gbps;     /* Gbit/s that a rank uses for moves */
    double adopt_us; /* delay of a step in which moved experts are adopted */
    double memory_bytes;
};

struct hardware_stages {
    double hbm_scale, nic_scale, nvlink_scale; /* factors on the times measured for the file */
    struct product_rates products[STAGE_PRODUCT_COUNT];
    struct answer_rates answer;
    struct prompt_rates prompt;
    struct link_rates links;
    struct move_rates moves;
    bool has_links;
    const struct stage_table *table; /* of a measured layer, instead of rates; otherwise NULL */
    const struct step_rows *rows;    /* measured whole steps; otherwise NULL
                                      * (simulate/hardware/step_rows.h) */
};

struct stage_times {
    double attention_0, attention_1, shared, dense;
    double core;       /* part of attention_1: core attention of generated tokens, */
    double core_begin; /* and the fixed time that each launch of it adds */
};

/* The times of a rank's micro-batch. `prompts`: the step has prompt tokens, so some SMs serve the
 * links. */
struct stage_times stage_rates_times(const struct hardware_stages *stages,
                                     const struct model_figures *model,
                                     const struct step_load *load, bool prompts);

/* The number of weights of all layers, without routed experts. */
double stage_rates_weights(const struct model_figures *model);

/* The time of a rank's routed experts with `pairs` pairs of token and expert. */
double stage_rates_experts(const struct hardware_stages *stages, const struct model_figures *model,
                           double pairs, double slots, bool prompts);

/* Transfer times of a micro-batch: a constant, and a time for each token of a rank. */
struct stage_transfers {
    double dispatch_us, combine_us;             /* constant */
    double dispatch_token_us, combine_token_us; /* for each token */
};

/* The number of nodes that a prompt token is sent to, including its own, if groups of experts do
 * not span nodes and are chosen equally often. Transfer rates hold for that number. */
double stage_rates_copies(const struct model_figures *model, double nodes);

struct stage_transfers stage_rates_transfers(const struct hardware_stages *stages,
                                             const struct model_figures *model, uint32_t ranks,
                                             uint32_t ranks_per_node, bool prompts);

/* Reads `stages:`. The bandwidths in `hardware` must be set already. */
enum status stage_rates_read(struct arena *arena, const struct tree_place *place,
                             const struct tree *tree, const struct hardware *hardware,
                             struct hardware_stages *stages_out) MUST_USE;
