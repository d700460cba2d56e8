/* SPDX-License-Identifier: Apache-2.0
 * Records when this rank's stages ran and its transfers were under way, and writes the records of
 * all ranks as a trace that opens in ui.perfetto.dev (Chrome's JSON trace format, one event a
 * line): a row of stages for each rank, and one of its transfers.
 *
 * Times are those of each machine's monotonic clock; ranks of one machine share it.
 */
#pragma once

#include "compute/model/model.h"

enum trace_kind { TRACE_STAGE, TRACE_TRANSFER };

struct trace_event {
    int64_t began_ns, ended_ns;
    int64_t waited_ns; /* of a stage: for the transfer that it needs; it waits first, then works */
    int64_t link_ns;   /* of a transfer: on the link, without pauses between waves */
    uint64_t bytes;    /* of a transfer, out and in */
    uint16_t layer;
    uint8_t kind, stage, micro_batch;
};

struct trace;

/* NULL when memory is out. */
struct trace *trace_open(void);
void trace_close(struct trace *trace);

/* For model_options; lives as long as the trace. */
const struct model_trace *trace_hook(struct trace *trace);

/* The events recorded so far; `lost_out`: events that did not fit. */
const struct trace_event *trace_events(const struct trace *trace, size_t *count_out,
                                       size_t *lost_out);

struct trace_part { /* a rank's */
    const struct trace_event *events;
    size_t count;
};

/* Writes the file. */
enum status trace_write(const char *path, const struct trace_part *parts, uint32_t rank_count,
                        struct error *error) MUST_USE;
