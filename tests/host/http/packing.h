/* SPDX-License-Identifier: Apache-2.0
 * Texts encoded as clients do, for tests of what is decoded.
 */
#pragma once

#include <stdlib.h>
#include <zlib.h>
#include <zstd.h>

#include "base/check.h"
#include "host/http/content_decoder.h"

/* In a memory of its own. */
static inline struct bytes packing_make(enum content_coding coding, struct bytes text) {
    size_t room = compressBound((uLong)text.count) + ZSTD_compressBound(text.count) + 64;
    char *out = malloc(room);
    check(out);
    if (coding == CODING_ZSTD) {
        size_t count = ZSTD_compress(out, room, text.data, text.count, 3);
        check(!ZSTD_isError(count));
        return (struct bytes){out, count};
    }
    z_stream flat = {0};
    check(deflateInit2(&flat, 9, Z_DEFLATED, coding == CODING_GZIP ? 15 + 16 : 15, 8,
                       Z_DEFAULT_STRATEGY) == Z_OK);
    flat.next_in = (z_const Bytef *)(uintptr_t)text.data;
    flat.avail_in = (uInt)text.count;
    flat.next_out = (Bytef *)out;
    flat.avail_out = (uInt)room;
    check(deflate(&flat, Z_FINISH) == Z_STREAM_END);
    size_t count = room - flat.avail_out;
    deflateEnd(&flat);
    return (struct bytes){out, count};
}

static inline void packing_free(struct bytes packed) {
    free((void *)(uintptr_t)packed.data);
}
