/* SPDX-License-Identifier: Apache-2.0
 * Server-sent events as they come: bytes in any pieces in, each event's data out (WHATWG HTML,
 * "Server-sent events", 9.2.6). Lines end with LF, CR or CR LF; several data lines of an event are
 * joined by LF; comments and other fields are skipped. Pure, but for the memory of one event.
 */
#ifndef BENCH_LOAD_EVENTS_H
#define BENCH_LOAD_EVENTS_H

#include "base/bytes.h"
#include "base/status.h"

#define LOAD_EVENTS_DATA_MAX ((size_t)16 << 20)

/* Zero it first. */
struct load_events {
    char *line, *data; /* the line, and the event's data, so far */
    size_t line_count, line_room, data_count, data_room;
    bool has_data; /* a data line has come, perhaps an empty one */
    bool after_cr; /* a LF now belongs to the CR before */
};

typedef void load_events_taker(void *context, struct bytes data);

/* STATUS_TOO_LARGE or STATUS_NO_MEMORY: the stream cannot be read on. */
enum status load_events_push(struct load_events *events, struct bytes text,
                             load_events_taker *taker, void *context);

/* Forgets what has come, keeps the memory. */
void load_events_reset(struct load_events *events);
void load_events_free(struct load_events *events);

#endif
