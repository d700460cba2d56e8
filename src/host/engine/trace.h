/* SPDX-License-Identifier: Apache-2.0
 * Records the times of this rank's stages and transfers, and writes the events of all ranks as a
 * trace for ui.perfetto.dev (Chrome's JSON trace format, one event per line). Each rank has a row
 * of stages and a row of transfers.
 *
 * Times are from each machine's monotonic clock, which the ranks of a machine share.
 */
#pragma once

#include "compute/model/model.h"

enum trace_kind { TRACE_STAGE, TRACE_TRANSFER };

struct trace_event {
    int64_t began_ns, ended_ns;
    int64_t waited_ns; /* of a stage: wait for its transfer, before its work */
    int64_t link_ns;   /* of a transfer: time on the link, without pauses between waves */
    uint64_t bytes;    /* of a transfer: sent and received */
    uint16_t layer;
    uint8_t kind, stage, micro_batch;
};

struct trace;

/* Returns NULL if there is no memory. */
struct trace *trace_open(void);
void trace_close(struct trace *trace);

/* The hook for model_options. It lives as long as the trace. */
const struct model_trace *trace_hook(struct trace *trace);

/* The events recorded so far. `lost_out`: number of events that did not fit. */
const struct trace_event *trace_events(const struct trace *trace, size_t *count_out,
                                       size_t *lost_out);

struct trace_part { /* the events of a rank */
    const struct trace_event *events;
    size_t count;
};

/* Writes the trace file. */
enum status trace_write(const char *path, const struct trace_part *parts, uint32_t rank_count,
                        struct error *error) MUST_USE;
