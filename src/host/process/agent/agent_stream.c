/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/agent/agent_stream.h"

#include "base/check.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define READ_BYTES (1 << 16)
#define GOT_BYTES_MAX (AGENT_FRAME_BYTES_MAX + READ_BYTES)

static void write_waiting(struct agent_stream *stream) {
    while (evbuffer_get_length(stream->waiting)) {
        if (evbuffer_write(stream->waiting, stream->out) > 0) continue;
        if (errno == EAGAIN || errno == EINTR) {
            event_add(stream->writable, NULL);
        } else {
            evbuffer_drain(stream->waiting, evbuffer_get_length(stream->waiting));
            stream->is_over = true;
        }
        return;
    }
}

static void on_writable(evutil_socket_t file, short what, void *context) {
    write_waiting(context);
}

static void block_never(int file) {
    int flags = fcntl(file, F_GETFL);
    if (flags >= 0) fcntl(file, F_SETFL, flags | O_NONBLOCK);
}

enum status agent_stream_open(struct agent_stream *stream, struct event_base *base, int in, int out,
                              bool from_agent, void (*call)(int file, short what, void *context),
                              void *context, struct error *error) {
    *stream = (struct agent_stream){.in = in, .out = out, .from_agent = from_agent};
    block_never(in);
    block_never(out);
    stream->got = evbuffer_new();
    stream->waiting = evbuffer_new();
    stream->readable = event_new(base, in, EV_READ | EV_PERSIST, call, context);
    stream->writable = event_new(base, out, EV_WRITE, on_writable, stream);
    if (stream->got && stream->waiting && stream->readable && stream->writable) {
        event_add(stream->readable, NULL);
        return STATUS_OK;
    }
    agent_stream_close(stream);
    return error_set(error, STATUS_NO_MEMORY, "no memory to speak with another process");
}

void agent_stream_close(struct agent_stream *stream) {
    if (stream->readable) event_free(stream->readable);
    if (stream->writable) event_free(stream->writable);
    if (stream->got) evbuffer_free(stream->got);
    if (stream->waiting) evbuffer_free(stream->waiting);
    close(stream->in);
    if (stream->out != stream->in) close(stream->out);
    *stream = (struct agent_stream){.in = -1, .out = -1, .is_over = true};
}

static void end(struct agent_stream *stream) {
    stream->is_over = true;
    event_del(stream->readable);
}

void agent_stream_tend(struct agent_stream *stream) {
    if (stream->is_over) {
        if (stream->readable) end(stream); /* a write may have detected it */
        return;
    }
    while (evbuffer_get_length(stream->got) < GOT_BYTES_MAX) {
        int count = evbuffer_read(stream->got, stream->in, READ_BYTES);
        if (count > 0) continue;
        if (count == 0 || (errno != EAGAIN && errno != EINTR)) end(stream);
        break;
    }
    write_waiting(stream);
}

static struct bytes agent_stream_received(struct agent_stream *stream) {
    size_t count = evbuffer_get_length(stream->got);
    return (struct bytes){(const char *)evbuffer_pullup(stream->got, -1), count};
}

bool agent_stream_next(struct agent_stream *stream, struct agent_frame *frame_out) {
    if (!stream->got) return false;
    if (stream->taken) evbuffer_drain(stream->got, stream->taken);
    stream->taken = 0;
    if (stream->is_nonsense) return false;
    enum agent_got got =
        agent_frame_read(agent_stream_received(stream), stream->from_agent, frame_out);
    if (got == AGENT_GOT_FRAME) stream->taken = frame_out->bytes;
    if (got == AGENT_GOT_NONSENSE) {
        stream->is_nonsense = true;
        end(stream);
    }
    return got == AGENT_GOT_FRAME;
}

void agent_stream_quote(struct agent_stream *stream, char text[static 64]) {
    struct bytes got = agent_stream_received(stream);
    size_t count = 0;
    while (count < got.count && count < 63 && got.data[count] != '\n') {
        char c = got.data[count];
        text[count++] = c >= ' ' && c <= '~' ? c : '?';
    }
    text[count] = 0;
}

void agent_stream_send(struct agent_stream *stream, enum agent_kind kind, const void *body,
                       struct bytes tail) {
    size_t body_bytes = agent_frame_body_bytes(kind);
    const struct agent_head head = agent_frame_head(kind, body_bytes + tail.count);
    if (stream->is_over) return;
    int failed = evbuffer_add(stream->waiting, &head, sizeof head);
    if (body_bytes) failed |= evbuffer_add(stream->waiting, body, body_bytes);
    if (tail.count) failed |= evbuffer_add(stream->waiting, tail.data, tail.count);
    check(!failed); /* no memory */
    write_waiting(stream);
}
