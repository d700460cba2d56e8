/* SPDX-License-Identifier: Apache-2.0
 * tokenizer_config.json with any template: it opens, or is refused in one line that names the file.
 * Behind a byte 0xFF (which no JSON has) comes a request: {"messages", "tools", "documents",
 * "variables"}, and "thinking" and "continues" for the rest. Whatever is said makes no added token:
 * there are as many as where all that is said is blotted out.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/utf8.h"
#include "parts.h"
#include "serving/text/chat_template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ARENA_BYTES ((size_t)64 << 20)
#define TEXT_BYTES ((size_t)1 << 16)
#define FIRST_ADDED 300

static const char *const added_texts[] = {
    "<｜begin▁of▁sentence｜>",
    "<｜end▁of▁sentence｜>",
    "<｜User｜>",
    "<｜Assistant｜>",
    "<think>",
    "</think>",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁end｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁call▁end｜>",
    "<｜tool▁sep｜>",
    "<｜tool▁outputs▁begin｜>",
    "<｜tool▁outputs▁end｜>",
    "<｜tool▁output▁begin｜>",
    "<｜tool▁output▁end｜>",
    "</think>and a longer one",
};

static struct tokenizer *tokenizer;
static struct tokenizer_scratch *encode_scratch;
static void *arena_memory, *scratch_memory;

static void *take(size_t bytes) {
    void *memory = malloc(bytes);
    check(memory != NULL);
    return memory;
}

/* A tokenizer of the 256 bytes and the templates' tokens. */
static void prepare(void) {
    static char json[1 << 16];
    size_t count = 0;
    struct arena arena, scratch;
    struct error error;
    arena_memory = take(ARENA_BYTES);
    scratch_memory = take(ARENA_BYTES);
#define PUT(...) count += (size_t)snprintf(json + count, sizeof json - count, __VA_ARGS__)
    PUT("{\"decoder\":{\"type\":\"ByteLevel\"},\"pre_tokenizer\":{\"type\":\"ByteLevel\","
        "\"add_prefix_space\":false},\"added_tokens\":[");
    for (unsigned i = 0; i < ARRAY_COUNT(added_texts); i++)
        PUT("%s{\"id\":%u,\"content\":\"%s\",\"normalized\":%s}", i ? "," : "", FIRST_ADDED + i,
            added_texts[i], i % 2 ? "true" : "false");
    PUT("],\"model\":{\"type\":\"BPE\",\"merges\":[\"< |\",\"a b\"],\"vocab\":{");
    for (unsigned byte = 0, next = 256; byte < 256; byte++) {
        bool itself = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
        PUT("\"\\u%04x\":%u,", itself ? byte : next, byte);
        next += !itself;
    }
    PUT("\"<|\":256,\"ab\":257}}}");
    arena_over(&scratch, scratch_memory, ARENA_BYTES);
    size_t bytes = tokenizer_arena_bytes(count) + tokenizer_scratch_bytes(TEXT_BYTES);
    arena_over(&arena, take(bytes), bytes);
    check(
        !tokenizer_open(&arena, &scratch, (struct bytes){json, count}, "json", &tokenizer, &error));
    encode_scratch = tokenizer_scratch_create(&arena, TEXT_BYTES);
    check(encode_scratch != NULL);
}

/* The added tokens of a rendering; SIZE_MAX: a pattern gave up. */
static size_t count_added(struct bytes text, struct plain_text plain) {
    static uint32_t ids[TEXT_BYTES];
    size_t id_count, count = 0;
    if (tokenizer_encode(tokenizer, encode_scratch, text, plain, ids, TEXT_BYTES, &id_count))
        return SIZE_MAX;
    for (size_t i = 0; i < id_count; i++)
        count += tokenizer_token_is_added(tokenizer, ids[i]);
    return count;
}

static void check_contents(const struct chat_rendering *rendering) {
    static char blotted[TEXT_BYTES];
    struct bytes text = rendering->text;
    size_t at = 0;
    for (size_t i = 0; i < rendering->content_count; i++) {
        struct text_span span = rendering->contents[i];
        check(span.start >= at && span.end > span.start && span.end <= text.count);
        at = span.end;
    }
    check(utf8_valid_prefix(text) == text.count);
    if (text.count > TEXT_BYTES) return;
    if (text.count) memcpy(blotted, text.data, text.count);
    for (size_t i = 0; i < rendering->content_count; i++)
        for (size_t k = rendering->contents[i].start; k < rendering->contents[i].end; k++)
            blotted[k] = 1;
    size_t made =
        count_added(text, (struct plain_text){rendering->contents, rendering->content_count});
    size_t own = count_added((struct bytes){blotted, text.count}, plain_text_nowhere);
    check(made == SIZE_MAX || own == SIZE_MAX || made == own);
}

static bool read_ask(struct arena *arena, struct bytes json, struct chat_ask *out) {
    const struct tree *root;
    struct error error;
    int64_t thinking = 0;
    if (tree_parse(arena, json, "request", &root, &error)) return false;
    const struct tree *messages = tree_member(root, "messages");
    const struct tree *tools = tree_member(root, "tools");
    if (!messages || tree_kind(messages) != TREE_ARRAY) return false;
    *out = (struct chat_ask){.messages = messages,
                             .tools = tools,
                             .documents = tree_member(root, "documents"),
                             .variables = tree_member(root, "variables"),
                             .effort = {"", 0},
                             .unix_time = 1753531200,
                             .prompts = true};
    (void)tree_get_integer(tree_member(root, "thinking"), &thinking);
    out->thinking = (enum chat_thinking)((uint64_t)thinking % 3);
    (void)tree_get_string(tree_member(root, "effort"), &out->effort);
    (void)tree_get_bool(tree_member(root, "continues"), &out->continues);
    out->continues = out->continues && tree_count(messages) > 0;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct arena arena, scratch;
    struct error error = {""};
    struct chat_template found = {0};
    struct chat_rendering rendering;
    struct chat_ask ask;
    struct bytes rest = {(const char *)data, size};
    if (!arena_memory) prepare();
    arena_over(&arena, arena_memory, ARENA_BYTES);
    arena_over(&scratch, scratch_memory, ARENA_BYTES);
    struct chat_files files = {.config = {next_part(&rest), "f.json"}, .brings_tools = true};
    if (!files.config.text.data) files.config.text = (struct bytes){"", 0};
    if (chat_template_open(&arena, &scratch, files, &found, &error)) {
        check(!strncmp(error.text, "f.json:", 7) && !found.present && !strchr(error.text, '\n'));
        return 0;
    }
    arena_clear(&scratch);
    if (!read_ask(&scratch, rest, &ask)) return 0;
    enum status status = chat_template_render(&found, &ask, &scratch, &rendering, &error);
    check((status == STATUS_UNSUPPORTED) == !found.present);
    if (status) {
        check(error.text[0] && !strchr(error.text, '\n'));
        return 0;
    }
    check_contents(&rendering);
    return 0;
}
