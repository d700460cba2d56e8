/* SPDX-License-Identifier: Apache-2.0
 * Frames (host/process/agent/agent_frame.h) over two nonblocking files, one to read and one to
 * write, which may be the same. Supervisor and agent have one each. Bytes that the file does not
 * accept yet are buffered. The owner's callback is called when there is something to read, and
 * reads frame by frame. Without an event loop the owner calls agent_stream_tend.
 */
#pragma once

#include "base/status.h"
#include "host/process/agent/agent_frame.h"

struct event;
struct event_base;
struct evbuffer;

struct agent_stream {
    int in, out;     /* closed with the stream */
    bool from_agent; /* received frames come from an agent */
    bool is_over;    /* nothing more arrives: end of file, error, or invalid frame */
    bool is_nonsense;
    struct evbuffer *got, *waiting;
    struct event *readable, *writable;
    size_t taken; /* size of the last frame in `got` */
};

/* Owns both files from now on, also after an error. `call` is an event callback, called when there
 * is something to read. */
enum status agent_stream_open(struct agent_stream *stream, struct event_base *base, int in, int out,
                              bool from_agent, void (*call)(int file, short what, void *context),
                              void *context, struct error *error) MUST_USE;
void agent_stream_close(struct agent_stream *stream);

/* Reads all available bytes, and writes as many buffered ones as possible. */
void agent_stream_tend(struct agent_stream *stream);

/* Returns the next frame, valid until the next call; false: none is complete. */
bool agent_stream_next(struct agent_stream *stream, struct agent_frame *frame_out);

/* The first bytes of an invalid stream, for a message. */
void agent_stream_quote(struct agent_stream *stream, char text[static 64]);

/* Sends a frame with the kind's body and a tail. */
void agent_stream_send(struct agent_stream *stream, enum agent_kind kind, const void *body,
                       struct bytes tail);
