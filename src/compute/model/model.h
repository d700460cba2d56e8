/* SPDX-License-Identifier: Apache-2.0
 * A loaded model: packed weights, KV pages and scratch, opened together. Its steps are run by
 * compute/model/forward.h, its experts moved by compute/model/moves.h; it never decides who runs
 * next. One caller at a time.
 */
#pragma once

#include "compute/exchange/placement.h"
#include "compute/kernels/kernels.h"
#include "compute/model/activations.h"
#include "compute/model/expert_sum.h"
#include "compute/model/listeners.h"
#include "compute/weights/shape.h"

struct checkpoint;   /* compute/weights/checkpoint.h */
struct gpu_kernels;  /* compute/gpu/gpu_kernels.h */
struct model_device; /* compute/model/compute.h */

struct model_options {
    const char *directory;
    struct checkpoint *checkpoint; /* instead of what lies in `directory`; taken over, also when
                                    * opening fails. NULL: none */
    enum activations activations;
    enum expert_sum expert_sum;
    const struct model_device *device; /* where it lies, and what calculates; NULL: model_on_cpu */
    uint64_t device_seed;              /* emulated: draws the order in which its streams run */
    const struct gpu_kernels *device_kernels; /* NULL: the device's own */
    enum kernel_level level;                  /* of the CPU */
    uint32_t threads;                         /* 0: one per CPU */
    uint64_t kv_bytes;                        /* memory for KV pages; rounded down to whole pages */
    uint32_t step_tokens_max;                 /* tokens in one step */
    uint32_t step_rows_max;
    bool mtp; /* load the MTP layer, if there is one, and keep its slice in each KV block */
    bool mtp_required;  /* with mtp: refuse a checkpoint that has no MTP layer */
    uint32_t slots_max; /* with mtp: rows' slots are below; 0: step_rows_max */
    /* One rank of a job (compute/exchange/job.h): all ranks open the same model with the same
     * options. rank_count 0 or 1: alone, and the ranks' options below are ignored. */
    uint32_t rank, rank_count;
    uint32_t redundant_experts; /* slots beyond one per expert, at least, in each layer */
    uint64_t placement_seed;    /* not 0: experts' slots are shuffled */
    /* Where the experts lie: for each MoE layer in order, the expert in each slot of all ranks, a
     * rank's slots behind each other. NULL: all are spread evenly, as are layers beyond
     * placement_layers. */
    const uint16_t *placement; /* [placement_layers][placement_slots] */
    uint32_t placement_layers, placement_slots;
    /* The other ranks are not there: this one's own tokens stand for theirs (exchange_open_loopback).
     * To time one rank of many; what it computes means nothing. */
    bool echoes;
    uint32_t echo_rows;  /* (token, expert) pairs of a step at most, if more than its tokens' */
    uint64_t move_bytes; /* memory for experts on their way to new slots, on each rank; at least
                          * that of a layer's slots is taken; 0: no expert ever moves */
    /* Packed weights lie in files there, which other processes of this machine map too and which
     * the next start maps instead of loading; NULL: in this process's own memory. */
    const char *weights_directory;
    uint32_t weights_unit; /* distinguishes models of one checkpoint that use one directory */
    bool weights_verify;   /* look through what is found there */
    uint32_t node_ranks;   /* of a node, consecutive; 0: all ranks are on one */
    uint32_t device_index; /* which of this host's devices, if `device` is one of several */
    bool
        rows_by_host; /* between ranks on devices rows pass the host, also where devices reach one another */
    double link_gbps, link_us;       /* slows the link to other ranks down; 0: not */
    double near_gbps;                /* then, that to ranks of the same node; 0: as the other */
    const struct model_trace *trace; /* NULL: none */
    /* Called now and then while weights load; may be NULL. */
    void (*progress)(void *context, uint64_t done_bytes, uint64_t total_bytes);
    void *progress_context;
};

struct kv_pages; /* compute/model/kv_pages.h */
struct model;

enum status model_open(const struct model_options *options, struct model **model_out,
                       struct error *error);
void model_close(struct model *model);

