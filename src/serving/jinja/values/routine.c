/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/jinja/values/routine.h"

static unsigned parameter_count(const struct routine *routine) {
    unsigned count = 0;
    while (count < ROUTINE_PARAMETERS_MAX && routine->parameters[count])
        count++;
    return count;
}

static bool bind_positional(struct jinja_machine *machine, unsigned parameters,
                            const struct value *arguments, uint32_t count, struct call *call) {
    for (uint32_t i = 0; i < count && i < parameters; i++)
        call->arguments[i] = arguments[i];
    if (count <= parameters) return true;
    if (!call->routine->rest)
        return machine_fail(machine, "%s() takes at most %u arguments (%u given)",
                            call->routine->name, parameters, (unsigned)count);
    call->rest = arguments + parameters;
    call->rest_count = count - parameters;
    return true;
}

static bool name_is(const struct value *name, const char *expected) {
    return bytes_equal(value_text_bytes(name->text), bytes_of(expected));
}

static bool bind_named(struct jinja_machine *machine, unsigned parameters,
                       const struct named_value *named, uint32_t count, struct call *call) {
    const struct routine *routine = call->routine;
    struct named_value *kept = NULL;
    for (uint32_t i = 0; i < count; i++) {
        unsigned which = 0;
        while (which < parameters &&
               (routine->nameless || !name_is(&named[i].name, routine->parameters[which])))
            which++;
        int shown = named[i].name.text->count < 80 ? (int)named[i].name.text->count : 80;
        if (which < parameters) {
            if (call->arguments[which].kind != VALUE_MISSING)
                return machine_fail(machine, "%s() got multiple values for argument '%.*s'",
                                    routine->name, shown, named[i].name.text->data);
            call->arguments[which] = named[i].value;
            continue;
        }
        if (!routine->named)
            return machine_fail(machine, "%s() got an unexpected keyword argument '%.*s'",
                                routine->name, shown, named[i].name.text->data);
        if (!kept && !(kept = machine_take(machine, count * sizeof *kept))) return false;
        kept[call->named_count++] = named[i];
    }
    call->named = kept;
    return true;
}

bool routine_call(struct jinja_machine *machine, const struct routine *routine,
                  const struct value *subject, const struct value *arguments,
                  uint32_t argument_count, const struct named_value *named, uint32_t named_count,
                  struct value *out) {
    if (!routine->run) return machine_fail(machine, "%s", routine->refused);
    struct call call = {.routine = routine};
    if (subject) call.subject = *subject;
    unsigned parameters = parameter_count(routine);
    if (!bind_positional(machine, parameters, arguments, argument_count, &call)) return false;
    if (named_count && !bind_named(machine, parameters, named, named_count, &call)) return false;
    for (unsigned i = 0; i < routine->required; i++)
        if (call.arguments[i].kind == VALUE_MISSING)
            return machine_fail(machine, "%s() is missing the argument '%s'", routine->name,
                                routine->parameters[i]);
    return machine_spend(machine, 1) && routine->run(machine, &call, out);
}

bool routine_refuse(struct jinja_machine *machine, const struct value *value, const char *what) {
    if (value->kind == VALUE_UNDEFINED) return value_complain(machine, value);
    return machine_fail(machine, "'%s' object %s", value_type_name(value), what);
}

bool routine_text(struct jinja_machine *machine, const struct call *call, unsigned which,
                  const struct value_text *otherwise, const struct value_text **out) {
    const struct value *given = &call->arguments[which];
    if (given->kind == VALUE_TEXT)
        *out = given->text;
    else if (given->kind == VALUE_MISSING)
        *out = otherwise;
    else
        return machine_fail(machine, "%s() argument '%s' must be str, not %s", call->routine->name,
                            call->routine->parameters[which], value_type_name(given));
    return true;
}

bool routine_integer(struct jinja_machine *machine, const struct call *call, unsigned which,
                     int64_t otherwise, int64_t *out) {
    const struct value *given = &call->arguments[which];
    if (value_is_whole(given))
        *out = value_whole(given);
    else if (given->kind == VALUE_MISSING)
        *out = otherwise;
    else
        return machine_fail(machine, "'%s' object cannot be interpreted as an integer",
                            value_type_name(given));
    return true;
}

bool routine_end(struct jinja_machine *machine, const struct call *call, unsigned which,
                 int64_t otherwise, int64_t *out) {
    if (call->arguments[which].kind != VALUE_NONE)
        return routine_integer(machine, call, which, otherwise, out);
    *out = otherwise;
    return true;
}

bool routine_switch(struct jinja_machine *machine, const struct call *call, unsigned which,
                    bool *out) {
    int64_t number;
    if (!routine_integer(machine, call, which, 0, &number)) return false;
    *out = number != 0;
    return true;
}

const struct routine *routine_find(const struct routine *rows, size_t count, struct bytes name) {
    for (size_t i = 0; i < count; i++)
        if (rows[i].name[0] == (name.count ? name.data[0] : '\0') &&
            bytes_equal(name, bytes_of(rows[i].name)))
            return &rows[i];
    return NULL;
}

bool routine_subject(struct jinja_machine *machine, const struct value *value,
                     const struct value_text **out) {
    struct value text = *value;
    if (value->kind != VALUE_TEXT && !value_print_string(machine, value, &text)) return false;
    *out = text.text;
    return true;
}

bool routine_plain(struct jinja_machine *machine, const struct value *value,
                   const struct value_text **out) {
    if (!routine_subject(machine, value, out)) return false;
    if (!(*out)->markup) return true;
    struct value_text *plain = machine_take(machine, sizeof *plain);
    if (!plain) return false;
    *plain = **out;
    plain->markup = false;
    *out = plain;
    return true;
}
