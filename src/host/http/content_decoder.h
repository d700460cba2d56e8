/* SPDX-License-Identifier: Apache-2.0
 * Decoder of compressed bodies (Content-Encoding, RFC 9110, 8.4): gzip, deflate in zlib's format,
 * and zstd with a window of at most 8 MiB (RFC 9659). Input arrives in pieces, and output is
 * limited by the caller's buffer. The caller stops at its own limit, so a small body that expands
 * to a large one costs no more than a plain one.
 *
 * A decoder uses a fixed amount of memory (content_decoder_bytes). With zstd, which keeps a window
 * of its output, it also uses as many bytes as it has decoded (content_decoder_weight).
 */
#pragma once

#include "base/bytes.h"

#define CONTENT_DECODER_NAMES "gzip, deflate, zstd" /* value of Accept-Encoding */

enum content_coding {
    CODING_NONE, /* absent or "identity" */
    CODING_GZIP,
    CODING_DEFLATE,
    CODING_ZSTD,
    CODING_OTHER /* unsupported, or several codings */
};

struct content_decoder;

/* Opens a decoder for any coding except NONE and OTHER. Returns NULL if memory is out. */
struct content_decoder *content_decoder_open(enum content_coding coding);

/* NULL is allowed. */
void content_decoder_close(struct content_decoder *decoder);

/* Decodes bytes from the start of *text, which advances, into out[room]. Returns false if the bytes
 * are invalid. Call again while the output was filled or input is left. */
bool content_decoder_take(struct content_decoder *decoder, struct bytes *text, char *out,
                          size_t room, size_t *count_out);

/* True if the input so far is complete. */
bool content_decoder_is_whole(const struct content_decoder *decoder);

/* Memory of a decoder after opening it, in bytes. */
size_t content_decoder_bytes(enum content_coding coding);

/* Memory per decoded byte, including the byte in the body. */
size_t content_decoder_weight(enum content_coding coding);
