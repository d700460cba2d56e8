/* SPDX-License-Identifier: Apache-2.0
 * Both formats may have several parts, one after the other (gzip members, zstd frames); deflate has
 * one. Nothing may follow the last part.
 */
#include "host/http/content_decoder.h"

#include <stdlib.h>
#include <zlib.h>
#include <zstd.h>

#include "base/check.h"

#define WINDOW_BITS 15                 /* deflate's largest */
#define WITH_GZIP_HEAD 16              /* flag of inflateInit2 */
#define ZSTD_WINDOW_LOG_MAX 23         /* 8 MiB */
#define FLAT_BYTES ((size_t)48 << 10)  /* zlib.h: about 44 KiB, its window included */
#define ZSTD_BYTES ((size_t)256 << 10) /* tables, and a partial block of 128 KiB */

struct content_decoder {
    enum content_coding coding;
    bool whole; /* between parts: the input so far is complete */
    z_stream flat;
    ZSTD_DCtx *frames;
};

static bool decoder_open_inside(struct content_decoder *decoder) {
    if (decoder->coding == CODING_ZSTD) {
        decoder->frames = ZSTD_createDCtx();
        return decoder->frames && !ZSTD_isError(ZSTD_DCtx_setParameter(
                                      decoder->frames, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG_MAX));
    }
    int head = decoder->coding == CODING_GZIP ? WITH_GZIP_HEAD : 0;
    return inflateInit2(&decoder->flat, WINDOW_BITS + head) == Z_OK;
}

struct content_decoder *content_decoder_open(enum content_coding coding) {
    check(coding > CODING_NONE && coding < CODING_OTHER);
    struct content_decoder *decoder = calloc(1, sizeof *decoder);
    if (!decoder) return NULL;
    decoder->coding = coding;
    if (decoder_open_inside(decoder)) return decoder;
    content_decoder_close(decoder);
    return NULL;
}

void content_decoder_close(struct content_decoder *decoder) {
    if (!decoder) return;
    if (decoder->coding == CODING_ZSTD)
        ZSTD_freeDCtx(decoder->frames);
    else
        inflateEnd(&decoder->flat);
    free(decoder);
}

static bool take_flat(struct content_decoder *decoder, struct bytes *text, char *out, size_t room,
                      size_t *count_out) {
    z_stream *flat = &decoder->flat;
    int result = Z_OK;
    *count_out = 0;
    while (*count_out < room && result != Z_BUF_ERROR) { /* output of earlier input may be left */
        if (decoder->whole && !text->count) break;
        if (decoder->whole) { /* another part begins */
            if (decoder->coding != CODING_GZIP || inflateReset(flat) != Z_OK) return false;
            decoder->whole = false;
        }
        flat->next_in = (z_const Bytef *)(uintptr_t)text->data;
        flat->avail_in = (uInt)text->count;
        flat->next_out = (Bytef *)out + *count_out;
        flat->avail_out = (uInt)(room - *count_out);
        result = inflate(flat, Z_NO_FLUSH);
        *text = (struct bytes){(const char *)flat->next_in, flat->avail_in};
        *count_out = room - flat->avail_out;
        decoder->whole = result == Z_STREAM_END;
        if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) return false;
    }
    return true;
}

static bool take_frames(struct content_decoder *decoder, struct bytes *text, char *out, size_t room,
                        size_t *count_out) {
    ZSTD_inBuffer in = {text->data, text->count, 0};
    ZSTD_outBuffer kept = {out, room, 0};
    bool going = true;
    while (going && !(decoder->whole && in.pos == in.size)) {
        size_t before = in.pos + kept.pos;
        size_t result = ZSTD_decompressStream(decoder->frames, &kept, &in);
        if (ZSTD_isError(result)) return false;
        decoder->whole = result == 0;
        going = in.pos < in.size && kept.pos < kept.size && in.pos + kept.pos > before;
    }
    *text = (struct bytes){text->data + in.pos, in.size - in.pos};
    *count_out = kept.pos;
    return true;
}

bool content_decoder_take(struct content_decoder *decoder, struct bytes *text, char *out,
                          size_t room, size_t *count_out) {
    check(room > 0 && room <= UINT32_MAX && text->count <= UINT32_MAX);
    return decoder->coding == CODING_ZSTD ? take_frames(decoder, text, out, room, count_out)
                                          : take_flat(decoder, text, out, room, count_out);
}

bool content_decoder_is_whole(const struct content_decoder *decoder) {
    return decoder->whole;
}

size_t content_decoder_bytes(enum content_coding coding) {
    return coding == CODING_ZSTD ? ZSTD_BYTES : FLAT_BYTES;
}

size_t content_decoder_weight(enum content_coding coding) {
    return coding == CODING_ZSTD ? 2 : 1;
}
