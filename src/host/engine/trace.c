/* SPDX-License-Identifier: Apache-2.0 */
#include "host/engine/trace.h"

#include "base/clock.h"
#include "host/process/own_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVENTS_FIRST 4096
#define EVENTS_MAX ((size_t)4 << 20)

struct trace {
    struct model_trace hook;
    struct trace_event *events; /* [capacity] */
    size_t count, capacity, lost;
    int64_t began_ns; /* start of the running stage */
};

static void add(struct trace *trace, const struct trace_event *event) {
    if (trace->count == trace->capacity) {
        size_t capacity = trace->capacity ? 2 * trace->capacity : EVENTS_FIRST;
        struct trace_event *events =
            capacity > EVENTS_MAX ? NULL : realloc(trace->events, capacity * sizeof *events);
        if (!events) {
            trace->lost++;
            return;
        }
        trace->events = events;
        trace->capacity = capacity;
    }
    trace->events[trace->count++] = *event;
}

static void note_begin(void *context) {
    struct trace *trace = context;
    trace->began_ns = clock_now_ns();
}

static void note_end(void *context, enum stage stage, uint32_t micro_batch, uint32_t layer,
                     const struct exchange_transfer *ended) {
    struct trace *trace = context;
    struct trace_event event = {.began_ns = trace->began_ns,
                                .ended_ns = clock_now_ns(),
                                .layer = (uint16_t)layer,
                                .kind = TRACE_STAGE,
                                .stage = (uint8_t)stage,
                                .micro_batch = (uint8_t)micro_batch};
    if (ended) event.waited_ns = ended->waited_ns;
    add(trace, &event);
    if (!ended) return;
    event.kind = TRACE_TRANSFER;
    event.stage = stage == STAGE_MLP ? STAGE_DISPATCH : STAGE_COMBINE;
    event.began_ns = ended->began_ns;
    event.ended_ns = ended->ended_ns;
    event.link_ns = ended->link_ns;
    event.bytes = ended->bytes_sent + ended->bytes_received;
    add(trace, &event);
}

struct trace *trace_open(void) {
    struct trace *trace = calloc(1, sizeof *trace);
    if (trace)
        trace->hook = (struct model_trace){.context = trace, .begin = note_begin, .end = note_end};
    return trace;
}

void trace_close(struct trace *trace) {
    if (!trace) return;
    free(trace->events);
    free(trace);
}

const struct model_trace *trace_hook(struct trace *trace) {
    return &trace->hook;
}

const struct trace_event *trace_events(const struct trace *trace, size_t *count_out,
                                       size_t *lost_out) {
    *count_out = trace->count;
    *lost_out = trace->lost;
    return trace->events;
}

/* ---- the file ---- */

static int64_t first_ns(const struct trace_part *parts, uint32_t rank_count) {
    int64_t first = INT64_MAX;
    for (uint32_t rank = 0; rank < rank_count; rank++)
        for (size_t i = 0; i < parts[rank].count; i++)
            if (parts[rank].events[i].began_ns < first) first = parts[rank].events[i].began_ns;
    return first;
}

static void print_names(FILE *file, uint32_t rank) {
    fprintf(file,
            "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%u,\"args\":{\"name\":\"rank %u\"}},\n"
            "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%u,\"tid\":1,\"args\":{\"name\":"
            "\"compute\"}},\n",
            rank, rank, rank);
}

/* Stages are slices of a thread. Transfers of two micro-batches may overlap, so they are
 * asynchronous events of the process. A name ends with its micro-batch, so each has its own colour.
 */
static void print_event(FILE *file, const struct trace_event *event, uint32_t rank, size_t id,
                        int64_t origin_ns) {
    const char *name = overlap_stage_name((enum stage)event->stage);
    char micro_batch = (char)('a' + event->micro_batch);
    double began_us = (double)(event->began_ns - origin_ns) * 1e-3;
    double ended_us = (double)(event->ended_ns - origin_ns) * 1e-3;
    if (event->kind == TRACE_STAGE) {
        fprintf(file,
                "{\"ph\":\"X\",\"cat\":\"stage\",\"name\":\"%s %c\",\"pid\":%u,\"tid\":1,"
                "\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"layer\":%u,\"waited_us\":%.3f}},\n",
                name, micro_batch, rank, began_us, ended_us - began_us, event->layer,
                (double)event->waited_ns * 1e-3);
        return;
    }
    fprintf(file,
            "{\"ph\":\"b\",\"cat\":\"communication\",\"name\":\"%s %c\",\"pid\":%u,\"tid\":2,"
            "\"id\":%zu,\"ts\":%.3f,\"args\":{\"layer\":%u,\"link_us\":%.3f,\"bytes\":%" PRIu64
            "}},\n"
            "{\"ph\":\"e\",\"cat\":\"communication\",\"name\":\"%s %c\",\"pid\":%u,\"tid\":2,"
            "\"id\":%zu,\"ts\":%.3f},\n",
            name, micro_batch, rank, id, began_us, event->layer, (double)event->link_ns * 1e-3,
            event->bytes, name, micro_batch, rank, id, ended_us);
}

enum status trace_write(const char *path, const struct trace_part *parts, uint32_t rank_count,
                        struct error *error) {
    FILE *file = own_file_report(path);
    if (!file)
        return error_set(error, STATUS_IO, "cannot write the trace %.300s: %s", path,
                         own_file_why(errno));
    int64_t origin_ns = first_ns(parts, rank_count);
    size_t id = 0;
    fprintf(file, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    for (uint32_t rank = 0; rank < rank_count; rank++) {
        print_names(file, rank);
        for (size_t i = 0; i < parts[rank].count; i++)
            print_event(file, &parts[rank].events[i], rank, id++, origin_ns);
    }
    fprintf(file, "{\"ph\":\"M\",\"name\":\"fathom\",\"pid\":0,\"args\":{\"ranks\":%u}}\n]}\n",
            rank_count);
    bool written = !ferror(file);
    if (fclose(file) == 0 && written) return STATUS_OK;
    return error_set(error, STATUS_IO, "cannot write all of the trace %.300s: %s", path,
                     strerror(errno));
}
