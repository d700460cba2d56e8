/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/fim.h"

#include "base/check.h"

struct fim_format {
    const char *before_prompt, *before_suffix, *at_end;
};

static bool has_token(const struct tokenizer *tokenizer, const char *text) {
    uint32_t id;
    return tokenizer_find_added(tokenizer, bytes_of(text), &id);
}

/* Finds the model's FIM format. NULL: it has none. */
static const struct fim_format *fim_form_of(const struct tokenizer *tokenizer) {
    static const struct fim_format forms[] = {
        {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"},
        {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(forms); i++)
        if (has_token(tokenizer, forms[i].before_prompt) &&
            has_token(tokenizer, forms[i].before_suffix) && has_token(tokenizer, forms[i].at_end))
            return &forms[i];
    return NULL;
}

enum status fim_write(const struct tokenizer *tokenizer, struct bytes prompt, struct bytes suffix,
                      struct arena *arena, struct fim *out) {
    const struct fim_format *form = fim_form_of(tokenizer);
    if (!form) return STATUS_UNSUPPORTED;
    const struct bytes parts[] = {bytes_of(form->before_prompt), prompt,
                                  bytes_of(form->before_suffix), suffix, bytes_of(form->at_end)};
    struct text_span *spans = arena_take(arena, 2 * sizeof *spans);
    size_t total = 0, used = 0, span_count = 0;
    for (size_t i = 0; i < ARRAY_COUNT(parts); i++)
        total += parts[i].count;
    char *text = arena_take(arena, total);
    if (!text || !spans) return STATUS_NO_MEMORY;
    for (size_t i = 0; i < ARRAY_COUNT(parts); i++) {
        if (parts[i].count) memcpy(text + used, parts[i].data, parts[i].count);
        if (i % 2 && parts[i].count) /* prompt and suffix */
            spans[span_count++] =
                (struct text_span){(uint32_t)used, (uint32_t)(used + parts[i].count)};
        used += parts[i].count;
    }
    *out = (struct fim){{text, total}, {spans, span_count}};
    return STATUS_OK;
}
