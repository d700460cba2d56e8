/* SPDX-License-Identifier: Apache-2.0
 * tokenizer_config.json with any template: it is one of the known family, or refused in one line
 * that names the file; what is known renders a conversation within its room.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "serving/text/chat_template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ARENA_BYTES ((size_t)4 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static void *arena_memory, *scratch_memory;
    static char text[1 << 16];
    struct arena arena, scratch;
    struct error error = {""};
    struct chat_template found = {0};
    if (!arena_memory) {
        arena_memory = malloc(ARENA_BYTES);
        scratch_memory = malloc(ARENA_BYTES);
        check(arena_memory && scratch_memory);
    }
    arena_over(&arena, arena_memory, ARENA_BYTES);
    arena_over(&scratch, scratch_memory, ARENA_BYTES);
    if (chat_template_open(&arena, &scratch, (struct bytes){(const char *)data, size}, "f.json",
                           &found, &error)) {
        check(!strncmp(error.text, "f.json: ", 8) && !found.present);
        return 0;
    }
    const struct chat_tool_call calls[] = {
        {BYTES_LITERAL("function"), BYTES_LITERAL("f"), BYTES_LITERAL("{}")},
        {BYTES_LITERAL("function"), BYTES_LITERAL("g"), BYTES_LITERAL("{}")},
    };
    const struct chat_message messages[] = {
        {.role = CHAT_SYSTEM, .has_content = true, .content = BYTES_LITERAL("s")},
        {.role = CHAT_USER, .has_content = true, .content = BYTES_LITERAL("u")},
        {.role = CHAT_ASSISTANT, .has_content = true, .content = BYTES_LITERAL("t</think>a")},
        {.role = CHAT_ASSISTANT, .tool_calls = calls, .tool_call_count = ARRAY_COUNT(calls)},
        {.role = CHAT_TOOL, .has_content = true, .content = BYTES_LITERAL("o")},
    };
    struct chat_rendering rendering = {0};
    enum status status = chat_template_render(&found, messages, ARRAY_COUNT(messages), true, text,
                                              sizeof text, &rendering, &error);
    check(status == (!found.present                  ? STATUS_UNSUPPORTED
                     : rendering.count > sizeof text ? STATUS_FULL
                                                     : STATUS_OK));
    return 0;
}
