/* SPDX-License-Identifier: Apache-2.0
 * Reads the arguments of a filter, a test, a method or a function. Each function fails with
 * Python's error if the argument has another type. `which` counts the parameters of its row.
 */
#pragma once

#include "serving/jinja/values/jinja_machine.h"

/* Whether an argument was given; None counts as given. */
static inline bool routine_given(const struct call *call, unsigned which) {
    return call->arguments[which].kind != VALUE_MISSING;
}

/* Whether it was given and is not None. */
static inline bool routine_reported(const struct call *call, unsigned which) {
    return routine_given(call, which) && call->arguments[which].kind != VALUE_NONE;
}

/* The truth of an argument, or what holds without it. */
static inline bool routine_flag(const struct call *call, unsigned which, bool otherwise) {
    return routine_given(call, which) ? value_truth(&call->arguments[which]) : otherwise;
}

/* A text; `otherwise` (NULL: none) where it is missing. */
bool routine_text(struct jinja_machine *machine, const struct call *call, unsigned which,
                  const struct value_text *otherwise, const struct value_text **out) MUST_USE;

/* A whole number; `otherwise` where it is missing. */
bool routine_integer(struct jinja_machine *machine, const struct call *call, unsigned which,
                     int64_t otherwise, int64_t *out) MUST_USE;

/* A whole number, None, or missing, as the ends of slices are. */
bool routine_end(struct jinja_machine *machine, const struct call *call, unsigned which,
                 int64_t otherwise, int64_t *out) MUST_USE;

/* A flag that Python takes for a number: not every value has a truth there. */
bool routine_switch(struct jinja_machine *machine, const struct call *call, unsigned which,
                    bool *out) MUST_USE;

/* The row of a table, by its name. */
const struct routine *routine_find(const struct routine *rows, size_t count, struct bytes name);

/* Complains that a value cannot be used so: an undefined one in its own words, another as
 * "'int' object <what>". Always false. */
bool routine_refuse(struct jinja_machine *machine, const struct value *value, const char *what);

/* soft_str(value): a text with its markup, or str(value). */
bool routine_subject(struct jinja_machine *machine, const struct value *value,
                     const struct value_text **out) MUST_USE;

/* str(value): without markup. */
bool routine_plain(struct jinja_machine *machine, const struct value *value,
                   const struct value_text **out) MUST_USE;

static inline bool routine_answer(struct value *out, bool truth) {
    *out = value_bool(truth);
    return true;
}
