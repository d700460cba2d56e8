/* SPDX-License-Identifier: Apache-2.0
 * Protects what forms mean, and that what is none is refused by its keyword.
 */
#include "schema_cases.h"
#include "serving/grammar/form.h"
#include "serving/grammar/grammar_program.h"

#define FORM_BYTES ((size_t)16 << 20)

static enum status compile(const char *text, struct error *error) {
    static char memory[3 * FORM_BYTES];
    struct arena trees, arena, scratch;
    const struct tree *form;
    const struct grammar_program *program = NULL;
    arena_over(&trees, memory, FORM_BYTES);
    arena_over(&arena, memory + FORM_BYTES, FORM_BYTES);
    arena_over(&scratch, memory + 2 * FORM_BYTES, FORM_BYTES);
    if (tree_parse(&trees, bytes_of(text), text, &form, error)) fail_msg("%s", error->text);
    return form_compile(&arena, &scratch, form, NULL, &schema_limits_usual, &program, error);
}

static void refuses_form(const char *form, enum status expected, const char *message) {
    struct error error = {""};
    enum status status = compile(form, &error);
    if (status != expected) fail_msg("%s: %s: %s", form, status_name(status), error.text);
    if (strncmp(error.text, message, strlen(message)) != 0)
        fail_msg("'%s' does not begin with '%s'", error.text, message);
}

static void a_schema_is_a_form(void **state) {
    struct error error = {""};
    (void)state;
    assert_int_equal(compile("{\"schema\":{\"type\":\"null\"},\"in_order\":true}", &error),
                     STATUS_OK);
}

static void what_is_no_form_is_refused(void **state) {
    (void)state;
    refuses_form("[]", STATUS_INVALID, "a form must be an object, is an array");
    refuses_form("{}", STATUS_INVALID, "a form has one keyword");
    refuses_form("{\"schema\":true,\"text\":\"a\"}", STATUS_INVALID,
                 "a form has one keyword, found schema and text");
    refuses_form("{\"schema\":{\"type\":1}}", STATUS_INVALID, "#/type: ");
    refuses_form("{\"schema\":true,\"in_order\":1}", STATUS_INVALID, "in_order: ");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_schema_is_a_form),
        cmocka_unit_test(what_is_no_form_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
