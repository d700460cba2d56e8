/* SPDX-License-Identifier: Apache-2.0
 * A compressed file may have several members, one after the other, as `cat` produces them.
 */
#include "host/process/gzip_file.h"

#include <stdlib.h>
#include <zlib.h>

#include "base/check.h"
#include "base/file.h"

#define GROWTH_BYTES ((size_t)1 << 20)
#define GZIP_ALONE (15 + 16) /* zlib's windowBits: the largest window, with a gzip header */

struct unpacking {
    z_stream stream;
    char *text;
    size_t room;
    const char *path;
    size_t bytes_max;
};

static enum status not_unpacked(const struct unpacking *work, const char *why,
                                struct error *error) {
    return error_set(error, STATUS_CORRUPT, "%.300s: cannot be unpacked: %.100s", work->path, why);
}

/* Enlarges the text; room for a terminator is included. */
static enum status gzip_file_make_room(struct unpacking *work, struct error *error) {
    size_t used = (size_t)((char *)work->stream.next_out - work->text);
    if (used > work->bytes_max)
        return error_set(error, STATUS_TOO_LARGE, "%.300s: more than %zu bytes when unpacked",
                         work->path, work->bytes_max);
    size_t room = 2 * work->room + GROWTH_BYTES;
    char *grown = realloc(work->text, room + 1);
    if (!grown)
        return error_set(error, STATUS_NO_MEMORY, "%.300s: no memory to read it", work->path);
    work->text = grown;
    work->room = room;
    work->stream.next_out = (Bytef *)grown + used;
    work->stream.avail_out = (uInt)(room - used);
    return STATUS_OK;
}

static enum status gzip_file_unpack(struct unpacking *work, struct error *error) {
    z_stream *stream = &work->stream;
    for (;;) {
        enum status status = stream->avail_out ? STATUS_OK : gzip_file_make_room(work, error);
        if (status) return status;
        int found = inflate(stream, Z_NO_FLUSH);
        if (found == Z_STREAM_END && stream->avail_in == 0) break;
        if (found == Z_STREAM_END) found = inflateReset(stream);
        if (found == Z_BUF_ERROR) return not_unpacked(work, "it is cut off", error);
        if (found != Z_OK)
            return not_unpacked(work, stream->msg ? stream->msg : "it is damaged", error);
    }
    if ((size_t)((char *)stream->next_out - work->text) > work->bytes_max)
        return gzip_file_make_room(work, error);
    return STATUS_OK;
}

enum status gzip_file_take(const char *path, size_t bytes_max, struct bytes *out,
                           struct error *error) {
    struct bytes packed;
    struct unpacking work = {.path = path, .bytes_max = bytes_max};
    check(bytes_max <= (size_t)1 << 30); /* zlib counts in 32 bits */
    enum status status = file_take(path, bytes_max, &packed, error);
    if (status) return status;
    const unsigned char *first = (const unsigned char *)packed.data;
    if (packed.count < 2 || first[0] != 0x1f || first[1] != 0x8b) {
        *out = packed;
        return STATUS_OK;
    }
    work.stream.next_in = (Bytef *)(uintptr_t)packed.data;
    work.stream.avail_in = (uInt)packed.count;
    if (inflateInit2(&work.stream, GZIP_ALONE) != Z_OK)
        status = error_set(error, STATUS_NO_MEMORY, "%.300s: no memory to read it", path);
    if (!status) {
        status = gzip_file_unpack(&work, error);
        (void)inflateEnd(&work.stream);
    }
    free((void *)(uintptr_t)packed.data);
    if (status) {
        free(work.text);
        return status;
    }
    size_t count = (size_t)((char *)work.stream.next_out - work.text);
    work.text[count] = 0;
    *out = (struct bytes){work.text, count};
    return STATUS_OK;
}
