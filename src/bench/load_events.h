/* SPDX-License-Identifier: Apache-2.0
 * Parser of server-sent events: it receives bytes in any pieces and returns each event's data
 * (WHATWG HTML, "Server-sent events", 9.2.6). Lines end with LF, CR or CR LF. Several data lines of
 * an event are joined by LF. Other fields are skipped. Pure, except for the memory of one event.
 */
#pragma once

#include "base/bytes.h"
#include "base/status.h"

#define LOAD_EVENTS_DATA_MAX ((size_t)16 << 20)

typedef void load_events_taker(void *context, struct bytes data);

/* Set it to zero first. */
struct load_events {
    load_events_taker *comment; /* receives the text of each comment; NULL: comments are skipped */
    char *line, *data;          /* the line, and the event's data, so far */
    size_t line_count, line_room, data_count, data_room;
    bool has_data; /* a data line has arrived, perhaps an empty one */
    bool after_cr; /* a LF now belongs to the CR before */
};

/* STATUS_TOO_LARGE or STATUS_NO_MEMORY: the rest of the stream cannot be read. */
enum status load_events_push(struct load_events *events, struct bytes text,
                             load_events_taker *taker, void *context);

/* Discards the data and keeps the memory. */
void load_events_reset(struct load_events *events);
void load_events_free(struct load_events *events);
