/* SPDX-License-Identifier: Apache-2.0
 * What the tests of chat templates share: templates that are opened from a text or a file, and
 * renderings of requests written as JSON.
 */
#pragma once

#include "serving/text/chat_template.h"
#include "support.h"

static struct error error;

static inline struct arena *chat_scratch(void) {
    static struct arena *scratch;
    if (!scratch) scratch = test_arena((size_t)48 << 20);
    arena_clear(scratch);
    return scratch;
}

static inline enum status opens(struct bytes config, struct bytes own, struct chat_template *out) {
    struct chat_file file = {config, "c.json"}, template = {own, "t.jinja"};
    memset(&error, 0, sizeof error);
    return chat_template_open(test_arena(4 << 20), chat_scratch(),
                              (struct chat_files){.config = file, .own = template}, out, &error);
}

/* A template that has "<s>" and "</s>" for its tokens. */
static inline struct chat_template opened(const char *source) {
    struct chat_template found;
    if (opens(BYTES_LITERAL("{\"bos_token\":\"<s>\",\"eos_token\":\"</s>\"}"), bytes_of(source),
              &found))
        fail_msg("%s", error.text);
    return found;
}

/* {"messages": ..., "tools": ..., "documents": ..., "variables": ...}, with a prompt. */
static inline struct chat_ask asked(const char *request) {
    const struct tree *root = test_tree(bytes_of(request));
    return (struct chat_ask){.messages = tree_member(root, "messages"),
                             .tools = tree_member(root, "tools"),
                             .documents = tree_member(root, "documents"),
                             .variables = tree_member(root, "variables"),
                             .prompts = true};
}

static inline enum status renders(const struct chat_template *chat_template,
                                  const struct chat_ask *ask, struct chat_rendering *out) {
    memset(&error, 0, sizeof error);
    return chat_template_render(chat_template, ask, chat_scratch(), out, &error);
}

static inline struct chat_rendering expect(const struct chat_template *chat_template,
                                           const struct chat_ask *ask, struct bytes expected) {
    struct chat_rendering rendering;
    if (renders(chat_template, ask, &rendering)) fail_msg("%s", error.text);
    if (!bytes_equal(rendering.text, expected))
        fail_msg("gives %.*s\nnot   %.*s", (int)rendering.text.count, rendering.text.data,
                 (int)expected.count, expected.data);
    return rendering;
}

/* As many messages as a request may hold, a third of them calls and a third their results. */
static inline struct chat_ask long_conversation(uint32_t count) {
    static char text[4 << 20];
    size_t used = (size_t)snprintf(text, sizeof text,
                                   "{\"messages\":[{\"role\":\"user\","
                                   "\"content\":\"q\"}");
    for (uint32_t i = 1; i < count; i++)
        used += (size_t)snprintf(
            text + used, sizeof text - used,
            i % 3 == 1   ? ",{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":"
                           "\"c%u\",\"type\":\"function\",\"function\":{\"name\":\"f\","
                           "\"arguments\":\"{}\"}}]}"
            : i % 3 == 2 ? ",{\"role\":\"tool\",\"tool_call_id\":\"c%u\",\"content\":\"r\"}"
                         : ",{\"role\":\"user\",\"content\":\"q%u\"}",
            i % 3 == 2 ? i - 1 : i);
    snprintf(text + used, sizeof text - used, "]}");
    return asked(text);
}
