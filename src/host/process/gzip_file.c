/* SPDX-License-Identifier: Apache-2.0
 * zlib reads both: what does not begin as gzip passes through as it is.
 */
#include "host/process/gzip_file.h"

#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include "base/file.h"

#define READ_BYTES ((size_t)1 << 20)

static enum status read_all(gzFile file, const char *path, size_t bytes_max, struct bytes *out,
                            struct error *error) {
    size_t room = 0, count = 0;
    char *text = NULL;
    for (;;) {
        if (room - count < READ_BYTES + 1) {
            room = 2 * room + READ_BYTES + 1;
            char *grown = realloc(text, room);
            if (!grown) {
                free(text);
                return error_set(error, STATUS_NO_MEMORY, "%.300s: no memory to read it", path);
            }
            text = grown;
        }
        int found = gzread(file, text + count, READ_BYTES);
        if (found < 0 || (found == 0 && !gzeof(file))) {
            int code;
            const char *why = gzerror(file, &code);
            free(text);
            return error_set(error, STATUS_CORRUPT, "%.300s: cannot be unpacked: %.100s", path,
                             why);
        }
        count += (size_t)found;
        if (count > bytes_max) {
            free(text);
            return error_set(error, STATUS_TOO_LARGE, "%.300s: more than %zu bytes when unpacked",
                             path, bytes_max);
        }
        if (found == 0) break;
    }
    text[count] = 0;
    *out = (struct bytes){text, count};
    return STATUS_OK;
}

enum status gzip_file_take(const char *path, size_t bytes_max, struct bytes *out,
                           struct error *error) {
    int descriptor;
    size_t bytes;
    enum status status = file_open(path, bytes_max, &descriptor, &bytes, error);
    if (status) return status;
    gzFile file = gzdopen(descriptor, "rb");
    if (!file) {
        close(descriptor);
        return error_set(error, STATUS_NO_MEMORY, "%.300s: no memory to read it", path);
    }
    status = read_all(file, path, bytes_max, out, error);
    int closed = gzclose_r(file); /* the descriptor, too; the end may be missing only now */
    if (!status && closed != Z_OK) {
        free((void *)(uintptr_t)out->data);
        status =
            error_set(error, STATUS_CORRUPT, "%.300s: cannot be unpacked: it is cut off", path);
    }
    return status;
}
