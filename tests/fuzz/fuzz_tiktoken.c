/* SPDX-License-Identifier: Apache-2.0
 * tiktoken.model, tokenizer_config.json and texts. An input is cut at each byte 0xFF into the model
 * file, the configuration and a text. A model file that starts with '+' has the 256 lines of the
 * bytes before its own. Whatever the files are: an error that names one of them, or a tokenizer
 * that gives back the text.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/utf8.h"
#include "parts.h"
#include "serving/text/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MODEL_BYTES_MAX ((size_t)1 << 16)
#define TEXT_BYTES_MAX ((size_t)1 << 11)
#define ARENA_BYTES ((size_t)8 << 20)

static char model_room[MODEL_BYTES_MAX], repaired[3 * TEXT_BYTES_MAX], decoded[3 * TEXT_BYTES_MAX];
static uint32_t ids[3 * TEXT_BYTES_MAX];
static void *arena_memory, *scratch_memory;
static struct tokenizer_scratch *encode_scratch; /* of all inputs, as a server's is of all texts */

static struct bytes model_of(struct bytes part) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t count = 0;
    if (part.count == 0 || part.data[0] != '+' || part.count > MODEL_BYTES_MAX / 2) return part;
    for (unsigned byte = 0; byte < 256; byte++)
        count += (size_t)snprintf(model_room + count, MODEL_BYTES_MAX - count, "%c%c== %u\n",
                                  digits[byte >> 2], digits[(byte & 3) << 4], byte);
    memcpy(model_room + count, part.data + 1, part.count - 1);
    return (struct bytes){model_room, count + part.count - 1};
}

static void round_trip(const struct tokenizer *tokenizer, struct bytes text, bool special) {
    size_t count = 0, bytes = 0, repaired_bytes = 0;
    check(!utf8_repair(text, repaired, sizeof repaired, &repaired_bytes));
    check(!tokenizer_encode(tokenizer, encode_scratch, text,
                            special ? plain_text_nowhere : plain_text_everywhere, ids,
                            ARRAY_COUNT(ids), &count));
    check(count <= repaired_bytes);
    check(tokenizer_count_min(tokenizer, (struct bytes){repaired, repaired_bytes}) <= count);
    check(!tokenizer_decode(tokenizer, ids, count, false, decoded, sizeof decoded, &bytes));
    check(bytes == repaired_bytes && !memcmp(decoded, repaired, bytes));
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
    struct tiktoken_files files = {.name = "f.model", .config_name = "f.json"};
    files.model = model_of(next_part(&rest));
    files.config = next_part(&rest);
    if (files.config.count == 0) files.config.data = NULL;
    enum status status = tokenizer_open_tiktoken(&arena, &scratch, files, &tokenizer, &error);
    if (status) {
        check((!strncmp(error.text, "f.model:", 8) || !strncmp(error.text, "f.json:", 7)) &&
              !tokenizer);
        return 0;
    }
    if (rest.count > TEXT_BYTES_MAX) rest.count = TEXT_BYTES_MAX;
    round_trip(tokenizer, rest, true);
    round_trip(tokenizer, rest, false);
    tokenizer_close(tokenizer);
    return 0;
}
