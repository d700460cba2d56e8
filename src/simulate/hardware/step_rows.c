/* SPDX-License-Identifier: Apache-2.0
 * A piecewise linear part is a sum over its pieces, each weighted by how far the feature extends
 * into it, so all weights enter linearly. Rows and weights are scaled before the descent (relative
 * errors, columns of norm 1).
 */
#include "simulate/hardware/step_rows.h"

#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/number.h"

#define SWEEPS_MAX 20000

enum column {
    COLUMN_RANKS,
    COLUMN_BUSY,
    COLUMN_PROMPT_TOKENS,
    COLUMN_ATTENDED,
    COLUMN_CACHED,
    COLUMN_ANSWER_ROWS,
    COLUMN_ANSWER_TOKENS,
    COLUMN_CONTEXT,
    COLUMN_US,
    COLUMN_COUNT
};

/* ---- a fit's value ---- */

/* The length of `value` in each piece: up to the first bend, from there to the second, and so
 * on. */
static void step_rows_reach(const struct step_bends *bends, double value, double *out) {
    double before = 0;
    for (uint32_t i = 0; i < bends->count; i++) {
        double end = i + 1 < bends->count ? bends->at[i] : value;
        out[i] = max_double(0, (end < value ? end : value) - before);
        before = bends->at[i];
    }
}

static uint32_t step_rows_expand(const struct step_fit *fit, const struct step_load *load,
                                 double out[STEP_ROWS_WEIGHTS]) {
    const double plain[STEP_ROWS_PLAIN] = {1, load->prompt_tokens, load->attended, load->cached,
                                           load->context};
    memcpy(out, plain, sizeof plain);
    step_rows_reach(&fit->tokens, step_load_tokens(load), out + STEP_ROWS_PLAIN);
    step_rows_reach(&fit->rows, load->answer_rows, out + STEP_ROWS_PLAIN + fit->tokens.count);
    return STEP_ROWS_PLAIN + fit->tokens.count + fit->rows.count;
}

double step_rows_fit_us(const struct step_fit *fit, const struct step_load *load) {
    double at[STEP_ROWS_WEIGHTS], us = 0;
    uint32_t count = step_rows_expand(fit, load, at);
    for (uint32_t i = 0; i < count; i++)
        us += fit->weights[i] * at[i];
    return us;
}

const struct step_fit *step_rows_of(const struct step_rows *rows, uint32_t ranks) {
    for (uint32_t i = 0; i < rows->fit_count; i++)
        if (rows->fits[i].ranks == ranks) return &rows->fits[i];
    return NULL;
}

/* ---- fitting ---- */

struct step_fitting {
    const struct figure_table *table;
    struct step_fit *fit;
    double (*products)[STEP_ROWS_WEIGHTS]; /* [weights][weights] of the columns */
    double targets[STEP_ROWS_WEIGHTS], norms[STEP_ROWS_WEIGHTS];
    uint32_t count;
};

static struct step_load step_rows_load_of(const double *row) {
    return (struct step_load){
        .prompt_tokens = row[COLUMN_PROMPT_TOKENS],
        .attended = row[COLUMN_ATTENDED],
        .cached = row[COLUMN_CACHED],
        .answer_rows = row[COLUMN_ANSWER_ROWS],
        .answer_tokens = row[COLUMN_ANSWER_TOKENS],
        .context = row[COLUMN_CONTEXT],
    };
}

static const double *step_rows_row_of(const struct step_fitting *fitting, uint32_t i) {
    const struct figure_table *table = fitting->table;
    return table->at + (size_t)i * table->column_count;
}

/* True if all ranks had the same share in this row, so that it measures f. */
static bool step_rows_is_even(const struct step_fitting *fitting, const double *row) {
    return row[COLUMN_RANKS] == fitting->fit->ranks && row[COLUMN_BUSY] == row[COLUMN_RANKS];
}

/* Adds a bend at the value, unless another one is within 2 % of it or there is no space left. */
static void bend_at(struct step_bends *bends, double value) {
    uint32_t at = 0;
    while (at < bends->count && bends->at[at] < value)
        at++;
    if (value <= 0 || (at < bends->count && bends->at[at] < value * 1.02)) return;
    if (at > 0 && bends->at[at - 1] * 1.02 > value) return;
    if (bends->count == STEP_ROWS_BENDS) return;
    memmove(bends->at + at + 1, bends->at + at, (bends->count - at) * sizeof *bends->at);
    bends->at[at] = value;
    bends->count++;
}

