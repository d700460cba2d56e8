/* SPDX-License-Identifier: Apache-2.0
 * The characters that remain of a character after its compatibility decomposition (NFKD of Unicode
 * 14), without marks (categories Mn, Mc and Me): of an accented letter the letter, of a ligature
 * its letters, of a Hangul syllable its jamo. As marks are dropped, their order does not matter,
 * and a text is decomposed character by character.
 */
#pragma once

#include <stdint.h>

#include "base/unicode_base_table.h"

/* Writes 0 to UNICODE_BASE_LONGEST characters and returns their number. */
unsigned unicode_base_of(uint32_t character, uint32_t out[UNICODE_BASE_LONGEST]);
