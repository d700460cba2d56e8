/* SPDX-License-Identifier: Apache-2.0
 * The state of a device's engine: its streams, the device memory of a step's values, and the batch
 * arrays that kernels read. Only files gpu_*.c include it.
 *
 * Each micro-batch has a stream. Its rows begin at a multiple of 4, because scales are stored block
 * by block and TMA needs their alignment. x and the values kept for MTP are indexed by the step's
 * tokens instead.
 */
#pragma once

#include "compute/gpu/gpu_kernels.h"
#include "compute/model/pass.h"

#define GPU_LOGITS_TILE 64  /* rows of logits in a tile */
#define GPU_ABSORB_TILE 256 /* generated tokens in a tile of absorbed attention */
#define GPU_CORE_FLOATS                                                                            \
    ((size_t)16 << 20) /* workspace for a micro-batch's core, unless one token needs more */
#define GPU_PROMPT_BYTES                                                                           \
    ((size_t)256                                                                                   \
     << 20)           /* workspace for a micro-batch's prompts, unless a tile of keys needs more */
#define GPU_MARKS 512 /* timing marks of a step; further ones are dropped */
#define GPU_STAGING_BUFFERS 4 /* copies of batch arrays in flight */
#define GPU_ROUND_ROWS                                                                             \
    256 /* several ranks: rows of experts in a round, in addition to a step's tokens */

/* How rows and results are sent between ranks: through host memory; through peer memory, if all
 * ranks are on one host (gpu_peers.h); or by communicators (gpu_comm.h). */
enum gpu_transport { GPU_VIA_HOST, GPU_VIA_PEER_MEMORY, GPU_VIA_COMM };

/* A batch's arrays in device memory; those of a micro-batch begin at its first token. */
struct gpu_batch {
    uint32_t *ids, *positions, *kv_index, *kv_first, *first_page; /* [tokens] */
    uint32_t *source;     /* [tokens] of struct gpu_mtp_pair */
    uint32_t *pages;      /* pages of all runs */
    struct gpu_run *runs; /* runs of prompts */
    uint32_t *
        live; /* [1 + OVERLAP_MICRO_BATCHES] number of tokens of the step and of each micro-batch */
};

/* Staging buffers for a batch's arrays, which are copied to the device at once. */
struct gpu_staging {
    char *host, *device; /* [staging_bytes] page-locked host memory, and device memory */
    struct device_event *sent;
};

/* Memory for prepared rows; their kind may change from use to use. */
struct gpu_rows {
    char *data;
    float *scales;
    uint32_t pitch, scale_stride;
};

struct gpu_micro_batch { /* a pass's `scratch` points to it */
    struct device_stream *stream;
    struct device_event *written; /* KV rows of its last attention_begin are written */
    struct device_event *done;
    uint32_t first_token; /* index in the step */
    uint32_t row;         /* its first row */
    uint32_t tile;        /* its first token in the tile buffers of absorbed attention */
    uint32_t rows;        /* number of its tokens; in a graph: the upper bound */
    const uint32_t *live; /* in a graph: the actual number; else NULL */
    uint32_t keys_max;    /* in a graph: upper bound of KV row indices; else 0 */
    struct gpu_batch batch;
};

/* Outputs of tokens [first, first + count) of the step are copied to `gathered` from `row` on. */
struct gpu_outputs {
    uint32_t first, count, row;
};

struct gpu_reported { /* slices of KV rows that are written once the event is done */
    uint64_t step;
    uint32_t slices;
};

struct gpu_mark { /* the end of a part of a stage; STAGE_PART_COUNT: the begin of a stage */
    struct device_event *event;
    const struct gpu_micro_batch *micro_batch;
    enum stage_part part;
};

