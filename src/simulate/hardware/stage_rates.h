/* SPDX-License-Identifier: Apache-2.0
 * A hardware file's data on a layer's stages, and the time of a stage by them. Times are in
 * microseconds. Rates are FLOP, bytes or bits per microsecond, or in the multiple per second that
 * their keys name (tflops, gbps: GB/s).
 *
 * A stage takes its compute time or its memory time, whichever is longer. Transfers take their
 * latency and the time of the link. The file contains the bandwidths with which its numbers were
 * measured (`measured`). Times bound by memory or a link scale with the hardware's own bandwidth,
 * and nothing else does. Formulas: the published kernel tables of DeepGEMM, FlashMLA and DeepEP,
 * combined as twin/hardware/h800.yaml describes.
 */
#pragma once

#include "simulate/hardware/figure_table.h"
#include "simulate/hardware/hardware_file.h"
#include "simulate/hardware/stage_table.h"

enum stage_product {                 /* matrix products for all tokens of a micro-batch */
                     PRODUCT_DOWN,   /* q_a and kv_a */
                     PRODUCT_QUERY,  /* q_b */
                     PRODUCT_EXPAND, /* kv_b, in the prompt form */
                     PRODUCT_OUTPUT,
                     PRODUCT_SHARED_UP, /* gate and up */
                     PRODUCT_SHARED_DOWN,
                     PRODUCT_DENSE, /* a dense layer's three */
                     STAGE_PRODUCT_COUNT
};

/* Up to 64 rows a product takes as long as with 64, because it reads the weights. Between and
 * beyond the first two rates it is memory-bound and the times are extrapolated, but never less than
 * at `tflops`, where it is compute-bound. */
struct product_rates {
    double tflops_64, tflops_128, tflops;
};

struct answer_rates { /* tokens in the generated form; all SMs compute */
    double attention_0_us, attention_1_us, shared_us; /* norms, rotation, quantization, gate */
    double absorb_us, absorb_tflops; /* each of the two absorptions: reading weights, and work */
    double core_us, core_tflops, core_tflops_2, core_gbps; /* _2: two query tokens of a request */
    double experts_us, up_us, down_us, up_tflops, down_tflops, weights_gbps;
    double issue_us, step_us;
};

struct prompt_rates {     /* tokens in the prompt form; some SMs serve the link */
    double compute_share; /* of the SMs */
    double core_tflops, up_tflops, down_tflops;
    double attention_us, experts_us; /* per token: everything except products */
    double step_us;
};

struct link_rates {
    struct figure_table low_latency; /* ep, dispatch_us, dispatch_us_128, combine_us, _us_128 */
    struct figure_table normal;      /* nodes, dispatch_gbps, combine_gbps, dispatch_us, … */
    double dispatch_scales;          /* bytes of a token with its scales over bytes without */
    double contention;               /* factor on a transfer's time during computation */
};

struct move_rates {  /* experts that change their rank */
    double gbps;     /* Gbit/s that a rank uses for them */
    double adopt_us; /* the wait of a step in which an expert batch is adopted */
    double memory_bytes;
};

struct hardware_stages {
    double hbm_scale, nic_scale, nvlink_scale; /* factor on the times of the file's measurements */
    struct product_rates products[STAGE_PRODUCT_COUNT];
    struct answer_rates answer;
    struct prompt_rates prompt;
    struct link_rates links;
    struct move_rates moves;
    bool has_links;
    const struct stage_table *table; /* a measured layer's, instead of rates; otherwise NULL */
    const struct step_rows *rows;    /* whole steps; otherwise NULL:
                                      * simulate/hardware/step_rows.h */
};

/* A micro-batch's tokens on a rank, possibly a fraction. */
struct stage_work {
    double prompt_tokens, attended, cached;
    double answer_rows, answer_tokens, context;
    bool prompts; /* the step has prompt tokens: SMs serve the links then */
};

struct stage_times {
    double attention_0, attention_1, shared, dense;
    double core;       /* part of attention_1: the answers' core attention, */
    double core_begin; /* and the additional time of each beginning of it */
};

struct stage_times stage_rates_times(const struct hardware_stages *stages,
                                     const struct model_figures *model,
                                     const struct stage_work *work);

/* The time of a rank's routed experts with `pairs` pairs of token and expert. */
double stage_rates_experts(const struct hardware_stages *stages, const struct model_figures *model,
                           double pairs, double slots, bool prompts);

/* Transfer times for a micro-batch with `tokens` on each rank. */
struct stage_transfers {
    double dispatch_us, combine_us;             /* independent of the tokens */
    double dispatch_token_us, combine_token_us; /* each */
};

/* The nodes that a token of a prompt goes to, including its own, if groups of experts are whole on
 * nodes and equally often chosen. The rates of transfers hold for that number. */
double stage_rates_copies(const struct model_figures *model, double nodes);

struct stage_transfers stage_rates_transfers(const struct hardware_stages *stages,
                                             const struct model_figures *model, uint32_t ranks,
                                             uint32_t ranks_per_node, bool prompts);

/* Reads `stages:`. `hardware` must have its bandwidths already. */
enum status stage_rates_read(struct arena *arena, const struct tree_place *place,
                             const struct tree *tree, const struct hardware *hardware,
                             struct hardware_stages *stages_out) MUST_USE;
