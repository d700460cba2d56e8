/* SPDX-License-Identifier: Apache-2.0
 * What a hardware file says of a layer's stages, and a stage's time by it. Times are microseconds,
 * rates are FLOP, bytes or bits in a microsecond's or a second's multiples as their keys say
 * (tflops, gbps: GB/s).
 *
 * A stage is compute or memory, whichever takes longer; transfers take their latency and what the
 * link needs. The file tells the bandwidths that its numbers were measured with (`measured`); what
 * memory or a link bounds scales with the hardware's own, and nothing else does. Formulas: the
 * published kernel tables of DeepGEMM, FlashMLA and DeepEP, joined as twin/hardware/h800.yaml says.
 */
#ifndef SIMULATE_HARDWARE_STAGE_RATES_H
#define SIMULATE_HARDWARE_STAGE_RATES_H

#include "simulate/hardware/figure_tree.h"
#include "simulate/hardware/hardware_file.h"
#include "simulate/hardware/stage_table.h"

enum stage_product {                 /* matrix products that all tokens of a lane go through */
                     PRODUCT_DOWN,   /* q_a and kv_a */
                     PRODUCT_QUERY,  /* q_b */
                     PRODUCT_EXPAND, /* kv_b, in the prompt form */
                     PRODUCT_OUTPUT,
                     PRODUCT_SHARED_UP, /* gate and up */
                     PRODUCT_SHARED_DOWN,
                     PRODUCT_DENSE, /* a dense layer's three */
                     STAGE_PRODUCT_COUNT
};

/* Up to 64 rows a product takes as long as 64 do: weights are read. Between and beyond, as its two
 * first rates say, which memory bounds; but never less than at `tflops`, which compute bounds. */
struct product_rates {
    double tflops_64, tflops_128, tflops;
};

struct answer_rates { /* tokens in the generated form; all SMs compute */
    double attention_0_us, attention_1_us, shared_us; /* norms, rotation, quantization, gate */
    double absorb_us, absorb_tflops;                  /* each of the two: weights read, and work */
    double core_us, core_tflops, core_tflops_2, core_gbps; /* _2: two query tokens of a request */
    double experts_us, up_us, down_us, up_tflops, down_tflops, weights_gbps;
    double issue_us, step_us;
};

struct prompt_rates {     /* tokens in the prompt form; some SMs serve the link */
    double compute_share; /* of the SMs */
    double core_tflops, up_tflops, down_tflops;
    double attention_us, experts_us; /* a token: what is no product */
    double step_us;
};

struct link_rates {
    struct figure_table low_latency; /* ep, dispatch_us, dispatch_us_128, combine_us, _us_128 */
    struct figure_table normal;      /* nodes, dispatch_gbps, combine_gbps, dispatch_us, … */
    double dispatch_scales;          /* bytes of a token with its scales, over those without */
    double contention;               /* a transfer under compute takes so many times as long */
};

struct move_rates {  /* experts that change their rank */
    double gbps;     /* Gbit/s that a rank gives to them */
    double adopt_us; /* a step's wait when a wave is adopted */
    double memory_bytes;
};

struct hardware_stages {
    double hbm_scale, nic_scale, nvlink_scale; /* time over that of the file's measurements */
    struct product_rates products[STAGE_PRODUCT_COUNT];
    struct answer_rates answer;
    struct prompt_rates prompt;
    struct link_rates links;
    struct move_rates moves;
    bool has_links;
    const struct stage_table *table; /* a measured layer's, in place of rates; else NULL */
    const struct step_rows *rows;    /* whole steps; else NULL: simulate/hardware/step_rows.h */
};

/* A lane's tokens on a rank. Fractions are fine: lanes are shares. */
struct stage_work {
    double prompt_tokens, attended, cached;
    double answer_rows, answer_tokens, context;
    bool prompts; /* somewhere in the step are some: then links are served by SMs */
};

struct stage_times {
    double attention_0, attention_1, shared, dense;
    double core;       /* of attention_1: answers' core attention, */
    double core_begin; /* and what each beginning of it takes beside that */
};

struct stage_times stage_rates_times(const struct hardware_stages *stages,
                                     const struct model_figures *model,
                                     const struct stage_work *work);

/* Routed experts of a rank with so many slots, of which `pairs` tokens come. */
double stage_rates_experts(const struct hardware_stages *stages, const struct model_figures *model,
                           double pairs, double slots, bool prompts);

/* In flight, for a lane's `tokens` of each rank. */
struct stage_transfers {
    double dispatch_us, combine_us;             /* whatever the tokens */
    double dispatch_token_us, combine_token_us; /* each */
};

/* Nodes that a token of a prompt goes to, its own too, where groups of experts are whole on nodes and
 * equally often chosen: the rates of transfers are for so many. */
double stage_rates_copies(const struct model_figures *model, double nodes);

struct stage_transfers stage_rates_transfers(const struct hardware_stages *stages,
                                             const struct model_figures *model, uint32_t ranks,
                                             uint32_t ranks_per_node, bool prompts);

/* Reads `stages:`; `hardware` has its bandwidths already. */
enum status stage_rates_read(struct arena *arena, const struct figure_place *place,
                             const struct hardware *hardware,
                             struct hardware_stages *stages_out) MUST_USE;

#endif