static void find_bends(struct step_fitting *fitting) {
    for (uint32_t i = 0; i < fitting->table->row_count; i++) {
        const double *row = step_rows_row_of(fitting, i);
        if (!step_rows_is_even(fitting, row)) continue;
        bend_at(&fitting->fit->tokens, row[COLUMN_PROMPT_TOKENS] + row[COLUMN_ANSWER_TOKENS]);
        bend_at(&fitting->fit->rows, row[COLUMN_ANSWER_ROWS]);
        fitting->fit->row_count++;
    }
}

static void step_rows_add_products(struct step_fitting *fitting, const double *row) {
    const struct step_load load = step_rows_load_of(row);
    double at[STEP_ROWS_WEIGHTS];
    fitting->count = step_rows_expand(fitting->fit, &load, at);
    for (uint32_t i = 0; i < fitting->count; i++) {
        at[i] /= row[COLUMN_US];
        fitting->targets[i] += at[i];
        for (uint32_t j = 0; j <= i; j++)
            fitting->products[i][j] += at[i] * at[j];
    }
}

static void step_rows_scale(struct step_fitting *fitting) {
    for (uint32_t i = 0; i < fitting->count; i++)
        fitting->norms[i] = sqrt(fitting->products[i][i]);
    for (uint32_t i = 0; i < fitting->count; i++) {
        if (fitting->norms[i] == 0) continue;
        fitting->targets[i] /= fitting->norms[i];
        for (uint32_t j = 0; j <= i; j++)
            if (fitting->norms[j] > 0)
                fitting->products[j][i] = fitting->products[i][j] /=
                    fitting->norms[i] * fitting->norms[j];
    }
}

static void step_rows_descend(struct step_fitting *fitting) {
    double *weights = fitting->fit->weights;
    double largest = 1;
    for (uint32_t sweep = 0; sweep < SWEEPS_MAX && largest > 1e-9; sweep++) {
        largest = 0;
        for (uint32_t i = 0; i < fitting->count; i++) {
            double left = fitting->targets[i];
            if (fitting->norms[i] == 0) continue;
            for (uint32_t j = 0; j < fitting->count; j++)
                if (fitting->norms[j] > 0) left -= fitting->products[i][j] * weights[j];
            double next = max_double(0, weights[i] + left);
            largest = max_double(largest, fabs(next - weights[i]));
            weights[i] = next;
        }
    }
    for (uint32_t i = 0; i < fitting->count; i++)
        if (fitting->norms[i] > 0) weights[i] /= fitting->norms[i];
}

static void step_rows_verify(struct step_fitting *fitting) {
    struct step_fit *fit = fitting->fit;
    for (uint32_t i = 0; i < fitting->table->row_count; i++) {
        const double *row = step_rows_row_of(fitting, i);
        const struct step_load load = step_rows_load_of(row);
        if (!step_rows_is_even(fitting, row)) continue;
        double error = fabs(step_rows_fit_us(fit, &load) / row[COLUMN_US] - 1);
        fit->error_max = max_double(fit->error_max, error);
    }
}

/* Fits us = slowest + e (mean - slowest) by least squares over the rows with idle ranks. */
static void fit_evenness(struct step_fitting *fitting) {
    double above = 0, below = 0;
    for (uint32_t i = 0; i < fitting->table->row_count; i++) {
        const double *row = step_rows_row_of(fitting, i);
        if (row[COLUMN_RANKS] != fitting->fit->ranks || row[COLUMN_BUSY] >= row[COLUMN_RANKS])
            continue;
        const struct step_load own = step_rows_load_of(row);
        struct step_load mean = {0};
        step_load_add(&mean, &own, row[COLUMN_BUSY] / row[COLUMN_RANKS]);
        double slowest = step_rows_fit_us(fitting->fit, &own);
        double difference = step_rows_fit_us(fitting->fit, &mean) - slowest;
        above += (row[COLUMN_US] - slowest) * difference / (row[COLUMN_US] * row[COLUMN_US]);
        below += difference * difference / (row[COLUMN_US] * row[COLUMN_US]);
    }
    double evenness = below > 0 ? above / below : 0;
    fitting->fit->evenness = evenness < 0 ? 0 : evenness > 1 ? 1 : evenness;
}

