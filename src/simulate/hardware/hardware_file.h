/* SPDX-License-Identifier: Apache-2.0
 * A hardware file and a model file as values: the rates of a GPU, its links and its disks, and the
 * sizes of a model's layers. Both are YAML that was parsed into a tree (base/tree.h). Each number
 * in them has its source next to it, and whether it was fitted.
 */
#pragma once

#include "simulate/hardware/tree_keys.h"

/* The simulator's hardware values in addition to stage times. The stages' constants are opaque to
 * it. */
struct hardware {
    char name[TREE_TEXT_BYTES];
    uint32_t gpus_per_node;
    double hbm_bytes;   /* of a GPU, available to an engine */
    double hbm_gbps;    /* GB/s of a GPU */
    double nic_gbps;    /* Gbit/s of a GPU's own link to other nodes, one way */
    double nvlink_gbps; /* GB/s of a GPU within its node, one way */
    double network_latency_us;
    double host_memory_bytes; /* a node's, for KV blocks */
    double storage_gbps;      /* Gbit/s a node, to and from the disks that all nodes share */
    double storage_latency_us;
    double step_gap_us; /* from a step's end to the next one's begin, including the serving plane */
    double request_us;  /* of a gateway, for a request, before a unit receives it */
    double token_us;    /* of a gateway, from a unit's tokens to its client */
    double node_price;  /* per node and hour, in the currency of the prices; 0: defined by the
                         * prices */
    const struct hardware_stages *stages; /* simulate/hardware/stage_rates.h */
};

struct model_figures {
    char name[TREE_TEXT_BYTES];
    uint32_t layers, dense_layers; /* excludes the MTP layer */
    uint32_t hidden, heads, q_rank, kv_rank, rope_dim, nope_dim, value_dim;
    uint32_t experts, experts_per_token, expert_groups, groups_per_token, expert_hidden;
    uint32_t shared_experts, dense_hidden, vocab;
    double kv_bytes_per_token; /* of all layers */
    double mtp_acceptance;     /* of drafts, if MTP is on */
};

/* Both are stored in `arena`. STATUS_INVALID names the file's key that is missing, unknown or out
 * of range. `name` is the file's name in messages. */
enum status hardware_file_read(struct arena *arena, const struct tree *tree, const char *name,
                               struct hardware *hardware_out, struct error *error) MUST_USE;
enum status hardware_file_model_figures_read(const struct tree *tree, const char *name,
                                             struct model_figures *model_out,
                                             struct error *error) MUST_USE;
