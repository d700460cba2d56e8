/* SPDX-License-Identifier: Apache-2.0
 * A loaded model: packed weights, KV pages and scratch memory, opened together. forward.h runs its
 * steps, and moves.h moves its experts between slots. Scheduling is done elsewhere. One caller at a
 * time.
 */
#pragma once

#include "compute/exchange/placement.h"
#include "compute/kernels/kernels.h"
#include "compute/model/activations.h"
#include "compute/model/expert_sum.h"
#include "compute/model/listeners.h"
#include "compute/weights/load_progress.h"
#include "compute/weights/shape.h"
#include "contract/memory_need.h"

struct checkpoint;   /* compute/weights/checkpoint.h */
struct gpu_kernels;  /* compute/gpu/gpu_kernels.h */
struct model_device; /* compute/model/compute.h */

struct model_options {
    const char *directory;
    struct checkpoint *checkpoint; /* used instead of `directory`; the model takes ownership,
                                    * even if opening fails. NULL: none */
    enum activations activations;
    enum expert_sum expert_sum;
    bool kv_exact;  /* V4: KV rows are not rounded as its training expects */
    bool fp8_index; /* an FP8 checkpoint's indexer has E4M3 keys in f32 mode, too: for tests */
    const struct model_device *device; /* holds and computes the model; NULL: model_on_cpu */
    uint64_t device_seed;              /* for an emulated one: the order in which its streams run */
    const struct gpu_kernels *device_kernels; /* NULL: the device's own */
    enum kernel_level level;                  /* of the CPU */
    uint32_t threads;                         /* 0: one per CPU */
    uint64_t kv_bytes;                        /* memory for KV pages; rounded down to whole pages */
    uint32_t step_tokens_max;                 /* tokens in one step */
    uint32_t step_rows_max;
    bool mtp; /* load the MTP layer, if there is one, and keep its slice in each KV block */
    bool mtp_required;  /* with mtp: refuse a checkpoint that has no MTP layer */
    uint32_t slots_max; /* with mtp, and V4: slots of rows are below this; 0: step_rows_max */
    /* One rank of a job (compute/exchange/job.h): all ranks open the same model with the same
     * options. rank_count 0 or 1: alone, and the ranks' options below are ignored. */
    uint32_t rank, rank_count;
    uint32_t redundant_experts; /* least number of slots beyond one per expert, in each layer */
    uint64_t placement_seed;    /* not 0: shuffles the experts' slots */
    /* The experts' placement: for each MoE layer in order, the expert in each slot of all ranks,
     * grouped by rank. NULL: all layers are spread evenly, as are layers beyond
     * placement_layers. */
    const uint16_t *placement; /* [placement_layers][placement_slots] */
    uint32_t placement_layers, placement_slots;
    /* Times one rank of many without the others: its own tokens stand in for theirs
     * (exchange_open_loopback). The results mean nothing. */
    bool echoes;
    uint32_t echo_rows;  /* most (token, expert) pairs of a step, if more than its tokens give */
    uint64_t move_bytes; /* per rank, memory for experts that are moving to new slots; at least
                          * that of a layer's slots is used; 0: no expert ever moves */
    /* Directory for files of packed weights. Other processes of this machine map them, too, and the
     * next start maps them instead of loading. NULL: weights are in this process's own memory. */
    const char *weights_directory;
    uint32_t weights_unit; /* distinguishes models of one checkpoint that use one directory */
    bool weights_verify;   /* verify the digests of weights found there */
    uint32_t node_ranks;   /* consecutive ranks of one node; 0: all ranks are on one */
    uint32_t device_index; /* index of the device on this host, if there are several */
    bool rows_by_host; /* rows between devices pass through host memory, even with peer access */
    double link_gbps, link_us;       /* simulated limits of the link to other ranks; 0: none */
    double near_gbps;                /* with them, the link within a node; 0: like link_gbps */
    const struct model_trace *trace; /* NULL: none */
    /* Called from time to time while the model is opened. May be NULL. */
    void (*progress)(void *context, enum load_stage stage, uint64_t done, uint64_t total);
    void *progress_context;
    /* Called by rank 0 of a group before weights are read (host/engine/rank_group.h). An error ends
     * the opening. NULL: the model is opened in any case. */
    enum status (*fits)(void *context, const struct memory_need *need, struct error *error);
    void *fits_context;
};

struct kv_pages; /* compute/model/kv_pages.h */
struct model;

/* The memory that the ranks of this host will need for the model, in host memory: from the types
 * and sizes of the checkpoint's tensors, without reading weights. */
