/* SPDX-License-Identifier: Apache-2.0
 * Measured times of a layer's parts (contract/stage_part.h), as `fathom bench layer --table` writes
 * them, and times between its points. Text:
 *
 *   # lines like this one are skipped
 *   phase,part,tokens,context,expert_rows,experts,us,flop,bytes
 *   decode,core,16,4096,0,0,798003.900,18258120704,84410368
 *   experts,expert_up,0,0,64,2,283524.300,7516192768,64501760
 *
 * phase "decode": one token of each of `tokens` sequences; "prompt": a chunk of `tokens` tokens;
 * "experts": `experts` routed experts compute `expert_rows` rows each. `context` is what stands
 * before the tokens; `us` are microseconds; `flop` and `bytes` are there for readers of the table.
 * Columns that do not matter to a part are 0. Of each part the lines form a grid of all its tokens
 * (or expert_rows) and contexts.
 *
 * Between points times are linear in each column, so exact at the points, and never fall where the
 * points do not. Below the first point of a column they stay (weights are read for however few
 * tokens); behind the last they go on as between the last two, or with only one in proportion.
 */
#ifndef SIMULATE_HARDWARE_STAGE_TABLE_H
#define SIMULATE_HARDWARE_STAGE_TABLE_H

#include "base/bytes.h"
#include "base/status.h"
#include "contract/stage_part.h"

enum stage_table_phase {
    STAGE_TABLE_DECODE,
    STAGE_TABLE_PROMPT,
    STAGE_TABLE_EXPERTS,
    STAGE_TABLE_PHASE_COUNT
};

#define STAGE_TABLE_POINTS_MAX 32 /* in a column of a part */

/* Values of a column, ascending. */
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

/* STATUS_INVALID names the text, the line and what was expected there; or the part of DeepSeek-V3's
 * layer that has no lines, or the point that its grid lacks. */
enum status stage_table_read(struct bytes text, const char *name, struct stage_table *table_out,
                             struct error *error) MUST_USE;

/* Microseconds of a part; `tokens`: expert_rows for parts of the experts. 0 for a part that has no
 * lines, or no tokens. */
double stage_table_us(const struct stage_table *table, enum stage_table_phase phase,
                      enum stage_part part, double tokens, double context);

#endif
