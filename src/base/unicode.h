/* SPDX-License-Identifier: Apache-2.0
 * Properties and case of characters, as in Unicode and Python's str.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define UNICODE_LAST 0x10FFFFu

/* General categories: letters first, and those with case before the others. */
enum unicode_category {
    UNICODE_LU,
    UNICODE_LL,
    UNICODE_LT,
    UNICODE_LM,
    UNICODE_LO,
    UNICODE_MN,
    UNICODE_MC,
    UNICODE_ME,
    UNICODE_ND,
    UNICODE_NL,
    UNICODE_NO,
    UNICODE_PC,
    UNICODE_PD,
    UNICODE_PS,
    UNICODE_PE,
    UNICODE_PI,
    UNICODE_PF,
    UNICODE_PO,
    UNICODE_SM,
    UNICODE_SC,
    UNICODE_SK,
    UNICODE_SO,
    UNICODE_ZS,
    UNICODE_ZL,
    UNICODE_ZP,
    UNICODE_CC,
    UNICODE_CF,
    UNICODE_CS,
    UNICODE_CO,
    UNICODE_CN,
    UNICODE_CATEGORIES
};

/* The category of `character`, which all characters up to *last_out share. */
enum unicode_category unicode_run(uint32_t character, uint32_t *last_out);

bool unicode_is_lower(uint32_t character);
bool unicode_is_upper(uint32_t character);
bool unicode_is_cased(uint32_t character); /* has lower, upper or title case */
bool unicode_is_space(uint32_t character);
bool unicode_is_printable(uint32_t character);
bool unicode_is_ignorable(uint32_t character); /* does not end a word, for the final sigma */

enum unicode_mapping { UNICODE_TO_UPPER, UNICODE_TO_LOWER, UNICODE_TO_TITLE };

/* Writes 1 to 3 characters and returns their number. A capital sigma becomes the lower-case sigma
 * that is used inside words. */
unsigned unicode_map(uint32_t character, enum unicode_mapping mapping, uint32_t out[3]);
