/* SPDX-License-Identifier: Apache-2.0 */
#include "command/eplb_load.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/tree.h"
#include "serving/policy/balance/balance_experts.h"

/* A JSON array of rows, each an array with the same number of numbers. */
struct eplb_table {
    const char *name; /* name of the text in messages */
    const struct tree *rows;
    uint32_t row_count, column_count;   /* set by read_shape */
    const char *row_noun, *column_noun; /* for messages: "layer", "expert" */
};

/* Parses the text; the tree is in *memory_out, which the caller frees. */
static enum status parse_tree(struct bytes text, const char *name, void **memory_out,
                              const struct tree **root_out, struct error *error) {
    /* 128 bytes for "1,": a number and its slots in a growing array; the arena frees nothing */
    size_t bytes = text.count * 64 + 65536;
    void *memory = malloc(bytes);
    struct arena arena;
    if (!memory) return error_set(error, STATUS_NO_MEMORY, "%s: no memory to read it", name);
    arena_over(&arena, memory, bytes);
    enum status status = tree_parse(&arena, text, name, root_out, error);
    if (status != STATUS_OK)
        free(memory);
    else
        *memory_out = memory;
    return status;
}

/* Sets the table's counts, 1..rows_max and 1..columns_max. Returns INVALID unless every row is an
 * array as long as the first; values are not checked. */
static enum status eplb_load_read_shape(struct eplb_table *table, uint32_t rows_max,
                                        uint32_t columns_max, struct error *error) {
    size_t rows = tree_count(table->rows), columns = tree_count(tree_at(table->rows, 0));
    if (!rows || rows > rows_max)
        return error_set(error, STATUS_INVALID,
                         "%s: expected an array of 1 to %u %ss, each an array of numbers, found "
                         "%s of %zu",
                         table->name, rows_max, table->row_noun, tree_name(table->rows), rows);
    for (size_t i = 0; i < rows; i++) {
        const struct tree *row = tree_at(table->rows, i);
        if (tree_kind(row) != TREE_ARRAY)
            return error_set(error, STATUS_INVALID,
                             "%s: %s %zu: expected an array of one number for each %s, found %s",
                             table->name, table->row_noun, i, table->column_noun, tree_name(row));
        if (tree_count(row) != columns)
            return error_set(error, STATUS_INVALID,
                             "%s: %s %zu has %zu %ss, %s 0 has %zu: all must have the same number",
                             table->name, table->row_noun, i, tree_count(row), table->column_noun,
                             table->row_noun, columns);
    }
    if (!columns || columns > columns_max)
        return error_set(error, STATUS_INVALID, "%s: expected 1 to %u %ss in a %s, found %zu",
                         table->name, columns_max, table->column_noun, table->row_noun, columns);
    table->row_count = (uint32_t)rows;
    table->column_count = (uint32_t)columns;
    return STATUS_OK;
}

/* Reads loads[experts] of a layer, scaled by a power of 2 so that the largest has 53 bits. */
static enum status read_loads(const struct eplb_table *table, uint32_t layer, uint64_t *loads,
                              struct error *error) {
    const struct tree *row = tree_at(table->rows, layer);
    double most = 0;
    int exponent = 0;
    for (uint32_t e = 0; e < table->column_count; e++) {
        double value = -1;
        if (!tree_get_number(tree_at(row, e), &value))
            return error_set(error, STATUS_INVALID,
                             "%s: layer %u, expert %u: expected a load, a number, found %s",
                             table->name, layer, e, tree_name(tree_at(row, e)));
        if (!(value >= 0) || !isfinite(value))
            return error_set(error, STATUS_INVALID,
                             "%s: layer %u, expert %u: expected a load of at least 0, found %g",
                             table->name, layer, e, value);
        if (value > most) most = value;
    }
    frexp(most, &exponent); /* most < 2^exponent */
    for (uint32_t e = 0; e < table->column_count; e++) {
        double value = 0;
        tree_get_number(tree_at(row, e), &value);
        /* the sum of LIMIT_EXPERTS values is below 2^64 */
        loads[e] = (uint64_t)ldexp(value, 53 - exponent);
    }
    return STATUS_OK;
}

enum status eplb_load_parse(struct bytes text, const char *name, struct eplb_load *out,
                            struct error *error) {
    void *memory;
    uint64_t *loads = NULL;
    struct eplb_table table = {.name = name, .row_noun = "layer", .column_noun = "expert"};
    enum status status = parse_tree(text, name, &memory, &table.rows, error);
    if (status != STATUS_OK) return status;
    status = eplb_load_read_shape(&table, LIMIT_LAYERS, LIMIT_EXPERTS, error);
    if (status == STATUS_OK) {
        loads = calloc((size_t)table.row_count * table.column_count, sizeof *loads);
        if (!loads) status = error_set(error, STATUS_NO_MEMORY, "%s: no memory for loads", name);
    }
    for (uint32_t i = 0; status == STATUS_OK && i < table.row_count; i++)
        status = read_loads(&table, i, loads + (size_t)i * table.column_count, error);
    if (status == STATUS_OK)
        *out = (struct eplb_load){table.row_count, table.column_count, loads};
    else
        free(loads);
    free(memory);
    return status;
}

/* Reads slots[slot], the expert of each slot of a layer. */
static enum status eplb_load_read_slots(const struct eplb_table *table, uint32_t layer,
                                        uint16_t *slots, struct error *error) {
    const struct tree *row = tree_at(table->rows, layer);
    for (uint32_t slot = 0; slot < table->column_count; slot++) {
        int64_t expert = -1;
        if (!tree_get_integer(tree_at(row, slot), &expert) || expert < 0 || expert >= LIMIT_EXPERTS)
            return error_set(error, STATUS_INVALID,
                             "%s: layer %u, slot %u: expected an expert, 0 to %d, found %s",
                             table->name, layer, slot, LIMIT_EXPERTS - 1,
                             tree_brief(tree_at(row, slot), (char[TREE_BRIEF_BYTES]){0}));
        slots[slot] = (uint16_t)expert;
    }
    return STATUS_OK;
}

enum status eplb_load_parse_placement(struct bytes text, const char *name,
                                      struct eplb_placement *out, struct error *error) {
    void *memory;
    uint16_t *slots = NULL;
    const struct tree *root;
    struct eplb_table table = {.name = name, .row_noun = "layer", .column_noun = "slot"};
    enum status status = parse_tree(text, name, &memory, &root, error);
    if (status != STATUS_OK) return status;
    table.rows = tree_member(root, "slot_to_expert");
    if (!table.rows)
        status = error_set(error, STATUS_INVALID,
                           "%s: expected what `fathom eplb --json` prints, an object with "
                           "\"slot_to_expert\"",
                           name);
    if (status == STATUS_OK)
        status = eplb_load_read_shape(&table, LIMIT_LAYERS, BALANCE_SLOTS_MAX, error);
    if (status == STATUS_OK) {
        slots = calloc((size_t)table.row_count * table.column_count, sizeof *slots);
        if (!slots) status = error_set(error, STATUS_NO_MEMORY, "%s: no memory for slots", name);
    }
    for (uint32_t i = 0; status == STATUS_OK && i < table.row_count; i++)
        status = eplb_load_read_slots(&table, i, slots + (size_t)i * table.column_count, error);
    if (status == STATUS_OK)
        *out = (struct eplb_placement){table.row_count, table.column_count, slots};
    else
        free(slots);
    free(memory);
    return status;
}
