/* SPDX-License-Identifier: Apache-2.0
 * Measured times of a layer's parts (contract/stage_part.h), as `fathom bench layer --table` writes
 * them, and interpolated times between its points. Text:
 *
 *   # lines like this one are skipped
 *   phase,part,tokens,context,expert_rows,experts,us,flop,bytes
 *   decode,core,16,4096,0,0,798003.900,18258120704,84410368
 *   experts,expert_up,0,0,64,2,283524.300,7516192768,64501760
 *
 * Phases: "decode" has one token of each of `tokens` sequences, "prompt" a chunk of `tokens`
 * tokens. In "experts", `experts` routed experts compute `expert_rows` rows each. `context` is the
 * number of earlier tokens; `us` are microseconds. `flop` and `bytes` are for people who read the
 * table. Columns that do not matter to a part are 0. The lines of each part form a grid of all its
 * tokens (or expert_rows) and contexts.
 *
 * Between points times are linear in each column, so they are exact at the points, and fall only
 * where the points do. Below the first point of a column they stay constant (the weights are read
 * for any number of tokens). After the last point the line between the last two continues. With
 * only one point they are proportional.
 */
#pragma once

#include "base/bytes.h"
#include "base/status.h"
#include "contract/stage_part.h"

enum stage_table_phase {
    STAGE_TABLE_DECODE,
    STAGE_TABLE_PROMPT,
    STAGE_TABLE_EXPERTS,
    STAGE_TABLE_PHASE_COUNT
};

#define STAGE_TABLE_POINTS_MAX 32 /* values in a column of a part */

/* The values of a column, ascending. */
struct stage_axis {
    uint32_t count;
    double at[STAGE_TABLE_POINTS_MAX];
};

struct stage_grid {                                            /* of a part in a phase */
    struct stage_axis tokens, context;                         /* tokens, or expert_rows */
    double us[STAGE_TABLE_POINTS_MAX][STAGE_TABLE_POINTS_MAX]; /* [tokens][context] */
};

struct stage_table {
    uint32_t experts; /* of the lines of phase "experts" */
    struct stage_grid grids[STAGE_TABLE_PHASE_COUNT][STAGE_PART_COUNT];
};

/* STATUS_INVALID names the text, the line and what was expected there, or the part of DeepSeek-V3's
 * layer without lines, or the point that is missing in its grid. */
enum status stage_table_read(struct bytes text, const char *name, struct stage_table *table_out,
                             struct error *error) MUST_USE;

/* The microseconds of a part. `tokens`: expert_rows for parts of the experts. The result is 0 for a
 * part without lines, or without tokens. */
double stage_table_us(const struct stage_table *table, enum stage_table_phase phase,
                      enum stage_part part, double tokens, double context);
