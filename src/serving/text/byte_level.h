/* SPDX-License-Identifier: Apache-2.0
 * The spelling of bytes as printable characters that byte-level vocabularies are written in
 * (GPT-2's bytes_to_unicode): '!'..'~', U+00A1..U+00AC and U+00AE..U+00FF stand for themselves, the
 * other 68 bytes, in order, for U+0100..U+0143.
 */
#ifndef SERVING_TEXT_BYTE_LEVEL_H
#define SERVING_TEXT_BYTE_LEVEL_H

#include "base/bytes.h"

/* Bytes spelled by `text` (valid UTF-8) into out, which has room for text.count. False when a
 * character is not in the table. */
bool byte_level_decode(struct bytes text, char *out, size_t *count_out);

#endif
