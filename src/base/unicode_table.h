/* SPDX-License-Identifier: Apache-2.0
 * The tables of unicode.h. unicode_table.c describes how they were generated.
 */
#pragma once

#include <stdint.h>

#define UNICODE_RUNS 2983
#define UNICODE_PAIRS 168
#define UNICODE_LOWER 15
#define UNICODE_UPPER 26
#define UNICODE_SPECIAL_CASES 102
#define UNICODE_OTHER_LOWER 24
#define UNICODE_OTHER_UPPER 5

#define UNICODE_ALTERNATES 30 /* the category of a run that alternates: Lu, Ll, Lu, Ll ... */

struct unicode_case {
    uint32_t first, last;
    int32_t step, distance;
};

struct unicode_special_case {
    uint32_t from;
    uint32_t to[3]; /* 0 after the last */
};

struct unicode_range {
    uint32_t first, last;
};

extern const uint32_t unicode_runs[UNICODE_RUNS];
extern const struct unicode_case unicode_pairs[UNICODE_PAIRS];
extern const struct unicode_case unicode_lower[UNICODE_LOWER];
extern const struct unicode_case unicode_upper[UNICODE_UPPER];
extern const struct unicode_special_case unicode_special_case[UNICODE_SPECIAL_CASES];
extern const struct unicode_range unicode_other_lower[UNICODE_OTHER_LOWER];
extern const struct unicode_range unicode_other_upper[UNICODE_OTHER_UPPER];
