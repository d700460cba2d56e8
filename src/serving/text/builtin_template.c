/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/text/builtin_template.h"

#include "base/check.h"

#define MARKS_MAX 4

#define BUILTINS(X)                                                                                \
    X(v3, "deepseek-v3", "DeepSeek-V3")                                                            \
    X(v3_0324, "deepseek-v3-0324", "DeepSeek-V3-0324")                                             \
    X(r1, "deepseek-r1", "DeepSeek-R1, R1-Distill")                                                \
    X(r1_0528, "deepseek-r1-0528", "DeepSeek-R1-0528")                                             \
    X(v31, "deepseek-v3.1", "DeepSeek-V3.1, V3.1-Terminus, V3.2-Exp")                              \
    X(v32, "deepseek-v3.2", "DeepSeek-V3.2, which comes without a template")                       \
    X(kimi_k2, "kimi-k2", "for calls alone, before the first template of Kimi K2")                 \
    X(hermes, "hermes", "for tools alone, before any other template")

enum builtin {
#define BUILTIN_NUMBER(symbol, name, about) BUILTIN_##symbol,
    BUILTINS(BUILTIN_NUMBER)
#undef BUILTIN_NUMBER
        BUILTIN_COUNT
};
_Static_assert(BUILTIN_COUNT == BUILTIN_TEMPLATE_COUNT, "as many as there are");

#define BUILTIN_SYMBOLS(symbol, name, about)                                                       \
    extern const char builtin_##symbol##_start[], builtin_##symbol##_end[];
BUILTINS(BUILTIN_SYMBOLS)
#undef BUILTIN_SYMBOLS

struct builtin_template builtin_template_at(size_t index) {
    static const struct {
        const char *name, *about, *start, *end;
    } rows[] = {
#define BUILTIN_ROW(symbol, name, about)                                                           \
    {name, about, builtin_##symbol##_start, builtin_##symbol##_end},
        BUILTINS(BUILTIN_ROW)
#undef BUILTIN_ROW
    };
    check(index < ARRAY_COUNT(rows));
    struct bytes text = {rows[index].start, (size_t)(rows[index].end - rows[index].start)};
    return (struct builtin_template){rows[index].name, rows[index].about, text,
                                     index >= BUILTIN_kimi_k2};
}

bool builtin_template_find(struct bytes name, struct builtin_template *out) {
    for (size_t i = 0; i < BUILTIN_COUNT; i++) {
        struct builtin_template found = builtin_template_at(i);
        if (found.is_front || !bytes_equal(name, bytes_of(found.name))) continue;
        *out = found;
        return true;
    }
    return false;
}

bool builtin_template_stand_in(struct bytes architecture, struct builtin_template *out) {
    if (!bytes_equal(architecture, BYTES_LITERAL("DeepseekV32ForCausalLM"))) return false;
    *out = builtin_template_at(BUILTIN_v32);
    return true;
}

/* The first row whose marks all occur in the template is chosen. */
bool builtin_template_suit(const struct jinja_program *own, bool prints_tools,
                           struct builtin_template *out) {
#define CALLS "<｜tool▁calls▁begin｜>"
    static const struct {
        const char *texts[MARKS_MAX]; /* in literals, or outside of tags */
        const char *name;             /* a variable or an attribute; NULL: none */
        enum builtin builtin;
        bool prints_tools;
    } rows[] = {
        {{CALLS, "```json", "<｜Assistant｜><think>"}, NULL, BUILTIN_r1, false},
        {{CALLS, "```json", "</think>"}, "is_last_user", BUILTIN_r1_0528, false},
        {{CALLS, "```json"}, "is_last_user", BUILTIN_v3_0324, false},
        {{CALLS, "```json"}, NULL, BUILTIN_v3, false},
        {{CALLS}, NULL, BUILTIN_v31, false},
        {{"im_middle"}, NULL, BUILTIN_kimi_k2, true},
        {{NULL}, NULL, BUILTIN_hermes, false},
    };
#undef CALLS
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        bool suits = rows[i].prints_tools == prints_tools &&
                     (!rows[i].name || jinja_uses(own, rows[i].name));
        for (size_t k = 0; k < MARKS_MAX && rows[i].texts[k]; k++)
            suits = suits && jinja_mentions(own, bytes_of(rows[i].texts[k]));
        if (!suits) continue;
        *out = builtin_template_at(rows[i].builtin);
        return true;
    }
    return false;
}
