/* SPDX-License-Identifier: Apache-2.0
 * Lines are added one by one to the grids of their parts, in any order. Points that were not set at
 * the end are missing.
 */
#include "simulate/hardware/stage_table.h"

#include <math.h>

#include "base/check.h"

#define HEADER "phase,part,tokens,context,expert_rows,experts,us,flop,bytes"
#define FIELDS 9
#define COUNT_MAX 1e9   /* tokens, positions, rows */
#define FIGURE_MAX 1e18 /* microseconds, operations, bytes */

static const char *const phase_names[STAGE_PHASE_COUNT] = {"decode", "prompt", "experts"};

struct stage_reading {
    struct stage_table *table;
    const char *name;
    uint32_t line;
    bool headed;
    struct error *error;
};

struct point {
    enum stage_phase phase;
    enum stage_part part;
    double tokens, context, experts, us;
};

static enum status refuse(const struct stage_reading *reading, const char *expected) {
    return error_set(reading->error, STATUS_INVALID, "%s, line %u: expected %s", reading->name,
                     reading->line, expected);
}

/* ---- one line ---- */

/* Reads digits with an optional decimal point. */
static bool stage_table_read_decimal(struct bytes text, double most, double *out) {
    double value = 0, scale = 1;
    bool fraction = false, digits = false;
    for (size_t i = 0; i < text.count; i++) {
        char c = text.data[i];
        if (c == '.' && !fraction) {
            fraction = true;
            continue;
        }
        if (c < '0' || c > '9' || i > 24) return false;
        digits = true;
        value = value * 10 + (c - '0');
        if (fraction) scale *= 10;
    }
    if (!digits || value / scale > most) return false;
    *out = value / scale;
    return true;
}

static bool stage_table_read_count(struct bytes text, double *out) {
    return !memchr(text.data, '.', text.count) && stage_table_read_decimal(text, COUNT_MAX, out);
}

/* Splits the line into exactly FIELDS fields. */
static bool stage_table_split(struct bytes line, struct bytes fields[FIELDS]) {
    for (int i = 0; i < FIELDS; i++) {
        const char *comma = line.count ? memchr(line.data, ',', line.count) : NULL;
        size_t count = comma ? (size_t)(comma - line.data) : line.count;
        if (!comma != (i == FIELDS - 1) || count == 0) return false;
        fields[i] = (struct bytes){line.data, count};
        if (comma) line = (struct bytes){comma + 1, line.count - count - 1};
    }
    return true;
}

static bool read_phase(struct bytes text, enum stage_phase *out) {
    for (int phase = 0; phase < STAGE_PHASE_COUNT; phase++)
        if (bytes_equal(text, bytes_of(phase_names[phase]))) {
            *out = (enum stage_phase)phase;
            return true;
        }
    return false;
}

static bool read_part(struct bytes text, enum stage_part *out) {
    for (int part = 0; part < STAGE_PART_COUNT; part++)
        if (bytes_equal(text, bytes_of(stage_part_name((enum stage_part)part)))) {
            *out = (enum stage_part)part;
            return true;
        }
    return false;
}

static enum status read_point(const struct stage_reading *reading, struct bytes line,
                              struct point *point) {
    struct bytes fields[FIELDS];
    double rows, figure;
    if (!stage_table_split(line, fields)) return refuse(reading, "nine fields with commas between");
    if (!read_phase(fields[0], &point->phase))
        return refuse(reading, "decode, prompt or experts as the phase");
    if (!read_part(fields[1], &point->part)) return refuse(reading, "the name of a stage's part");
    if (!stage_table_read_count(fields[2], &point->tokens) ||
        !stage_table_read_count(fields[3], &point->context) ||
        !stage_table_read_count(fields[4], &rows) ||
        !stage_table_read_count(fields[5], &point->experts))
        return refuse(reading, "whole numbers of tokens, context, expert_rows and experts");
    if (point->phase == STAGE_PHASE_EXPERTS) point->tokens = rows;
    if (point->tokens == 0 || (point->phase == STAGE_PHASE_EXPERTS && point->experts == 0))
        return refuse(reading, "tokens, or expert_rows and experts");
    if (!stage_table_read_decimal(fields[6], FIGURE_MAX, &point->us) || point->us <= 0)
        return refuse(reading, "microseconds above 0");
    if (!stage_table_read_decimal(fields[7], FIGURE_MAX, &figure) ||
        !stage_table_read_decimal(fields[8], FIGURE_MAX, &figure))
        return refuse(reading, "flop and bytes of 0 or more");
    return STATUS_OK;
}

/* ---- the grid ---- */

/* Returns the index of the value, which is inserted if it is new, or STAGE_TABLE_POINTS_MAX if
 * there is no space. */
static uint32_t find_or_insert(struct stage_axis *axis, double value, bool *new_out) {
    uint32_t at = 0;
    while (at < axis->count && axis->at[at] < value)
        at++;
    *new_out = at == axis->count || axis->at[at] != value;
    if (!*new_out) return at;
    if (axis->count == STAGE_TABLE_POINTS_MAX) return STAGE_TABLE_POINTS_MAX;
    memmove(axis->at + at + 1, axis->at + at, (axis->count - at) * sizeof *axis->at);
    axis->at[at] = value;
    axis->count++;
    return at;
}

static void open_row(struct stage_grid *grid, uint32_t row) {
    memmove(grid->us + row + 1, grid->us + row, (grid->tokens.count - 1 - row) * sizeof *grid->us);
    memset(grid->us[row], 0, sizeof grid->us[row]);
}

