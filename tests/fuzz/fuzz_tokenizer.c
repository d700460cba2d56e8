/* SPDX-License-Identifier: Apache-2.0
 * tokenizer.json and texts. An input is cut at each byte 0xFF (which no JSON has). One that starts
 * with
 * '+' gives parts of a file that is well-formed around them: the pre_tokenizer, added_tokens, more
 * of model.vocab (whose first 256 tokens are there already), model.merges, and the text; any other
 * is the file as a whole, and the text. Whatever they are: an error that names the file, or a
 * tokenizer that gives back the text it was given, as a stream and at once.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/utf8.h"
#include "parts.h"
#include "serving/text/token_stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define JSON_BYTES_MAX ((size_t)1 << 17)
#define TEXT_BYTES_MAX ((size_t)1 << 11)
#define ARENA_BYTES ((size_t)8 << 20)

static char json_room[JSON_BYTES_MAX], repaired[3 * TEXT_BYTES_MAX], decoded[3 * TEXT_BYTES_MAX];
static uint32_t ids[3 * TEXT_BYTES_MAX];
static void *arena_memory, *scratch_memory;
static struct tokenizer_scratch *encode_scratch; /* of all inputs, as a server's is of all texts */

static void put(size_t *count, struct bytes text) {
    check(text.count <= JSON_BYTES_MAX - *count);
    memcpy(json_room + *count, text.data, text.count);
    *count += text.count;
}

/* The byte tokens, as members of model.vocab. */
static void put_bytes(size_t *count) {
    for (unsigned byte = 0, next = 256; byte < 256; byte++) {
        bool itself = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
        char text[32];
        int length = snprintf(text, sizeof text, "%s\"\\u%04x\":%u", byte ? "," : "",
                              itself ? byte : next, byte);
        next += !itself;
        put(count, (struct bytes){text, (size_t)length});
    }
}

static void check_frame(const struct prompt_frame *frame) {
    check(frame->front_count <= LIMIT_PROMPT_FRAME && frame->back_count <= LIMIT_PROMPT_FRAME);
    for (uint32_t i = 0; i < frame->front_count; i++)
        check(frame->front[i] < LIMIT_VOCAB);
    for (uint32_t i = 0; i < frame->back_count; i++)
        check(frame->back[i] < LIMIT_VOCAB);
}

static struct bytes json_of(struct bytes *rest) {
    size_t count = 0;
    if (rest->count == 0 || rest->data[0] != '+' || rest->count > JSON_BYTES_MAX / 2)
        return next_part(rest);
    *rest = (struct bytes){rest->data + 1, rest->count - 1};
    put(&count, BYTES_LITERAL("{\"decoder\":{\"type\":\"ByteLevel\"},\"pre_tokenizer\":"));
    put(&count, next_part(rest));
    put(&count, BYTES_LITERAL(",\"added_tokens\":["));
    put(&count, next_part(rest));
    put(&count, BYTES_LITERAL("],\"model\":{\"type\":\"BPE\",\"vocab\":{"));
    put_bytes(&count);
    put(&count, next_part(rest));
    put(&count, BYTES_LITERAL("},\"merges\":["));
    put(&count, next_part(rest));
    put(&count, BYTES_LITERAL("]}}"));
    return (struct bytes){json_room, count};
}

struct gathered {
    size_t count;
};

static void compare(void *context, enum token_stream_part part, struct bytes text) {
    struct gathered *gathered = context;
    check(part == TOKEN_STREAM_CONTENT && text.count > 0);
    check(!memcmp(decoded + gathered->count, text.data, text.count));
    gathered->count += text.count;
}

/* What is encoded decodes to the (repaired) text; added tokens that spell bytes are the exception.
 */
static void round_trip(const struct tokenizer *tokenizer, struct bytes text, bool special) {
    size_t count = 0, bytes = 0, repaired_bytes = 0;
    check(!utf8_repair(text, repaired, sizeof repaired, &repaired_bytes));
    enum status status = tokenizer_encode(tokenizer, encode_scratch, text,
                                          special ? plain_text_nowhere : plain_text_everywhere, ids,
                                          ARRAY_COUNT(ids), &count);
    if (status) {
        check(status == STATUS_TOO_LARGE); /* a pattern gave up */
        return;
    }
    check(count <= repaired_bytes);
    bool spelled = false;
    for (size_t i = 0; i < count; i++)
        spelled |= tokenizer_token_is_added(tokenizer, ids[i]);
    /* an added token that spells bytes may decode to more than it was */
    if (tokenizer_decode(tokenizer, ids, count, false, decoded, sizeof decoded, &bytes)) return;
    check(spelled || (bytes == repaired_bytes && !memcmp(decoded, repaired, bytes)));
    if (tokenizer_decode(tokenizer, ids, count, true, decoded, sizeof decoded, &bytes)) return;
    struct token_stream stream;
    struct gathered gathered = {0};
    token_stream_open(&stream, tokenizer, NULL, TOKEN_STREAM_PLAIN, NULL);
    for (size_t i = 0; i < count; i++)
        check(!token_stream_push(&stream, ids[i], compare, &gathered));
    token_stream_finish(&stream, compare, &gathered);
    check(gathered.count == bytes);
}

static void prepare(void) {
    struct arena arena;
    size_t bytes = tokenizer_scratch_bytes(3 * TEXT_BYTES_MAX);
    void *memory = malloc(bytes);
    arena_memory = malloc(ARENA_BYTES);
    scratch_memory = malloc(ARENA_BYTES);
    check(memory && arena_memory && scratch_memory);
    arena_over(&arena, memory, bytes);
    encode_scratch = tokenizer_scratch_create(&arena, 3 * TEXT_BYTES_MAX);
    check(encode_scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct arena arena, scratch;
    struct error error = {""};
    struct tokenizer *tokenizer = NULL;
    struct bytes rest = {(const char *)data, size};
    if (!arena_memory) prepare();
    arena_over(&arena, arena_memory, ARENA_BYTES);
    arena_over(&scratch, scratch_memory, ARENA_BYTES);
    struct bytes json = json_of(&rest);
    enum status status = tokenizer_open(&arena, &scratch, json, "f.json", &tokenizer, &error);
    if (status) {
        check(!strncmp(error.text, "f.json: ", 8) && !tokenizer);
        return 0;
    }
    check_frame(tokenizer_frame(tokenizer));
    if (rest.count > TEXT_BYTES_MAX) rest.count = TEXT_BYTES_MAX;
    round_trip(tokenizer, rest, true);
    round_trip(tokenizer, rest, false);
    tokenizer_close(tokenizer);
    return 0;
}
