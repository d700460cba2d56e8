/* SPDX-License-Identifier: Apache-2.0
 * Measured times of the parts of a layer (contract/stage_part.h), as written by `fathom bench layer
 * --table`, and interpolation between them. The text:
 *
 *   # lines like this one are skipped
 *   phase,part,tokens,context,expert_rows,experts,us,flop,bytes
 *   decode,core,16,4096,0,0,798003.900,18258120704,84410368
 *   experts,expert_up,0,0,64,2,283524.300,7516192768,64501760
 *
 * In phase "decode", each of `tokens` sequences has one token. In phase "prompt", one sequence has
 * a chunk of `tokens` tokens. In phase "experts", `experts` routed experts compute `expert_rows`
 * rows each. `context` is the number of earlier tokens, and `us` the time in microseconds. `flop`
 * and `bytes` are for human readers. Columns that do not apply to a part are 0. The lines of each
 * part form a grid: all combinations of its tokens (or expert_rows) and contexts.
 *
 * Between the points, times are linear in each column. Below the first point of a column they stay
 * constant, because the weights are read for any number of tokens. Beyond the last point, the line
 * through the last two continues. A column with only one point is proportional.
 */
#pragma once

#include "base/bytes.h"
#include "base/status.h"
#include "contract/stage_part.h"

#define STAGE_TABLE_POINTS_MAX 32 /* values in a column of a part */

/* The values of a column, in ascending order. */
struct stage_axis {
    uint32_t count;
    double at[STAGE_TABLE_POINTS_MAX];
};

struct stage_grid {                                            /* of one part in one phase */
    struct stage_axis tokens, context;                         /* `tokens`: or expert_rows */
    double us[STAGE_TABLE_POINTS_MAX][STAGE_TABLE_POINTS_MAX]; /* [tokens][context] */
};

struct stage_table {
    uint32_t experts; /* in the lines of phase "experts" */
    struct stage_grid grids[STAGE_PHASE_COUNT][STAGE_PART_COUNT];
};

/* STATUS_INVALID names the text, the line and what was expected there. If lines are missing, it
 * names the part of DeepSeek-V3's layer that has none, or the point that its grid lacks. */
enum status stage_table_read(struct bytes text, const char *name, struct stage_table *table_out,
                             struct error *error) MUST_USE;

/* The time of a part in microseconds. For parts of the experts, `tokens` are expert_rows. The
 * result is 0 without tokens, or for a part without lines. */
double stage_table_us(const struct stage_table *table, enum stage_phase phase, enum stage_part part,
                      double tokens, double context);
