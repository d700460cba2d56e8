/* SPDX-License-Identifier: Apache-2.0
 * Jinja, as chat templates use it: byte for byte what Python's Jinja2 3.1 writes in the set-up of
 * `transformers`: the immutable sandbox with trim_blocks, lstrip_blocks, loop controls, the block
 * {% generation %}, `tojson` without escapes for HTML, raise_exception() and strftime_now().
 * Where Jinja2 raises, rendering fails with STATUS_INVALID and the reason in one line.
 *
 * Refused by name, since no published template uses them: include, import, extends, block, with,
 * self, recursive loops, loop.cycle() and loop.changed(), varargs and kwargs of macros, / // and **
 * of numbers, ** of arguments, tuples as subscripts, arithmetic with numbers that are not whole,
 * cycler(), joiner(), lipsum(); the filters abs, attr, batch, escape, float, groupby, pprint, random,
 * round, slice, sum and those for web pages and for columns; str's methods count, index, partition,
 * is... and those for columns and encodings; formats beyond %s, %d, {}, {0} and {name}; numbers and
 * escapes that are not decimal or hexadecimal, names beyond ASCII, integers beyond 64 bits, keys of
 * dicts that are neither str nor int, and values that Python prints with an address.
 * A program never changes once compiled, so threads may share it. A rendering takes all its memory
 * from the arena given, within limits, and keeps what it points to there.
 */
#pragma once

#include "serving/jinja/values/value.h"

#define JINJA_SOURCE_BYTES_MAX ((size_t)1 << 20)

struct jinja_program;

/* `name` stands for the template in messages, which begin "name:line: ". The source may vanish
 * afterwards. STATUS_INVALID: no template, or one that uses what is refused; STATUS_TOO_LARGE: it
 * is too large or nested too deeply; STATUS_NO_MEMORY. */
enum status jinja_compile(struct arena *arena, struct bytes source, const char *name,
                          const struct jinja_program **out, struct error *error) MUST_USE;

/* Whether a variable, an attribute, a keyword or a literal of exactly this text occurs. */
bool jinja_uses(const struct jinja_program *program, const char *word);

/* Whether a literal or the template's own text contains this. */
bool jinja_mentions(const struct jinja_program *program, struct bytes text);

struct jinja_limits {
    uint64_t steps;      /* evaluated nodes, and work in proportion to long texts */
    size_t memory_bytes; /* taken from the arena */
    size_t output_bytes;
};

extern const struct jinja_limits jinja_limits_usual;

/* `none` is a value as any other; a variable that is not given is undefined. A later one of the same
 * name wins. */
struct jinja_variable {
    struct bytes name;
    struct value value;
};

struct jinja_rendering {
    struct bytes text;
    const struct text_span *data; /* parts of the text that are data: ordered, apart, not empty */
    size_t data_count;
    uint64_t steps; /* that it took */
};

/* `unix_time` is what strftime_now tells, in UTC. STATUS_INVALID: Jinja2 would raise, or it is
 * refused; STATUS_TOO_LARGE: a limit; STATUS_NO_MEMORY. */
enum status jinja_render(const struct jinja_program *program,
                         const struct jinja_variable *variables, size_t variable_count,
                         const struct jinja_limits *limits, int64_t unix_time, struct arena *arena,
                         struct jinja_rendering *out, struct error *error) MUST_USE;
