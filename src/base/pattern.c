/* SPDX-License-Identifier: Apache-2.0
 * PCRE2 allocates memory through callbacks, which use an arena and never free. The only exception
 * is machine code, which PCRE2 maps itself and pattern_close frees.
 */
#include "base/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/check.h"

/* Only the interpreter, used where machine code is forbidden, needs this memory for
 * backtracking. */
#define SCRATCH_ARENA_BYTES ((size_t)256 << 10)
#define HEAP_LIMIT_KIB 64

struct pattern {
    pcre2_code *code;
    bool compiled; /* compiled to machine code; without it, matching is slower */
};

struct pattern_scratch {
    struct arena arena; /* memory of PCRE2 during a match */
    pcre2_match_data *match;
    pcre2_match_context *context;
};

static void *pattern_take(size_t bytes, void *arena) {
    return arena_take(arena, bytes);
}

static void pattern_drop(void *memory, void *arena) {
}

enum status pattern_open(struct arena *arena, struct bytes text, bool literal, const char *name,
                         struct pattern **out, struct error *error) {
    struct pattern *pattern = arena_take_zeroed(arena, sizeof *pattern);
    pcre2_general_context *general =
        pcre2_general_context_create(pattern_take, pattern_drop, arena);
    pcre2_compile_context *context = general ? pcre2_compile_context_create(general) : NULL;
    if (!pattern || !context)
        return error_set(error, STATUS_NO_MEMORY, "%s: no memory to compile the pattern", name);
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    pcre2_set_parens_nest_limit(context, 64);
    uint32_t options =
        PCRE2_UTF |
        (literal ? PCRE2_LITERAL : PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C);
    int code = 0;
    PCRE2_SIZE offset = 0;
    pattern->code =
        pcre2_compile((PCRE2_SPTR)text.data, text.count, options, &code, &offset, context);
    if (!pattern->code) {
        char reason[160];
        pcre2_get_error_message(code, (PCRE2_UCHAR *)reason, sizeof reason);
        return error_set(error, STATUS_UNSUPPORTED, "%s: pattern cannot be used: at byte %zu: %s",
                         name, offset, reason);
    }
    size_t machine_code_bytes = 0;
    (void)pcre2_jit_compile(pattern->code, PCRE2_JIT_COMPLETE);
    (void)pcre2_pattern_info(pattern->code, PCRE2_INFO_JITSIZE, &machine_code_bytes);
    pattern->compiled = machine_code_bytes > 0;
    *out = pattern;
    return STATUS_OK;
}

void pattern_close(struct pattern *pattern) {
    pcre2_code_free(pattern->code);
    pattern->code = NULL;
}

struct pattern_scratch *pattern_scratch_create(struct arena *arena) {
    struct pattern_scratch *scratch = arena_take_zeroed(arena, sizeof *scratch);
    void *memory = scratch ? arena_take(arena, SCRATCH_ARENA_BYTES) : NULL;
    if (!memory) return NULL;
    arena_over(&scratch->arena, memory, SCRATCH_ARENA_BYTES);
    pcre2_general_context *general =
        pcre2_general_context_create(pattern_take, pattern_drop, &scratch->arena);
    check(general);
    scratch->match = pcre2_match_data_create(1, general);
    scratch->context = pcre2_match_context_create(general);
    check(scratch->match && scratch->context);
    pcre2_set_heap_limit(scratch->context, HEAP_LIMIT_KIB);
    return scratch;
}

enum pattern_result pattern_find(const struct pattern *pattern, struct pattern_scratch *scratch,
                                 struct bytes subject, size_t from, size_t *start_out,
                                 size_t *end_out) {
    check(from <= subject.count);
    PCRE2_SPTR text = (PCRE2_SPTR)subject.data;
    int result = pattern->compiled
                     ? pcre2_jit_match(pattern->code, text, subject.count, from, PCRE2_NO_UTF_CHECK,
                                       scratch->match, scratch->context)
                     : pcre2_match(pattern->code, text, subject.count, from, PCRE2_NO_UTF_CHECK,
                                   scratch->match, scratch->context);
    if (result == PCRE2_ERROR_NOMATCH) return PATTERN_ABSENT;
    if (result < 0) return PATTERN_GAVE_UP;
    const PCRE2_SIZE *place = pcre2_get_ovector_pointer(scratch->match);
    if (place[0] > place[1]) return PATTERN_GAVE_UP; /* possible with \K in a lookahead */
    *start_out = place[0];
    *end_out = place[1];
    return PATTERN_FOUND;
}
