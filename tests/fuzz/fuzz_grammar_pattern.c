/* SPDX-License-Identifier: Apache-2.0
 * Patterns of any bytes: an automaton or a reason, for bounded work; and texts behind a byte 0xFF,
 * which a pattern and what it makes of itself in a group, and what it leaves out, agree about.
 */
#include <stdint.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/utf8.h"
#include "parts.h"
#include "serving/grammar/automata/automaton.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ARENA_BYTES ((size_t)32 << 20)
#define PATTERN_BYTES_MAX 4096

static struct arena arena, scratch;

static void prepare(void) {
    char *memory = malloc(2 * ARENA_BYTES);
    check(memory != NULL);
    arena_over(&arena, memory, ARENA_BYTES);
    arena_over(&scratch, memory + ARENA_BYTES, ARENA_BYTES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char grouped[PATTERN_BYTES_MAX + 8];
    struct bytes rest = {(const char *)data, size};
    const struct automaton *automaton = NULL, *same = NULL, *all = NULL, *others = NULL;
    struct error error = {""};
    if (!arena.start) prepare();
    arena_clear(&arena);
    struct automaton_work work = {&arena, &scratch, 2000, 2000000};
    struct bytes pattern = next_part(&rest);
    if (pattern.count > PATTERN_BYTES_MAX) pattern.count = PATTERN_BYTES_MAX;
    enum status status = automaton_of_pattern(&work, pattern, &automaton, &error);
    check(status == STATUS_OK || error.text[0]);
    check(status == STATUS_OK || status == STATUS_INVALID || status == STATUS_UNSUPPORTED ||
          status == STATUS_TOO_LARGE);
    if (status) return 0;
    memcpy(grouped, "(?:", 3);
    memcpy(grouped + 3, pattern.data, pattern.count);
    memcpy(grouped + 3 + pattern.count, ")", 1);
    struct bytes group = {grouped, pattern.count + 4};
    work.steps_left = 8000000;
    bool grouping = !automaton_of_pattern(&work, group, &same, &error);
    if (automaton_of_lengths(&work, 0, UINT32_MAX, &all) ||
        automaton_combine(&work, AUTOMATON_WITHOUT, all, automaton, &others))
        return 0;
    bool valid = utf8_valid_prefix(rest) == rest.count;
    bool in = automaton_accepts(automaton, rest, NULL);
    check(valid || !in);
    check(!grouping || automaton_accepts(same, rest, NULL) == in);
    check(automaton_accepts(others, rest, NULL) == (valid && !in));
    return 0;
}
