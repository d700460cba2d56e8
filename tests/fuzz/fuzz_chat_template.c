/* SPDX-License-Identifier: Apache-2.0
 * tokenizer_config.json with any template: it is one of the known family, or refused in one line
 * that names the file; what is known renders a conversation within its room. Behind a byte 0xFF
 * (which no JSON has) come messages, 0xFF between them: a digit for the role (4: an assistant's
 * call), and what it says. Whatever that is, it makes no added token: there are as many as when
 * nobody says anything; and if it holds none, the ids are those of the text.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "parts.h"
#include "serving/text/chat_template.h"
#include "serving/text/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ARENA_BYTES ((size_t)20 << 20)
#define TEXT_BYTES ((size_t)1 << 16)
#define MESSAGES_MAX 16
#define SAID_BYTES_MAX 1024
#define FIRST_ADDED 300

static const char *const added[] = {
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
    for (unsigned i = 0; i < ARRAY_COUNT(added); i++)
        PUT("%s{\"id\":%u,\"content\":\"%s\",\"normalized\":%s}", i ? "," : "", FIRST_ADDED + i,
            added[i], i % 2 ? "true" : "false");
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

struct conversation {
    struct chat_message messages[MESSAGES_MAX];
    struct chat_tool_call calls[MESSAGES_MAX];
    char said[MESSAGES_MAX][3 * SAID_BYTES_MAX];
    size_t count;
};

static void read_conversation(struct bytes rest, struct conversation *out) {
    for (out->count = 0; rest.count > 0 && out->count < MESSAGES_MAX; out->count++) {
        struct bytes part = next_part(&rest), said = {"", 0};
        char *room = out->said[out->count];
        unsigned role = part.count ? (unsigned)(uint8_t)part.data[0] % 8 : 0;
        if (part.count > SAID_BYTES_MAX) part.count = SAID_BYTES_MAX;
        if (part.count > 1) said = (struct bytes){part.data + 1, part.count - 1};
        check(!utf8_repair(said, room, 3 * SAID_BYTES_MAX, &said.count));
        said.data = room;
        out->calls[out->count] = (struct chat_tool_call){said, said, said};
        out->messages[out->count] = (struct chat_message){
            .role = role < CHAT_ROLE_COUNT ? (enum chat_role)role : CHAT_ASSISTANT,
            .has_content = role < 5,
            .content = said,
            .tool_calls = &out->calls[out->count],
            .tool_call_count = role >= CHAT_ROLE_COUNT};
        if (!out->messages[out->count].has_content)
            out->messages[out->count].content = (struct bytes){"", 0};
    }
}

static void silence(struct conversation *conversation) {
    for (size_t i = 0; i < conversation->count; i++) {
        conversation->messages[i].content.count = 0;
        conversation->calls[i] = (struct chat_tool_call){{"", 0}, {"", 0}, {"", 0}};
    }
}

/* The added tokens among the ids of a rendering. False: a pattern gave up. */
static bool count_added(const struct chat_rendering *rendering, bool specials, uint32_t *ids,
                        size_t *id_count, size_t *added_count) {
    struct plain_text plain = {rendering->contents, specials ? 0 : rendering->content_count};
    *added_count = *id_count = 0;
    enum status status = tokenizer_encode(tokenizer, encode_scratch,
                                          (struct bytes){rendering->text, rendering->count}, plain,
                                          ids, TEXT_BYTES, id_count);
    if (status) return false;
    for (size_t i = 0; i < *id_count; i++)
        *added_count += tokenizer_token_is_added(tokenizer, ids[i]);
    return true;
}

static void check_contents(const struct chat_template *chat_template,
                           struct conversation *conversation, struct chat_rendering *rendering) {
    static uint32_t plain_ids[TEXT_BYTES], ids[TEXT_BYTES];
    size_t plain_count = 0, count = 0, plain_added = 0, all_added = 0;
    struct error error;
    if (utf8_valid_prefix((struct bytes){rendering->text, rendering->count}) < rendering->count)
        return; /* bos or eos is none */
    if (!count_added(rendering, false, plain_ids, &plain_count, &plain_added) ||
        !count_added(rendering, true, ids, &count, &all_added))
        return;
    check(plain_added <= all_added);
    bool straddles = false; /* a longer token that a message completes */
    for (size_t i = 0; i < count; i++)
        straddles |= ids[i] == FIRST_ADDED + ARRAY_COUNT(added) - 1;
    if (plain_added == all_added && !straddles)
        check(plain_count == count && !memcmp(plain_ids, ids, count * sizeof *ids));
    silence(conversation);
    check(!chat_template_render(chat_template, conversation->messages, conversation->count, true,
                                rendering, &error));
    check(rendering->content_count == 0);
    check(count_added(rendering, true, ids, &count, &all_added));
    check(plain_added == all_added);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char text[TEXT_BYTES];
    static struct text_span contents[4 * MESSAGES_MAX];
    static struct conversation conversation;
    struct arena arena, scratch;
    struct error error = {""};
    struct chat_template found = {0};
    struct bytes rest = {(const char *)data, size};
    if (!arena_memory) prepare();
    arena_over(&arena, arena_memory, ARENA_BYTES);
    arena_over(&scratch, scratch_memory, ARENA_BYTES);
    if (chat_template_open(&arena, &scratch, next_part(&rest), "f.json", &found, &error)) {
        check(!strncmp(error.text, "f.json: ", 8) && !found.present);
        return 0;
    }
    read_conversation(rest, &conversation);
    struct chat_rendering rendering = {.text = text,
                                       .capacity = sizeof text,
                                       .contents = contents,
                                       .content_capacity = ARRAY_COUNT(contents)};
    enum status status = chat_template_render(&found, conversation.messages, conversation.count,
                                              true, &rendering, &error);
    check(rendering.content_count <= ARRAY_COUNT(contents));
    if (status == STATUS_INVALID) return 0; /* a message without content */
    check(status == (!found.present                  ? STATUS_UNSUPPORTED
                     : rendering.count > sizeof text ? STATUS_FULL
                                                     : STATUS_OK));
    if (!status) check_contents(&found, &conversation, &rendering);
    return 0;
}
