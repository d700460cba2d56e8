/* SPDX-License-Identifier: Apache-2.0
 * A template and, behind a byte 0xFF (which no UTF-8 has), its variables as JSON. Whatever they
 * are, they render within small limits or are refused in one line that names the template; the
 * text is UTF-8, its data lies in parts that are ordered and apart, and rendering again gives the
 * same.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/utf8.h"
#include "parts.h"
#include "serving/jinja/evaluate/jinja.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ARENA_BYTES ((size_t)48 << 20)
#define VARIABLES_MAX 16

static const struct jinja_limits limits = {
    .steps = 200000, .memory_bytes = (size_t)8 << 20, .output_bytes = (size_t)1 << 20};

static size_t read_variables(struct arena *arena, struct bytes json,
                             struct jinja_variable variables[VARIABLES_MAX]) {
    struct error error;
    const struct tree *root, *value;
    struct tree_cursor cursor = {NULL};
    size_t count = 0;
    if (tree_parse(arena, json, "variables", &root, &error)) return 0;
    while (count < VARIABLES_MAX && tree_next_member(root, &cursor, &variables[count].name, &value))
        if (value_of_tree(arena, value, &variables[count].value)) count++;
    return count;
}

static void check_spans(const struct text_span *spans, size_t count, size_t text_count) {
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        check(spans[i].start >= at && spans[i].end > spans[i].start);
        at = spans[i].end;
    }
    check(at <= text_count);
}

static void check_error(enum status status, const struct error *error) {
    check(status == STATUS_INVALID || status == STATUS_TOO_LARGE || status == STATUS_NO_MEMORY);
    check(!strncmp(error->text, "t:", 2) && !strchr(error->text, '\n'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char *memory;
    struct jinja_variable variables[VARIABLES_MAX];
    const struct jinja_program *program;
    struct jinja_rendering first, second;
    struct error error = {""};
    struct arena arena;
    struct bytes rest = {(const char *)data, size}, source = next_part(&rest);
    if (!memory) memory = malloc(ARENA_BYTES);
    check(memory != NULL);
    arena_over(&arena, memory, ARENA_BYTES);
    enum status status = jinja_compile(&arena, source, "t", &program, &error);
    if (status) {
        check_error(status, &error);
        return 0;
    }
    size_t count = read_variables(&arena, rest, variables);
    status = jinja_render(program, variables, count, &limits, 0, &arena, &first, &error);
    if (status) {
        check_error(status, &error);
        return 0;
    }
    check(utf8_valid_prefix(first.text) == first.text.count);
    check(first.text.count <= limits.output_bytes);
    check_spans(first.data, first.data_count, first.text.count);
    if (jinja_render(program, variables, count, &limits, 0, &arena, &second, &error)) return 0;
    check(bytes_equal(first.text, second.text) && first.data_count == second.data_count);
    return 0;
}
