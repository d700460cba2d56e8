/* SPDX-License-Identifier: Apache-2.0
 * Reads hardware files (the rates of a GPU, its links and the disks) and model files (the sizes of
 * a model's layers). Both are YAML, parsed into a tree (base/tree.h). In the files each number has
 * its source next to it, and whether it was fitted.
 */
#pragma once

#include "simulate/hardware/tree_keys.h"

/* The hardware as the simulator sees it. The constants of stage times are opaque to it. */
struct hardware {
    char name[TREE_TEXT_BYTES];
    uint32_t gpus_per_node;
    double hbm_bytes;   /* of a GPU, as far as an engine can use it */
    double hbm_gbps;    /* GB/s, of a GPU */
    double nic_gbps;    /* Gbit/s, of a GPU's own link to other nodes, each way */
    double nvlink_gbps; /* GB/s, of a GPU within its node, each way */
    double network_latency_us;
    double host_memory_bytes; /* of a node, for KV blocks */
    double storage_gbps;      /* Gbit/s, between a node and the disks that all nodes share */
    double storage_latency_us;
    double step_gap_us; /* from a step's end to the start of the next, including the scheduler */
    double request_us;  /* a gateway's time for a request, before a unit receives it */
    double token_us;    /* a gateway's time to forward tokens from a unit to a client */
    double node_price;  /* per node and hour, in the currency of the prices; 0: the prices file
                         * defines it */
    const struct hardware_stages *stages; /* simulate/hardware/stage_rates.h */
};

struct model_figures {
    char name[TREE_TEXT_BYTES];
    uint32_t layers, dense_layers; /* without the MTP layer */
    uint32_t hidden, heads, q_rank, kv_rank, rope_dim, nope_dim, value_dim;
    uint32_t experts, experts_per_token, expert_groups, groups_per_token, expert_hidden;
    uint32_t shared_experts, dense_hidden, vocab;
    uint32_t index_heads, index_dim, index_top_k; /* of sparse attention; 0: dense */
    double kv_bytes_per_token; /* of all layers together */
    double mtp_acceptance;     /* of speculative drafts, if MTP is on */
};

/* Both read into the result and `arena`. STATUS_INVALID names the key that is missing, unknown or
 * out of range. `name` is the file's name in messages. */
enum status hardware_file_read(struct arena *arena, const struct tree *tree, const char *name,
                               struct hardware *hardware_out, struct error *error) MUST_USE;
enum status hardware_file_model_figures_read(const struct tree *tree, const char *name,
                                             struct model_figures *model_out,
                                             struct error *error) MUST_USE;
