/* SPDX-License-Identifier: Apache-2.0
 * Behind compute.h, for what a device computes: its streams, where a step's values are there, and
 * the arrays of a batch that its kernels read. Only files gpu_*.c include it.
 *
 * A micro-batch's work runs on a stream of its own. Rows of a micro-batch begin at a multiple of 4,
 * so that scales, which lie block by block, begin where TMA takes them; x and what is kept for MTP
 * are by the step's tokens.
 */
#ifndef COMPUTE_GPU_GPU_STATE_H
#define COMPUTE_GPU_GPU_STATE_H

#include "compute/gpu/gpu_kernels.h"
#include "compute/model/pass.h"

#define GPU_LOGITS_TILE 64  /* rows of logits computed at a time */
#define GPU_ABSORB_TILE 256 /* generated tokens of a micro-batch between the two halves of kv_b */
#define GPU_CORE_FLOATS                                                                            \
    ((size_t)16 << 20) /* of room for a micro-batch's core, if one token needs no more */
#define GPU_PROMPT_BYTES                                                                           \
    ((size_t)256 << 20) /* of room for a micro-batch's prompts, if a tile of keys needs no more */
#define GPU_MARKS 512   /* of a step that is timed; more are not reported */
#define GPU_STAGES 4    /* batches' arrays on their way at the same time */
#define GPU_ROUND_ROWS                                                                             \
    256 /* among ranks: rows of experts computed at a time, beyond a step's tokens */

/* How rows and results go between ranks: through the hosts' memory; on one host in rooms that all
 * ranks map (gpu_peers.h); between hosts by links (gpu_links.h). */
enum gpu_way { GPU_BY_HOST, GPU_IN_ROOMS, GPU_BY_LINKS };

/* A batch's arrays on the device; of a micro-batch, from its first token on. */
struct gpu_batch {
    uint32_t *ids, *positions, *kv_index, *kv_first, *first_page; /* [tokens] */
    uint32_t *source;                                             /* [tokens] MTP: gpu_pair */
    uint32_t *pages;                                              /* of all runs */
    struct gpu_run *runs;                                         /* of prompts */
    uint32_t *live; /* [1 + OVERLAP_MICRO_BATCHES] tokens: of the step, of each micro-batch */
};

/* A place for a batch's arrays, which go there in one copy. */
struct gpu_stage {
    char *host, *device; /* [stage_bytes] page-locked, and there */
    struct device_event *sent;
};

/* Prepared rows; the form's kind is of the moment. */
struct gpu_rows {
    char *data;
    float *scales;
    uint32_t pitch, scale_stride;
};

struct gpu_micro_batch { /* what a pass's `scratch` is here */
    struct device_stream *stream;
    struct device_event *written; /* the last KV rows of its attention_begin */
    struct device_event *done;
    uint32_t first_token; /* of the step */
    uint32_t row;         /* where its rows begin */
    uint32_t tile;        /* its tile of the absorbed form */
    uint32_t rows;        /* of its tokens; in a graph: as many as there may be */
    const uint32_t *live; /* in a graph: how many there are; else NULL */
    uint32_t keys_max;    /* in a graph: more than the index of any KV row that they see; else 0 */
    struct gpu_batch batch;
};

/* Outputs of the step's tokens [first, first + count) become rows of `gathered` from `row` on. */
struct gpu_outputs {
    uint32_t first, count, row;
};

struct gpu_reported { /* slices that stand once the event has passed */
    uint64_t step;
    uint32_t slices;
};

struct gpu_mark { /* a part of a stage is done, or STAGE_PART_COUNT: a stage begins */
    struct device_event *event;
    const struct gpu_micro_batch *micro_batch;
    enum stage_part part;
};

