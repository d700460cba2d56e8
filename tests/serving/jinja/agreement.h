/* SPDX-License-Identifier: Apache-2.0
 * What the tests of the templates' library share: templates and what Jinja2 3.1.6 on Python 3.11
 * makes of them, in the set-up that jinja.h names, with the variables below. `none` in a table's
 * second column: Jinja2 raises.
 */
#pragma once

#include "serving/jinja/evaluate/jinja.h"
#include "test_case.h"

#define AGREEMENT_TIME 1709647629 /* 2024-03-05 14:07:09 */
#define AGREEMENT_VARIABLES_MAX 32

struct agreement {
    const char *source, *text;
};

static const char agreement_variables[] =
    "{\"u\": \"héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.\", \"s\": \" Hello World\\tfoo-bar  baz\\n\", \"n\": n"
    "ull, \"l\": [3, 1, 2], \"d\": {\"b\": 1, \"A\": [1, 2], \"c\": null}, \"x\": 3.7, \"m\": ["
    "{\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": \"assistant\", \"content\": \"Yo\", "
    "\"tool\": {\"a\": [5, 6]}}, {\"role\": \"User\", \"content\": \"\"}], \"t\": true, \"e\": "
    "\"\", \"neg\": -7, \"h\": \"<b>a & 'b' \\\"c\\\"</b>\", \"nums\": [3, 1.5, true, -2, 0], "
    "\"words\": [\"b\", \"A\", \"c\", \"B\", \"a\", \"Á\"], \"mix\": [1, \"a\", null], \"objs\""
    ": [{\"n\": \"b\", \"v\": 2, \"k\": {\"z\": [1]}}, {\"n\": \"A\", \"v\": 1, \"k\": {\"z\": "
    "[2]}}, {\"n\": \"a\", \"v\": 3, \"k\": {\"z\": [0]}}, {\"v\": 0}], \"long\": \"The quick b"
    "rown-fox jumped over -- the lazy dog's back; state-of-the-art e-mail addresses: foo--bar a"
    "nd a_very_long_word_indeed_that_will_not_fit_on_any_line_of_the_text. Éa-bé x\", \"tup\": "
    "[[\"a\", 1], [\"b\", 2]], \"nested\": [[1, 2], [3], []]}";

static char agreement_memory[8 << 20];

/* Renders with the variables; the result and its error lie in static memory. */
static inline enum status agreement_render(const char *source, struct jinja_rendering *out,
                                           struct error *error) {
    static struct arena arena;
    static struct jinja_variable variables[AGREEMENT_VARIABLES_MAX];
    const struct tree *root, *value;
    const struct jinja_program *program;
    struct tree_cursor cursor = {0};
    size_t count = 0;
    arena_over(&arena, agreement_memory, sizeof agreement_memory);
    assert_int_equal(tree_parse(&arena, bytes_of(agreement_variables), "v", &root, error),
                     STATUS_OK);
    while (tree_next_member(root, &cursor, &variables[count].name, &value)) {
        assert_true(value_of_tree(&arena, value, &variables[count].value));
        assert_in_range(++count, 1, AGREEMENT_VARIABLES_MAX - 1);
    }
    enum status status = jinja_compile(&arena, bytes_of(source), "t", &program, error);
    if (status != STATUS_OK) return status;
    return jinja_render(program, variables, count, &jinja_limits_usual, AGREEMENT_TIME, &arena, out,
                        error);
}

/* Each template gives its text, or is refused with a reason. */
static inline void agreement_check(const struct agreement *rows, size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct jinja_rendering got = {0};
        struct error error = {{0}};
        enum status status = agreement_render(rows[i].source, &got, &error);
        struct bytes expected = bytes_of(rows[i].text ? rows[i].text : "");
        if (rows[i].text ? status == STATUS_OK && bytes_equal(got.text, expected)
                         : status == STATUS_INVALID && error.text[0])
            continue;
        fail_msg("%s\n  should be %s\n  and is    %.*s%s", rows[i].source,
                 rows[i].text ? rows[i].text : "refused", (int)got.text.count,
                 got.text.data ? got.text.data : "", error.text);
    }
}

#define AGREES(rows) agreement_check(rows, sizeof(rows) / sizeof(rows)[0])

/* The template's text with its data in « ». */
static inline void agreement_origins(const char *source, const char *expected) {
    char marked[4096];
    size_t at = 0, next = 0;
    struct jinja_rendering got = {0};
    struct error error = {{0}};
    if (agreement_render(source, &got, &error) != STATUS_OK)
        fail_msg("%s\n  is refused: %s", source, error.text);
    for (size_t i = 0; i <= got.text.count; i++) {
        bool ends = next < got.data_count && got.data[next].end == i;
        if (ends) at += (size_t)snprintf(marked + at, sizeof marked - at, "»");
        next += ends;
        if (next < got.data_count && got.data[next].start == i)
            at += (size_t)snprintf(marked + at, sizeof marked - at, "«");
        if (i < got.text.count) marked[at++] = got.text.data[i];
        assert_in_range(at, 0, sizeof marked - 8);
    }
    marked[at] = '\0';
    assert_string_equal(marked, expected);
}
