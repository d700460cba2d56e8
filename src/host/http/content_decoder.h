/* SPDX-License-Identifier: Apache-2.0
 * Bodies that come compressed (Content-Encoding, RFC 9110, 8.4): gzip, deflate in zlib's form, and
 * zstd with a window of 8 MiB at most (RFC 9659). Bytes go in as they come, and decoded ones come out
 * as far as there is room: how many there may be is up to the caller, who stops when it is enough, so
 * few bytes that become many cost no more than plain ones.
 *
 * A decoder touches a fixed memory (content_decoder_bytes), and with zstd, which keeps a window of what
 * it has put out, as many bytes again as were decoded (content_decoder_weight).
 */
#ifndef HOST_HTTP_CONTENT_DECODER_H
#define HOST_HTTP_CONTENT_DECODER_H

#include "base/bytes.h"

#define CONTENT_DECODER_NAMES "gzip, deflate, zstd" /* as Accept-Encoding says them */

enum content_coding {
    CODING_NONE, /* also "identity" */
    CODING_GZIP,
    CODING_DEFLATE,
    CODING_ZSTD,
    CODING_OTHER /* another one, or several on top of each other */
};

struct content_decoder;

/* NULL: no memory. Not for NONE and OTHER. */
struct content_decoder *content_decoder_open(enum content_coding coding);

/* Also of NULL. */
void content_decoder_close(struct content_decoder *decoder);

/* Takes bytes from the start of *text, which moves behind them, and fills out[room] as far as they
 * go. False: the bytes are not of the coding. Call again while it filled the room or left some text. */
bool content_decoder_take(struct content_decoder *decoder, struct bytes *text, char *out,
                          size_t room, size_t *count_out);

/* True if the bytes so far are whole. */
bool content_decoder_is_whole(const struct content_decoder *decoder);

/* Bytes that a decoder takes from the beginning. */
size_t content_decoder_bytes(enum content_coding coding);

/* Bytes that each decoded one takes, its place in the body included. */
size_t content_decoder_weight(enum content_coding coding);

#endif