static enum status fit_ranks(struct arena *arena, const struct tree_place *place,
                             const struct figure_table *table, struct step_fit *fit) {
    struct step_fitting fitting = {.table = table, .fit = fit};
    fitting.products = arena_take_zeroed(arena, STEP_ROWS_WEIGHTS * sizeof *fitting.products);
    if (!fitting.products)
        return error_set(place->error, STATUS_NO_MEMORY, "%.200s: no memory for %s", place->file,
                         place->path);
    find_bends(&fitting);
    struct tree_place rows = tree_keys_below(place, "rows");
    if (fit->row_count < 2)
        return tree_keys_refuse(&rows, "expected two or more in which all %u ranks are busy",
                                fit->ranks);
    for (uint32_t i = 0; i < table->row_count; i++)
        if (step_rows_is_even(&fitting, step_rows_row_of(&fitting, i)))
            step_rows_add_products(&fitting, step_rows_row_of(&fitting, i));
    step_rows_scale(&fitting);
    step_rows_descend(&fitting);
    step_rows_verify(&fitting);
    fit_evenness(&fitting);
    return STATUS_OK;
}

/* ---- reading ---- */

static enum status refuse_row(const struct tree_place *place, uint32_t i, const char *what) {
    struct tree_place rows = tree_keys_below(place, "rows");
    return tree_keys_refuse(&rows, "number %u: expected %s", i + 1, what);
}

static enum status step_rows_check_rows(const struct tree_place *place,
                                        const struct figure_table *table, struct step_rows *rows) {
    for (uint32_t i = 0; i < table->row_count; i++) {
        const double *row = table->at + (size_t)i * table->column_count;
        if (row[COLUMN_US] <= 0) return refuse_row(place, i, "microseconds above 0");
        if (row[COLUMN_RANKS] < 1 || row[COLUMN_BUSY] < 1 || row[COLUMN_BUSY] > row[COLUMN_RANKS])
            return refuse_row(place, i, "1 or more busy ranks, and as many or more in all");
        if (row[COLUMN_ANSWER_TOKENS] < row[COLUMN_ANSWER_ROWS])
            return refuse_row(place, i, "as many answer_tokens as answer_rows, or more");
        if (row[COLUMN_PROMPT_TOKENS] + row[COLUMN_ANSWER_TOKENS] == 0)
            return refuse_row(place, i, "tokens");
        if (step_rows_of(rows, (uint32_t)row[COLUMN_RANKS])) continue;
        if (rows->fit_count == STEP_ROWS_RANKS)
            return refuse_row(place, i, "no more different counts of ranks");
        rows->fits[rows->fit_count++].ranks = (uint32_t)row[COLUMN_RANKS];
    }
    return STATUS_OK;
}

enum status step_rows_read(struct arena *arena, const struct tree_place *place,
                           const struct tree *tree, struct step_rows *rows_out) {
    static const char *const columns[COLUMN_COUNT + 1] = {
        "ranks",       "busy",          "prompt_tokens", "attended", "cached",
        "answer_rows", "answer_tokens", "context",       "us",       NULL};
    static const struct tree_key keys[] = {
        {"model", KEY_TEXT, offsetof(struct step_rows, model), .needed = true},
        {"weight_bytes", KEY_NUMBER, offsetof(struct step_rows, weight_bytes), 0, 1e15,
         .needed = true},
        {"page_count", KEY_NUMBER, offsetof(struct step_rows, page_count), 0, 1e9, .needed = true},
        {"columns", KEY_OTHER, .needed = true},
        {"rows", KEY_OTHER, .needed = true},
    };
    struct figure_table table;
    memset(rows_out, 0, sizeof *rows_out);
    enum status status = tree_keys_read(place, tree, keys, ARRAY_COUNT(keys), rows_out);
    if (!status) status = figure_table_read(place, tree, columns, arena, &table);
    if (!status) status = step_rows_check_rows(place, &table, rows_out);
    for (uint32_t i = 0; !status && i < rows_out->fit_count; i++)
        status = fit_ranks(arena, place, &table, &rows_out->fits[i]);
    return status;
}
