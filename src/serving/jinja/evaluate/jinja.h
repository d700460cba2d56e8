/* SPDX-License-Identifier: Apache-2.0
 * The Jinja interpreter for chat templates. The output equals, byte for byte, that of Python's
 * Jinja2 3.1 as `transformers` configures it: the immutable sandbox with trim_blocks,
 * lstrip_blocks, loop controls, the block {% generation %}, `tojson` without HTML escapes,
 * raise_exception() and strftime_now(). Where Jinja2 raises an exception, rendering fails with
 * STATUS_INVALID and the reason in one line.
 *
 * Features that no published template uses are rejected, with an error that names them:
 *
 *   statements  include, import, extends, block, with, self, recursive loops, loop.cycle(),
 *               loop.changed(), varargs and kwargs of macros
 *   operators   / // and ** of numbers, ** of arguments, tuples as subscripts, reals in arithmetic
 *   functions   cycler(), joiner(), lipsum()
 *   filters     abs, attr, batch, escape, float, groupby, pprint, random, round, slice, sum, and
 *               those for web pages and for columns
 *   str         count, index, partition, is..., and methods for columns and encodings
 *   formats     all except %s, %d, {}, {0} and {name}
 *   values      numbers that are not decimal, octal and \N escapes, names beyond ASCII, integers
 *               beyond 64 bits, dict keys that are neither str nor int, values that Python prints
 *               with an address
 *
 * A compiled program is immutable, so threads may share it. A rendering takes all its memory from
 * the caller's arena, within limits, and its result points into that arena.
 */
#pragma once

#include "serving/jinja/values/value.h"

#define JINJA_SOURCE_BYTES_MAX ((size_t)1 << 20)

struct jinja_program;

/* Compiles a template. Error messages begin with "name:line: ". The source need not outlive the
 * call. Returns STATUS_INVALID for a syntax error or an unsupported feature, STATUS_TOO_LARGE if
 * the template is too large or nested too deeply, or STATUS_NO_MEMORY. */
enum status jinja_compile(struct arena *arena, struct bytes source, const char *name,
                          const struct jinja_program **out, struct error *error) MUST_USE;

/* True if a variable, attribute, keyword or literal in the template is exactly this word. */
bool jinja_uses(const struct jinja_program *program, const char *word);

/* True if a literal, or the text outside of tags, contains this text. */
bool jinja_mentions(const struct jinja_program *program, struct bytes text);

struct jinja_limits {
    uint64_t steps;      /* evaluated nodes, plus work in proportion to the length of texts */
    size_t memory_bytes; /* taken from the arena */
    size_t output_bytes;
};

extern const struct jinja_limits jinja_limits_usual;

/* A variable with the value `none` is defined; a variable that is not passed is undefined. If names
 * repeat, the last one wins. */
struct jinja_variable {
    struct bytes name;
    struct value value;
};

struct jinja_rendering {
    struct bytes text;
    const struct text_span *data; /* spans with origin VALUE_DATA: ascending, disjoint, not empty */
    size_t data_count;
    uint64_t steps; /* steps used */
};

/* Renders the template. strftime_now() formats `unix_time`, in UTC. Returns STATUS_INVALID if
 * Jinja2 would raise an exception or a feature is unsupported, STATUS_TOO_LARGE if a limit is
 * exceeded, or STATUS_NO_MEMORY. */
enum status jinja_render(const struct jinja_program *program,
                         const struct jinja_variable *variables, size_t variable_count,
                         const struct jinja_limits *limits, int64_t unix_time, struct arena *arena,
                         struct jinja_rendering *out, struct error *error) MUST_USE;
