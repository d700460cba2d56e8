/* SPDX-License-Identifier: Apache-2.0
 * Regular expressions (PCRE2 behind it) over UTF-8 with Unicode classes, compiled to machine code
 * where the machine allows it. The compiled pattern is immutable and may be shared by threads; each
 * thread brings its own pattern_scratch. Finding allocates nothing.
 *
 * Dialect: that of the patterns in tokenizer.json (Oniguruma) as far as PCRE2 shares it: \s, \d, \w
 * and \p{…} are Unicode's, ^ and $ match at line ends, a line ends with LF.
 */
#ifndef BASE_PATTERN_H
#define BASE_PATTERN_H

#include "base/arena.h"

struct pattern;
struct pattern_scratch;

/* Compiles `text` (a regular expression, or plain text if `literal`) into memory of the arena.
 * STATUS_UNSUPPORTED with the place and reason when it is no pattern. `name` stands for it in
 * messages. Machine code lies in memory of PCRE2's own, which pattern_close gives back. */
enum status pattern_open(struct arena *arena, struct bytes text, bool literal, const char *name,
                         struct pattern **out, struct error *error) MUST_USE;
void pattern_close(struct pattern *pattern);

/* NULL when the arena is out of memory. Lives and dies with the arena. */
struct pattern_scratch *pattern_scratch_create(struct arena *arena);

enum pattern_result {
    PATTERN_FOUND,
    PATTERN_ABSENT,
    PATTERN_GAVE_UP, /* too much backtracking */
    PATTERN_RESULT_COUNT
};

/* First match that starts at or after `from` (a character's start). `subject` must be valid UTF-8;
 * anything else is a bug. The outs are set only with PATTERN_FOUND; a match may be empty. */
enum pattern_result pattern_find(const struct pattern *pattern, struct pattern_scratch *scratch,
                                 struct bytes subject, size_t from, size_t *start_out,
                                 size_t *end_out);

#endif
