/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/simulator/simulator_words.h"

#include "base/byte_level.h"
#include "base/check.h"
#include "base/format.h"
#include "serving/text/tokenizer.h"

#define OWN_BLOCK ((uint64_t)1 << 63) /* marks the ids of blocks that no other prompt has */

void simulator_words_prompt(const struct simulator_request *request, uint64_t number,
                            uint32_t vocab, uint32_t *tokens_out) {
    uint32_t at = 0;
    for (uint32_t block = 0; block < request->block_count; block++) {
        uint64_t name = hash_mix(request->blocks[block] + 1) & ~OWN_BLOCK;
        for (uint32_t i = 0; i < request->block_tokens && at < request->prompt_tokens; i++)
            tokens_out[at++] = simulator_words_token(name + i, vocab);
    }
    uint64_t own = hash_mix(number + 1) | OWN_BLOCK;
    for (; at < request->prompt_tokens; at++)
        tokens_out[at] = simulator_words_token(own + at, vocab);
}

/* ---- the tokenizer ---- */

#define JSON_BYTES ((size_t)16 << 10)

size_t simulator_words_bytes(void) {
    return tokenizer_arena_bytes(JSON_BYTES) + tokenizer_open_scratch_bytes(JSON_BYTES) +
           JSON_BYTES + 64;
}

static size_t write_json(char *out) {
    size_t used = format_text(
        out, JSON_BYTES, "%s",
        "{\"decoder\":{\"type\":\"ByteLevel\"},\"pre_tokenizer\":{\"type\":\"ByteLevel\","
        "\"add_prefix_space\":false,\"use_regex\":false},\"added_tokens\":[],"
        "\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{");
    for (uint32_t byte = 0; byte < 256; byte++)
        used += format_text(out + used, JSON_BYTES - used, "%s\"\\u%04x\":%u", byte ? "," : "",
                            byte_level_spelled((uint8_t)byte), byte);
    return used + format_text(out + used, JSON_BYTES - used, "}}}");
}

enum status simulator_words_open(struct arena *arena, struct tokenizer **out, struct error *error) {
    struct arena lasting, scratch;
    size_t lasting_bytes = tokenizer_arena_bytes(JSON_BYTES);
    size_t scratch_bytes = tokenizer_open_scratch_bytes(JSON_BYTES);
    void *memory = arena_take(arena, lasting_bytes), *work = arena_take(arena, scratch_bytes);
    char *json = arena_take(arena, JSON_BYTES);
    if (!memory || !work || !json)
        return error_set(error, STATUS_NO_MEMORY, "twin: no memory for the tokenizer");
    arena_over(&lasting, memory, lasting_bytes);
    arena_over(&scratch, work, scratch_bytes);
    return tokenizer_open(&lasting, &scratch, (struct bytes){json, write_json(json)}, "the twin's",
                          out, error);
}

void simulator_words_close(struct tokenizer *tokenizer) {
    tokenizer_close(tokenizer);
}