struct gpu_state {
    struct device *device;
    const struct gpu_kernels *kernels;
    struct gpu_micro_batch micro_batches
        [OVERLAP_MICRO_BATCHES]; /* micro-batches[0] runs also what no micro-batch does */
    struct gpu_micro_batch mtp;  /* on the stream of micro-batches[0] */
    bool forked;                 /* micro-batches other than the first have work */
    struct gpu_graphs *graphs;   /* gpu_graphs.h */
    uint64_t launches;           /* of entries that were put in line, or into a graph */
    struct device_event *begun;
    struct device_stream *teller; /* follows what is written, for the follower */
    struct gpu_stage stages[GPU_STAGES];
    size_t stage_bytes;
    uint32_t next_stage, pages_max, runs_max, tokens_max, rows_max;
    struct gpu_batch mtp_batch; /* of mtp_rows, then of mtp_batch */
    float *angles;              /* [positions_max][rope_dim] */
    uint32_t positions_max;
    /* [tokens][hidden] by the step's tokens: */
    float *x, *hidden, *kept;
    /* [rows_max][stride] by micro-batches' rows: */
    struct gpu_rows input, input_shared;
    float *normed, *q_a, *q, *kv_a, *attended, *y, *shared_y, *gate, *up, *router_logits;
    char *queries; /* F32 or BF16 */
    uint32_t q_a_stride, q_stride, kv_a_stride, hidden_stride, mlp_stride, experts_stride;
    uint32_t expert_stride, queries_pitch, absorbed_pitch, u_pitch;
    char *absorbed, *u; /* [micro-batches][GPU_ABSORB_TILE] */
    float *core_room;   /* [micro-batches][core_floats] */
    size_t core_floats;
    char *prompt_room; /* [micro-batches][prompt_bytes] */
    size_t prompt_bytes;
    uint32_t prompt_keys;     /* that a micro-batch's room is for */
    uint32_t *experts;        /* [rows_max][per_token] */
    float *expert_weights;    /* [rows_max][per_token] */
    uint32_t *pair_row;       /* [rows_max][per_token] */
    uint32_t *row_token;      /* [rows_max * per_token] */
    struct gpu_group *groups; /* [micro-batches][experts] */
    uint32_t *
        slot_tokens; /* [micro-batches][slot_count] since slot_tokens_host was taken: each micro-batch's own,
                            * as their streams run at the same time */
    /* [gpu_state_expert_rows] */
    struct gpu_rows expert_input, expert_intermediate;
    float *expert_gate, *expert_up, *expert_y;
    float *mtp_pair, *mtp_u;    /* [tokens] */
    float *gathered;            /* [outputs_max][hidden] */
    struct gpu_outputs outputs; /* that are to be gathered there */
    float *logits;              /* [GPU_LOGITS_TILE][vocab_stride] */
    struct draw_rule *rules;    /* [outputs_max] by which tokens are drawn */
    uint32_t *drawn;            /* [outputs_max] */
    uint32_t vocab_stride, outputs_max;
    /* page-locked: */
    float *logits_host;                    /* [GPU_LOGITS_TILE][vocab] */
    struct draw_rule *rules_host;          /* [outputs_max] */
    uint32_t *words_host;                  /* [outputs_max] what few words come back */
    uint32_t *slot_tokens_host;            /* [micro-batches][slot_count] */
    struct device_event **reported_events; /* [reported_max] */
    struct gpu_reported *reported;         /* [reported_max] a ring */
    uint32_t reported_max, reported_first, reported_count;
    struct gpu_mark *marks; /* [GPU_MARKS], if somebody times them; else NULL */
    uint32_t mark_count;
    enum gpu_way way;
    struct gpu_exchange *exchange; /* among ranks (gpu_exchange.h) */
    void **memory;                 /* [memory_count] all that was allocated, of memory_room */
    uint32_t memory_count, memory_room;
    enum status status; /* the first failure of the device, which `end` tells */
    struct error error;
};

static inline struct gpu_micro_batch *gpu_micro_batch_of(const struct pass *pass) {
    return (struct gpu_micro_batch *)(void *)pass->scratch;
}
/* MTP's walk is in the first micro-batch's place. */
static inline size_t gpu_micro_batch_number(const struct pass *pass) {
    return gpu_micro_batch_of(pass)->tile / GPU_ABSORB_TILE;
}

/* Room on the device for a step; whatever it returns, close it. */
enum status gpu_state_open(struct model *model, struct error *error);
/* Waits for all work; failures are ignored. Nothing if it was never opened. */
void gpu_state_finish(struct model *model);
void gpu_state_close(struct model *model); /* behind gpu_state_finish */

/* More than the index of any KV row that a generated token of the batch sees. */
uint32_t gpu_state_most_keys(const struct batch *batch);

struct gpu_taker { /* takes memory, which the state's close gives back, until some is refused */
    struct gpu_state *state;
    enum status status;
    struct error *error;
};
/* NULL: none was wanted, or it was refused. `pinned`: page-locked, else on the device. */
void *gpu_state_take(struct gpu_taker *taker, size_t bytes, bool pinned, const char *what);
/* On the device, for other ranks' devices, too. */
void *gpu_state_take_shared(struct gpu_taker *taker, size_t bytes, const char *what);

/* Sends a batch's arrays, of one or of two batches behind each other, on the first micro-batch's
 * stream. */
struct gpu_batch gpu_state_send(struct model *model, const struct batch *first,
                                const struct batch *second);
/* The arrays from a token of theirs on, and from a run of prompts on. */
struct gpu_batch gpu_state_from(const struct gpu_batch *batch, uint32_t token, uint32_t run);

/* The rows of experts that are computed at a time: all pairs of a step, or a round's. With links a
 * multiple of the ranks, because each has a piece of the same size. */
uint32_t gpu_state_expert_rows(const struct model *model);

struct gpu_heads gpu_state_heads_of(const struct model *model);

/* The table's `mark`, and what `end` does with them: the device's work is done. */
void gpu_state_mark(const struct pass *pass, enum stage_part part);
void gpu_state_report_marks(struct model *model);

/* Notes a failure. */
void gpu_state_note(struct gpu_state *state, enum status status, const struct error *error);

#endif