static void open_column(struct stage_grid *grid, uint32_t column) {
    for (uint32_t row = 0; row < grid->tokens.count; row++) {
        double *us = grid->us[row];
        memmove(us + column + 1, us + column, (grid->context.count - 1 - column) * sizeof *us);
        us[column] = 0;
    }
}

static enum status add_point(const struct stage_reading *reading, const struct point *point) {
    struct stage_table *table = reading->table;
    struct stage_grid *grid = &table->grids[point->phase][point->part];
    bool new_row, new_column;
    if (point->phase == STAGE_PHASE_EXPERTS) {
        if (table->experts && table->experts != (uint32_t)point->experts)
            return refuse(reading, "as many experts as in the lines before");
        table->experts = (uint32_t)point->experts;
    }
    uint32_t row = find_or_insert(&grid->tokens, point->tokens, &new_row);
    if (new_row && row < STAGE_TABLE_POINTS_MAX) open_row(grid, row);
    uint32_t column = find_or_insert(&grid->context, point->context, &new_column);
    if (new_column && column < STAGE_TABLE_POINTS_MAX) open_column(grid, column);
    if (row == STAGE_TABLE_POINTS_MAX || column == STAGE_TABLE_POINTS_MAX)
        return refuse(reading, "at most 32 different values in a column of a part");
    if (grid->us[row][column] > 0) return refuse(reading, "each point of a part once");
    grid->us[row][column] = point->us;
    return STATUS_OK;
}

static enum status check_grid(const struct stage_reading *reading, enum stage_phase phase,
                              enum stage_part part) {
    const struct stage_grid *grid = &reading->table->grids[phase][part];
    if (grid->tokens.count == 0 && stage_part_is_in(part, phase) && !stage_part_is_optional(part))
        return error_set(reading->error, STATUS_INVALID, "%s: expected lines of %s,%s, found none",
                         reading->name, phase_names[phase], stage_part_name(part));
    for (uint32_t row = 0; row < grid->tokens.count; row++)
        for (uint32_t column = 0; column < grid->context.count; column++)
            if (grid->us[row][column] == 0)
                return error_set(
                    reading->error, STATUS_INVALID,
                    "%s: expected a line of %s,%s at %.0f tokens or rows, context %.0f, as other "
                    "lines have either",
                    reading->name, phase_names[phase], stage_part_name(part), grid->tokens.at[row],
                    grid->context.at[column]);
    return STATUS_OK;
}

static enum status stage_table_read_line(struct stage_reading *reading, struct bytes line) {
    struct point point;
    if (line.count && line.data[line.count - 1] == '\r') line.count--;
    if (line.count == 0 || line.data[0] == '#') return STATUS_OK;
    if (!reading->headed) {
        reading->headed = true;
        return bytes_equal(line, BYTES_LITERAL(HEADER)) ? STATUS_OK
                                                        : refuse(reading, "the line " HEADER);
    }
    enum status status = read_point(reading, line, &point);
    return status ? status : add_point(reading, &point);
}

enum status stage_table_read(struct bytes text, const char *name, struct stage_table *table_out,
                             struct error *error) {
    struct stage_reading reading = {.table = table_out, .name = name, .error = error};
    enum status status = STATUS_OK;
    memset(table_out, 0, sizeof *table_out);
    while (!status && text.count) {
        const char *end = memchr(text.data, '\n', text.count);
        size_t count = end ? (size_t)(end - text.data) : text.count;
        reading.line++;
        status = stage_table_read_line(&reading, (struct bytes){text.data, count});
        size_t taken = end ? count + 1 : count;
        text = (struct bytes){text.data + taken, text.count - taken};
    }
    for (int phase = 0; !status && phase < STAGE_PHASE_COUNT; phase++)
        for (int part = 0; !status && part < STAGE_PART_COUNT; part++)
            status = check_grid(&reading, (enum stage_phase)phase, (enum stage_part)part);
    return status;
}

/* ---- between points ---- */

/* The two points around a value, or the last two. f is the position between them, 0 at the
 * first. */
struct stage_place {
    uint32_t low, high;
    double f;
};

static struct stage_place stage_table_place_of(const struct stage_axis *axis, double value) {
    uint32_t last = axis->count - 1, low = 0;
    if (value <= axis->at[0]) return (struct stage_place){0, 0, 0};
    while (low < last && axis->at[low + 1] <= value)
        low++;
    if (low == last && value == axis->at[last]) return (struct stage_place){last, last, 0};
    if (low == last && last > 0) low--;
    if (last == 0) return (struct stage_place){0, 0, axis->at[0] > 0 ? value / axis->at[0] - 1 : 0};
    return (struct stage_place){low, low + 1,
                                (value - axis->at[low]) / (axis->at[low + 1] - axis->at[low])};
}

/* Interpolates. After the last point, falling times stay constant. */
static double between(struct stage_place place, double low, double high) {
    if (place.low == place.high) return low + low * place.f;
    if (place.f > 1 && high < low) return high;
    return low + (high - low) * place.f;
}

double stage_table_us(const struct stage_table *table, enum stage_phase phase, enum stage_part part,
                      double tokens, double context) {
    const struct stage_grid *grid = &table->grids[phase][part];
    check(tokens >= 0 && context >= 0);
    if (grid->tokens.count == 0 || tokens == 0) return 0;
    struct stage_place row = stage_table_place_of(&grid->tokens, tokens),
                       column = stage_table_place_of(&grid->context, context);
    double low = between(column, grid->us[row.low][column.low], grid->us[row.low][column.high]);
    double high = between(column, grid->us[row.high][column.low], grid->us[row.high][column.high]);
    return between(row, low, high);
}