struct gpu_state {
    struct device *device;
    const struct gpu_kernels *kernels;
    /* the first one's stream also runs the work outside micro-batches */
    struct gpu_micro_batch micro_batches[OVERLAP_MICRO_BATCHES];
    struct gpu_micro_batch mtp; /* uses the stream of micro_batches[0] */
    bool forked;                /* other micro-batches than the first have work enqueued */
    struct gpu_graphs *graphs;  /* gpu_graphs.h */
    uint64_t launches;          /* kernels enqueued or captured */
    struct device_event *begun;
    /* waits for written KV rows and reports them to the follower */
    struct device_stream *report_stream;
    struct gpu_staging staging[GPU_STAGING_BUFFERS];
    size_t staging_bytes;
    uint32_t next_staging, pages_max, runs_max, tokens_max, rows_max;
    struct gpu_batch mtp_batch; /* arrays of mtp_rows, then of mtp_batch */
    float *angles;              /* [positions_max][rope_dim] */
    uint32_t positions_max;
    /* [tokens][hidden], indexed by the step's tokens: */
    float *x, *hidden, *kept;
    /* [rows_max][stride], indexed by rows of micro-batches: */
    struct gpu_rows input, input_shared;
    float *normed, *q_a, *q, *kv_a, *attended, *y, *shared_y, *gate, *up, *router_logits;
    char *queries; /* F32 or BF16 */
    uint32_t q_a_stride, q_stride, kv_a_stride, hidden_stride, mlp_stride, experts_stride;
    uint32_t expert_stride, queries_pitch, absorbed_pitch, u_pitch;
    char *absorbed, *u;    /* [micro-batches][GPU_ABSORB_TILE] */
    float *core_workspace; /* [micro-batches][core_floats] */
    size_t core_floats;
    char *prompt_workspace; /* [micro-batches][prompt_bytes] */
    size_t prompt_bytes;
    uint32_t prompt_keys;     /* keys for which a micro-batch's workspace is allocated */
    uint32_t *experts;        /* [rows_max][per_token] */
    float *expert_weights;    /* [rows_max][per_token] */
    uint32_t *pair_row;       /* [rows_max][per_token] */
    uint32_t *row_token;      /* [rows_max * per_token] */
    struct gpu_group *groups; /* [micro-batches][experts] */
    /* [micro-batches][slot_count] counts since the last copy to slot_tokens_host; separate because
     * micro-batches' streams run at the same time */
    uint32_t *slot_tokens;
    /* [gpu_state_expert_rows] */
    struct gpu_rows expert_input, expert_intermediate;
    float *expert_gate, *expert_up, *expert_y;
    float *mtp_pair, *mtp_u;    /* [tokens] */
    float *gathered;            /* [outputs_max][hidden] */
    struct gpu_outputs outputs; /* to be gathered next */
    float *logits;              /* [GPU_LOGITS_TILE][vocab_stride] */
    struct draw_rule *rules;    /* [outputs_max] sampling rules */
    uint32_t *drawn;            /* [outputs_max] */
    uint32_t vocab_stride, outputs_max;
    /* page-locked: */
    float *logits_host;                    /* [GPU_LOGITS_TILE][vocab] */
    struct draw_rule *rules_host;          /* [outputs_max] */
    uint32_t *words_host;                  /* [outputs_max] small results */
    uint32_t *slot_tokens_host;            /* [micro-batches][slot_count] */
    struct device_event **reported_events; /* [reported_max] */
    struct gpu_reported *reported;         /* [reported_max] a ring buffer */
    uint32_t reported_max, reported_first, reported_count;
    struct gpu_mark *marks; /* [GPU_MARKS] if the step is timed; else NULL */
    uint32_t mark_count;
    enum gpu_transport transport;
    struct gpu_exchange *exchange; /* several ranks (gpu_exchange.h) */
    void **memory; /* [memory_count] all allocations; the array has memory_capacity */
    uint32_t memory_count, memory_capacity;
    enum status status; /* the first failure of the device, which `end` returns */
    struct error error;
};

static inline struct gpu_micro_batch *gpu_micro_batch_of(const struct pass *pass) {
    return (struct gpu_micro_batch *)(void *)pass->scratch;
}
/* MTP uses the place of the first micro-batch. */
static inline size_t gpu_micro_batch_number(const struct pass *pass) {
    return gpu_micro_batch_of(pass)->tile / GPU_ABSORB_TILE;
}

/* Allocates a step's memory on the device. Close it on any status. */
enum status gpu_state_open(struct model *model, struct error *error);
/* Waits for all work and ignores failures. Does nothing if it was never opened. */
void gpu_state_finish(struct model *model);
void gpu_state_close(struct model *model); /* after gpu_state_finish */

/* Upper bound of the KV row indices that generated tokens of the batch attend to. */
uint32_t gpu_state_most_keys(const struct batch *batch);

struct
    gpu_allocator { /* allocates memory that gpu_state_close releases; stops at the first failure */
    struct gpu_state *state;
    enum status status;
    struct error *error;
};
/* NULL: 0 bytes requested, or a failure. `pinned`: page-locked host memory, else device memory. */
void *gpu_state_allocate(struct gpu_allocator *allocator, size_t bytes, bool pinned,
                         const char *what);
/* Device memory that other ranks' devices can map. */
void *gpu_state_allocate_shared(struct gpu_allocator *allocator, size_t bytes, const char *what);

/* Copies the arrays of one or two batches to the device, on the first micro-batch's stream. */
struct gpu_batch gpu_state_send(struct model *model, const struct batch *first,
                                const struct batch *second);
/* The arrays from a token and a prompt run on. */
struct gpu_batch gpu_state_from(const struct gpu_batch *batch, uint32_t token, uint32_t run);

/* The number of expert rows computed at a time: all pairs of a step, or one round. With
 * communicators a multiple of the number of ranks, because each rank has a chunk of the same size.
 */
uint32_t gpu_state_expert_rows(const struct model *model);

struct gpu_heads gpu_state_heads_of(const struct model *model);

/* compute.h's `mark`; and the report of all marks, after the device's work is done. */
void gpu_state_mark(const struct pass *pass, enum stage_part part);
void gpu_state_report_marks(struct model *model);

/* Stores a failure, unless there is one already. */
void gpu_state_note(struct gpu_state *state, enum status status, const struct error *error);
