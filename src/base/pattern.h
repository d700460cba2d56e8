/* SPDX-License-Identifier: Apache-2.0
 * Regular expressions (PCRE2) over UTF-8 with Unicode classes, compiled to machine code where the
 * CPU supports it. A compiled pattern is immutable and may be shared by threads. Each thread has
 * its own pattern_scratch. Searching allocates nothing.
 *
 * The dialect is that of the patterns in tokenizer.json (Oniguruma), as far as PCRE2 shares it: \s,
 * \d, \w and \p{…} are Unicode's, ^ and $ match at line ends, and a line ends with LF.
 */
#pragma once

#include "base/arena.h"

struct pattern;
struct pattern_scratch;

/* Compiles `text` (a regular expression, or plain text if `literal`) into memory of the arena.
 * Returns STATUS_UNSUPPORTED with position and reason if it is not a valid pattern. Messages use
 * `name` for it. PCRE2 allocates the machine code; pattern_close frees it. */
enum status pattern_open(struct arena *arena, struct bytes text, bool literal, const char *name,
                         struct pattern **out, struct error *error) MUST_USE;
void pattern_close(struct pattern *pattern);

/* Returns NULL if the arena is out of memory. The scratch is freed with the arena. */
struct pattern_scratch *pattern_scratch_create(struct arena *arena);

enum pattern_result {
    PATTERN_FOUND,
    PATTERN_ABSENT,
    PATTERN_GAVE_UP, /* too much backtracking */
    PATTERN_RESULT_COUNT
};

/* Finds the first match that starts at or after `from` (a character boundary). `subject` must be
 * valid UTF-8. The outputs are set only with PATTERN_FOUND; a match may be empty. */
enum pattern_result pattern_find(const struct pattern *pattern, struct pattern_scratch *scratch,
                                 struct bytes subject, size_t from, size_t *start_out,
                                 size_t *end_out);
