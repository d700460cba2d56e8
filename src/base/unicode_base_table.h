/* SPDX-License-Identifier: Apache-2.0
 * The tables of unicode_base.h. unicode_base_table.c describes them.
 */
#pragma once

#include <stdint.h>

#define UNICODE_BASE_RUNS 2698
#define UNICODE_BASE_SEVERAL 1099
#define UNICODE_BASE_TEXT 2818
#define UNICODE_BASE_LONGEST 18 /* characters that one becomes */

extern const uint32_t unicode_base_runs[UNICODE_BASE_RUNS][2];
extern const uint32_t unicode_base_several[UNICODE_BASE_SEVERAL + 1][2];
extern const uint32_t unicode_base_text[UNICODE_BASE_TEXT];
