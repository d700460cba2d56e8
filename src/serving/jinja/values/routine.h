/* SPDX-License-Identifier: Apache-2.0
 * Access to the arguments of a filter, test, method or function. `which` is the index of the
 * parameter in the routine's row. The functions fail with Python's error if the type is wrong.
 */
#pragma once

#include "serving/jinja/values/jinja_machine.h"

/* True if the argument was given. None counts as given. */
static inline bool routine_given(const struct call *call, unsigned which) {
    return call->arguments[which].kind != VALUE_MISSING;
}

/* True if the argument was given and is not None. */
static inline bool routine_reported(const struct call *call, unsigned which) {
    return routine_given(call, which) && call->arguments[which].kind != VALUE_NONE;
}

/* The truth value of an argument, or `otherwise` if it is missing. */
static inline bool routine_flag(const struct call *call, unsigned which, bool otherwise) {
    return routine_given(call, which) ? value_truth(&call->arguments[which]) : otherwise;
}

/* Returns a text, or `otherwise` (may be NULL) if it is missing. */
bool routine_text(struct jinja_machine *machine, const struct call *call, unsigned which,
                  const struct value_text *otherwise, const struct value_text **out) MUST_USE;

/* Returns an integer, or `otherwise` if it is missing. */
bool routine_integer(struct jinja_machine *machine, const struct call *call, unsigned which,
                     int64_t otherwise, int64_t *out) MUST_USE;

/* Returns an integer, or `otherwise` if it is missing or None, as for bounds of slices. */
bool routine_end(struct jinja_machine *machine, const struct call *call, unsigned which,
                 int64_t otherwise, int64_t *out) MUST_USE;

/* Returns a flag that Python requires to be an integer or bool; false if it is missing. */
bool routine_switch(struct jinja_machine *machine, const struct call *call, unsigned which,
                    bool *out) MUST_USE;

/* Looks up a row of a table by its name; NULL if there is none. */
const struct routine *routine_find(const struct routine *rows, size_t count, struct bytes name);

/* Reports that a value cannot be used in this way: the error of an undefined value, else "'int'
 * object <what>". Always false. */
bool routine_refuse(struct jinja_machine *machine, const struct value *value, const char *what);

/* soft_str(value): a text unchanged, a Markup included; else str(value). */
bool routine_subject(struct jinja_machine *machine, const struct value *value,
                     const struct value_text **out) MUST_USE;

/* str(value), never a Markup. */
bool routine_plain(struct jinja_machine *machine, const struct value *value,
                   const struct value_text **out) MUST_USE;

static inline bool routine_answer(struct value *out, bool truth) {
    *out = value_bool(truth);
    return true;
}
