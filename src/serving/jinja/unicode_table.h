/* SPDX-License-Identifier: Apache-2.0
 * The tables behind unicode.h: what Python's str says about characters. unicode_table.c says how
 * they were made.
 */
#ifndef SERVING_JINJA_UNICODE_TABLE_H
#define SERVING_JINJA_UNICODE_TABLE_H

#include <stdint.h>

#define UNICODE_RUNS 3859
#define UNICODE_UPPER 194
#define UNICODE_UPPER_SEVERAL 102
#define UNICODE_LOWER 181
#define UNICODE_LOWER_SEVERAL 1
#define UNICODE_TITLE 196
#define UNICODE_TITLE_SEVERAL 48
#define UNICODE_FOLD 195
#define UNICODE_FOLD_SEVERAL 104

struct unicode_case {
    uint32_t first, last, step;
    int32_t distance;
};

struct unicode_several {
    uint32_t from;
    uint32_t to[3]; /* 0 behind the last */
};

extern const uint16_t unicode_sets[];
extern const uint32_t unicode_runs[UNICODE_RUNS];
extern const struct unicode_case unicode_upper[UNICODE_UPPER];
extern const struct unicode_several unicode_upper_several[UNICODE_UPPER_SEVERAL];
extern const struct unicode_case unicode_lower[UNICODE_LOWER];
extern const struct unicode_several unicode_lower_several[UNICODE_LOWER_SEVERAL];
extern const struct unicode_case unicode_title[UNICODE_TITLE];
extern const struct unicode_several unicode_title_several[UNICODE_TITLE_SEVERAL];
extern const struct unicode_case unicode_fold[UNICODE_FOLD];
extern const struct unicode_several unicode_fold_several[UNICODE_FOLD_SEVERAL];

#endif