/* From the next step on; see struct model_options. */
void model_set_link(struct model *model, double gbps, double us);
/* Nanoseconds per byte of the link to ranks of the same node or of others; 0: it is not limited. */
double model_byte_ns(const struct model *model, bool near);

/* Between two steps; copied. NULL: no follower. */
void model_set_follower(struct model *model, const struct model_follower *follower);
/* From the next step on. False: all logits of this model come to the host, whatever is wanted. */
bool model_want_draws(struct model *model, struct model_draws draws);

/* A model that echoes, from the next step on: rows of each slot; 0: by even choices. */
void model_echo_rows(struct model *model, uint32_t slot_rows);

/* From the next step on: replicas of an expert are split for each batch by what all ranks' tokens
 * chose (compute/exchange/split_tokens.h), instead of taking turns. All ranks alike; only for
 * schedules that are walks (contract/overlap.h). */
void model_split_replicas(struct model *model, bool splits);

/* From the next step on: what goes to other nodes goes once to each and is passed on there
 * (compute/exchange/exchange.h). All ranks alike. */
void model_go_by_nodes(struct model *model, bool by_nodes);

/* True if it was opened with `mtp` and the checkpoint has the layer. */
bool model_has_mtp(const struct model *model);
const struct shape *model_shape(const struct model *model);
uint32_t model_page_count(const struct model *model);
uint64_t model_page_bytes(const struct model *model); /* one KV block, header included */
/* For what moves blocks in and out of pages that no step uses meanwhile. */
struct kv_pages *model_kv_pages(struct model *model);
uint64_t model_weight_bytes(const struct model *model); /* packed */
/* A notice about files of weights, in one line; empty: none. */
const char *model_weights_notice(const struct model *model);
/* Bytes of weights that a step of `tokens` tokens reads, if experts are chosen evenly. */
double model_step_bytes(const struct model *model, uint32_t tokens);
/* The kernels' numerics, activations, sum of experts and version: "fma1.bf16.v1", or, with a sum by
 * groups, "fma1.bf16.groups.v1". Enters block keys. */
const char *model_numerics_id(const struct model *model);
/* 32 bytes that identify the checkpoint. */
const uint8_t *model_identity(const struct model *model);

/* A rank's state and its counters since it was opened. */
struct model_rank {
    uint32_t rank, rank_count;
    uint32_t slots; /* of routed experts, in each MoE layer */
    uint64_t weight_bytes;
    uint64_t mapped_bytes;        /* of the weights, in files that outlive the process */
    uint64_t read_bytes;          /* of the checkpoint, when the model was opened */
    uint64_t tokens;              /* of the rows of this rank's own steps */
    uint64_t tokens_dispatched;   /* tokens' activations that came to this rank's experts */
    uint64_t pairs;               /* (token, expert) pairs computed here */
    uint32_t slots_used;          /* of all layers, by a token since their counts were last taken */
    uint64_t bytes_sent;          /* to other ranks' experts, and results back */
    uint64_t bytes_between_nodes; /* of those: to ranks of other nodes */
    uint64_t experts_moved;       /* to slots of this rank, while steps ran */
    uint64_t bytes_moved;         /* of moved experts, from other ranks or the checkpoint */
    int64_t experts_ns;           /* for those pairs */
    int64_t transfer_ns;          /* of all dispatches and combines, summed; see exchange_counts */
    int64_t dispatch_ns;          /* of that: of dispatches */
    int64_t waited_ns;            /* of this rank's time, for the ends of those */
};
struct model_rank model_rank(const struct model *model);

/* Bytes of a token's row to another rank's experts; with those of the row that comes back where it
 * is one for all of them, a sum of a group. */
uint32_t model_copy_bytes(const struct model *model);
/* Bytes of an expert that moves. */
uint64_t model_expert_bytes(const struct model *model);

/* Which expert lies in which slot of which rank, now. */
const struct placement *model_placement(const struct model *model);
/* True if the layer has routed experts. */
bool model_layer_moves(const struct model *model, uint32_t layer);

/* Slots of this rank in all layers, and how many tokens each has computed since the last call:
 * tokens_out[model_slot_count], a layer's behind the layer before. */
uint32_t model_slot_count(const struct model *model);
void model_take_tokens(struct model *model, uint32_t *tokens_out);
