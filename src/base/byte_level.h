/* SPDX-License-Identifier: Apache-2.0
 * The characters by which byte-level vocabularies spell bytes (GPT-2's bytes_to_unicode): '!'..'~',
 * U+00A1..U+00AC and U+00AE..U+00FF represent the bytes of the same value. U+0100..U+0143 represent
 * the other 68 bytes, in order.
 */
#pragma once

#include "base/bytes.h"

/* The character that spells a byte. */
uint32_t byte_level_spelled(uint8_t byte);

/* Writes the bytes spelled by `text` (valid UTF-8) to out, which has text.count bytes. Returns
 * false if a character is not in the table. */
bool byte_level_decode(struct bytes text, char *out, size_t *count_out);