enum status model_need(const struct model_options *options, const struct checkpoint *checkpoint,
                       struct memory_need *need_out, struct error *error);

enum status model_open(const struct model_options *options, struct model **model_out,
                       struct error *error);
void model_close(struct model *model);

/* Sets link_gbps and link_us (struct model_options) from the next step on. */
void model_set_link(struct model *model, double gbps, double us);
/* Nanoseconds per byte of the link to ranks of the same node (`near`) or of others; 0: no limit. */
double model_byte_ns(const struct model *model, bool near);

/* Sets the follower, which is copied. NULL: none. Call it between steps. */
void model_set_follower(struct model *model, const struct model_follower *follower);
/* Sets the rows that the model samples from the next step on. Returns false if it cannot: the host
 * then gets all logits. */
bool model_want_draws(struct model *model, struct model_draws draws);

/* For a model with `echoes`, from the next step on: rows of each slot; 0: evenly spread. */
void model_echo_rows(struct model *model, uint32_t slot_rows);

/* From the next step on, tokens are split among an expert's replicas for each batch by the choices
 * of all ranks' tokens (compute/exchange/split_tokens.h), not in turns. All ranks must agree. Only
 * for schedules that are walks (contract/overlap.h). */
void model_split_replicas(struct model *model, bool splits);

/* From the next step on, a row for several ranks of another node is sent there once and forwarded
 * within the node (compute/exchange/exchange.h). All ranks must agree. */
void model_go_by_nodes(struct model *model, bool by_nodes);

/* True if the model was opened with `mtp` and the checkpoint has an MTP layer. */
bool model_has_mtp(const struct model *model);
const struct shape *model_shape(const struct model *model);
uint32_t model_page_count(const struct model *model);
uint64_t model_page_bytes(const struct model *model); /* one KV block, header included */
/* For code that copies KV blocks into or out of pages that no step uses meanwhile. */
struct kv_pages *model_kv_pages(struct model *model);
uint64_t model_weight_bytes(const struct model *model); /* packed */
/* One line about a problem with the files of packed weights; empty: none. */
const char *model_weights_notice(const struct model *model);
/* Bytes of weights that a step of `tokens` tokens reads with evenly chosen experts. */
double model_step_bytes(const struct model *model, uint32_t tokens);
/* Names the kernels' numerics, the activations, the expert sum and the version: "fma1.bf16.v1", or
 * "fma1.bf16.groups.v1" with a sum by groups. It is part of KV block keys. */
const char *model_numerics_id(const struct model *model);
/* 32 bytes that identify the checkpoint. */
const uint8_t *model_identity(const struct model *model);

/* A rank's state and its counters since it was opened. */
struct model_rank {
    uint32_t rank, rank_count;
    uint32_t slots; /* of routed experts, in each MoE layer */
    uint64_t weight_bytes;
    uint64_t mapped_bytes;        /* weights in files that outlive the process */
    uint64_t read_bytes;          /* read from the checkpoint to open the model */
    uint64_t tokens;              /* of this rank's own steps */
    uint64_t tokens_dispatched;   /* token rows received for this rank's experts */
    uint64_t pairs;               /* (token, expert) pairs computed here */
    uint32_t slots_used;          /* in all layers: slots with a token since model_take_tokens */
    uint64_t bytes_sent;          /* to other ranks: dispatched rows and results */
    uint64_t bytes_between_nodes; /* part of them: to ranks of other nodes */
    uint64_t experts_moved;       /* to slots of this rank while steps ran */
    uint64_t bytes_moved;         /* of those experts, from other ranks or the checkpoint */
    int64_t experts_ns;           /* time to compute those pairs */
    int64_t transfer_ns;          /* sum of all dispatch and combine times (exchange_counts) */
    int64_t dispatch_ns;          /* dispatch's part of transfer_ns */
    int64_t waited_ns;            /* time that this rank waited for transfers */
};
struct model_rank model_rank(const struct model *model);

/* Bytes of one dispatched row. With a sum by groups, which returns one row for all experts of the
 * receiving rank, the result's bytes are included. */
uint32_t model_copy_bytes(const struct model *model);
/* Bytes to move one expert. */
uint64_t model_expert_bytes(const struct model *model);

/* The current placement of experts in the slots of all ranks. */
const struct placement *model_placement(const struct model *model);
/* True if the layer has routed experts, which can move. */
bool model_layer_moves(const struct model *model, uint32_t layer);

/* The number of this rank's slots in all layers, and the tokens that each slot has computed since
 * the last call: tokens_out[model_slot_count], layer by layer. */
uint32_t model_slot_count(const struct model *model);
void model_take_tokens(struct model *model, uint32_t *tokens_out);
