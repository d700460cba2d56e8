/* SPDX-License-Identifier: Apache-2.0
 * Frames (host/process/agent/agent_frame.h) over two files that never block, one to read and one to write,
 * which may be the same. Both ends of the way between a supervisor and an agent have one. What a
 * file does not take waits here. Its owner is called when there is something to read, and reads
 * frame by frame; it may also come by itself, where no event loop runs.
 */
#pragma once

#include "base/status.h"
#include "host/process/agent/agent_frame.h"

struct event;
struct event_base;
struct evbuffer;

struct agent_stream {
    int in, out;     /* closed with the stream */
    bool from_agent; /* what is read */
    bool is_over;    /* nothing more comes: an end, an error, or nonsense */
    bool is_nonsense;
    struct evbuffer *got, *waiting;
    struct event *readable, *writable;
    size_t taken; /* bytes of `got` that the last frame has */
};

/* Takes over the files, also when it fails. `call`, an event's, is called when there is something
 * to read. */
enum status agent_stream_open(struct agent_stream *stream, struct event_base *base, int in, int out,
                              bool from_agent, void (*call)(int file, short what, void *context),
                              void *context, struct error *error) MUST_USE;
void agent_stream_close(struct agent_stream *stream);

/* Reads what is there, and writes what it can of what waits. */
void agent_stream_tend(struct agent_stream *stream);

/* The next frame, good until the next call; false: none is there. */
bool agent_stream_next(struct agent_stream *stream, struct agent_frame *frame_out);

/* The first bytes of an invalid stream, for a message. */
void agent_stream_quote(struct agent_stream *stream, char text[static 64]);

/* Sends the kind's body and a tail. */
void agent_stream_send(struct agent_stream *stream, enum agent_kind kind, const void *body,
                       struct bytes tail);
