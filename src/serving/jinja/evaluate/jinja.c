/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/jinja/evaluate/jinja.h"

#include "base/check.h"
#include "serving/jinja/evaluate/eval.h"
#include "serving/jinja/parse/jinja_lexer.h"
#include "serving/jinja/parse/jinja_parser.h"
#include "serving/jinja/parse/jinja_scopes.h"

#define COMPILE_BYTES_MAX ((size_t)512 << 20)
#define NAME_BYTES_MAX 200

const struct jinja_limits jinja_limits_usual = {
    .steps = (uint64_t)64 << 20,
    .memory_bytes = (size_t)256 << 20,
    .output_bytes = (size_t)64 << 20,
};

/* ---- compiling ---- */

static enum status jinja_compile_each(struct jinja_machine *machine, struct bytes source,
                                      struct jinja_program *program) {
    struct lexeme *lexemes;
    size_t count;
    if (source.count > JINJA_SOURCE_BYTES_MAX)
        return error_set(machine->error, STATUS_TOO_LARGE,
                         "%s: the template has %zu bytes, more than the %zu allowed", machine->name,
                         source.count, JINJA_SOURCE_BYTES_MAX);
    if (jinja_lexer_run(machine, source, &lexemes, &count) &&
        jinja_parser_run(machine, lexemes, program) && jinja_scopes_resolve(machine, program))
        return STATUS_OK;
    return machine->status;
}

enum status jinja_compile(struct arena *arena, struct bytes source, const char *name,
                          const struct jinja_program **out, struct error *error) {
    struct jinja_machine machine = {
        .arena = arena,
        .memory_left = COMPILE_BYTES_MAX,
        .steps_left = UINT64_MAX,
        .error = error,
        .name = name,
        .line = 1,
        .output_bytes_max = JINJA_SOURCE_BYTES_MAX,
    };
    size_t count = strlen(name);
    if (count > NAME_BYTES_MAX) count = NAME_BYTES_MAX;
    struct jinja_program *program = machine_take(&machine, sizeof *program);
    char *copy = program ? machine_take(&machine, count + 1) : NULL;
    if (!copy) return machine.status;
    memcpy(copy, name, count);
    copy[count] = '\0';
    *program = (struct jinja_program){.name = copy};
    machine.name = copy;
    enum status status = jinja_compile_each(&machine, source, program);
    if (status == STATUS_OK) *out = program;
    return status;
}

bool jinja_uses(const struct jinja_program *program, const char *word) {
    return jinja_parser_number(program, bytes_of(word)) < program->word_count;
}

static bool jinja_contains(const struct value_text *text, struct bytes part) {
    return bytes_contain(value_text_bytes(text), part);
}

bool jinja_mentions(const struct jinja_program *program, struct bytes text) {
    for (uint32_t i = 0; i < program->word_count; i++)
        if (jinja_contains(program->words[i].text, text)) return true;
    for (const struct node *node = program->texts; node; node = node->a)
        if (jinja_contains(node->value.text, text)) return true;
    return false;
}

/* ---- rendering ---- */

/* The values of names at the start, by number of the name: the global functions, overridden by the
 * caller's variables. */
static struct value *make_context(struct jinja_machine *machine) {
    static const char *const functions[] = {"range",           "dict",        "cycler",
                                            "joiner",          "lipsum",      "namespace",
                                            "raise_exception", "strftime_now"};
    const struct jinja_program *program = machine->program;
    struct value *context = machine_take(machine, (program->word_count + 1) * sizeof *context);
    if (!context) return NULL;
    for (uint32_t i = 0; i <= program->word_count; i++)
        context[i] = (struct value){.kind = VALUE_MISSING};
    for (size_t i = 0; i < ARRAY_COUNT(functions); i++) {
        struct bytes name = bytes_of(functions[i]);
        const struct routine *function = functions_find(name);
        if (function)
            context[jinja_parser_number(program, name)] =
                (struct value){.kind = VALUE_FUNCTION, .function = function};
    }
    for (size_t i = 0; i < machine->variable_count; i++)
        context[jinja_parser_number(program, machine->variables[i].name)] =
            machine->variables[i].value;
    return context;
}

static bool run(struct jinja_machine *machine) {
    const struct jinja_program *program = machine->program;
    struct value *context = make_context(machine);
    struct scope *scope =
        context ? eval_statement_scope(machine, program->function, NULL, context) : NULL;
    if (!scope) return false;
    eval_statement_enter(scope, program->frame);
    return eval_statement_statements(machine, scope, program->statements) != EVAL_FAILED;
}

/* Writes the spans of data bytes to `out` and returns their number. NULL: only counts them. */
static size_t find_runs(const struct text_builder *text, struct text_span *out) {
    size_t count = 0;
    for (size_t at = 0; at < text->count; count++) {
        const uint8_t *marks = text->marks;
        const uint8_t *start = memchr(marks + at, VALUE_DATA, text->count - at);
        if (!start) break;
        const uint8_t *end = memchr(start, VALUE_TRUSTED, text->count - (size_t)(start - marks));
        at = end ? (size_t)(end - marks) : text->count;
        if (out) out[count] = (struct text_span){(uint32_t)(start - marks), (uint32_t)at};
    }
    return count;
}

static bool find_data(struct jinja_machine *machine, const struct text_builder *text,
                      struct jinja_rendering *out) {
    bool all = !text->marks && text->count && text->origin == VALUE_DATA;
    out->data_count = text->marks ? find_runs(text, NULL) : all;
    struct text_span *spans = machine_take(machine, out->data_count * sizeof *spans);
    if (!spans) return false;
    if (text->marks) find_runs(text, spans);
    if (all) spans[0] = (struct text_span){0, (uint32_t)text->count};
    out->data = spans;
    return true;
}

enum status jinja_render(const struct jinja_program *program,
                         const struct jinja_variable *variables, size_t variable_count,
                         const struct jinja_limits *limits, int64_t unix_time, struct arena *arena,
                         struct jinja_rendering *out, struct error *error) {
    struct text_builder output;
    struct jinja_machine machine = {
        .arena = arena,
        .memory_left = limits->memory_bytes,
        .steps_left = limits->steps,
        .error = error,
        .name = program->name,
        .unix_time = unix_time,
        .output_bytes_max = limits->output_bytes,
        .program = program,
        .variables = variables,
        .variable_count = variable_count,
        .output = &output,
    };
    text_builder_open(&output, &machine);
    output.is_output = true;
    if (!run(&machine)) return machine.status;
    struct jinja_rendering rendering = {
        .text = {output.count ? output.data : "", output.count},
    };
    if (!find_data(&machine, &output, &rendering)) return machine.status;
    rendering.steps = limits->steps - machine.steps_left;
    *out = rendering;
    return STATUS_OK;
}
