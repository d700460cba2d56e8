/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/load_body.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/json_writer.h"
#include "base/random.h"

#define BYTES_PER_TOKEN 12 /* the longest id or word, and the separator */

/* Words that are one token in most tokenizers. */
static const char *const words[] = {
    "time",  "year",   "people", "way",    "day",    "man",     "thing", "woman",  "life",  "child",
    "world", "school", "state",  "family", "group",  "country", "hand",  "part",   "place", "case",
    "week",  "work",   "night",  "point",  "home",   "water",   "room",  "mother", "area",  "money",
    "story", "fact",   "month",  "lot",    "right",  "study",   "book",  "eye",    "job",   "word",
    "side",  "kind",   "head",   "house",  "friend", "father",  "power", "hour",   "game",  "line",
    "end",   "member", "law",    "car",    "city",   "name",    "team",  "minute", "idea",  "body",
    "back",  "parent", "face",   "door",
};

const char *load_body_path(const struct load_options *options) {
    return options->chat ? "/v1/chat/completions" : "/v1/completions";
}

enum { DRAW_OWN = 0x10AD, DRAW_BLOCK = 0xB10C };

/* 32 random bits for a position in a prompt, or in a shared block. */
static uint32_t load_body_draw(uint64_t seed, uint32_t kind, uint64_t what, uint32_t place) {
    uint32_t counter[4] = {place, (uint32_t)what, (uint32_t)(what >> 32), kind};
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)}, out[4];
    random_philox(counter, key, out);
    return out[0];
}

/* Draws the token at `place`: from its block's id if it has one, otherwise from the request's
 * number. */
static uint32_t draw_token(const struct load_options *options, const struct load_request *request,
                           uint64_t number, uint32_t place) {
    uint32_t block = request->block_count ? place / request->block_tokens : 0;
    if (block < request->block_count)
        return load_body_draw(options->seed, DRAW_BLOCK, request->blocks[block],
                              place % request->block_tokens);
    return load_body_draw(options->seed, DRAW_OWN, number, place);
}

static void load_body_write_prompt(struct json_writer *writer, const struct load_options *options,
                                   const struct load_request *request, uint64_t number) {
    bool text = options->chat || options->text_prompts;
    uint32_t span = options->token_high - options->token_low;
    json_writer_text(writer, text ? "\"" : "[");
    for (uint32_t i = 0; i < request->prompt_tokens; i++) {
        uint32_t random = draw_token(options, request, number, i);
        if (i) json_writer_text(writer, text ? " " : ",");
        if (text)
            json_writer_text(writer, words[random % ARRAY_COUNT(words)]);
        else
            json_writer_unsigned(writer,
                                 options->token_low + (uint32_t)((uint64_t)random * span >> 32));
    }
    json_writer_text(writer, text ? "\"" : "]");
}

struct bytes load_body_take(const struct load_options *options, const char *model,
                            const struct load_request *request, uint64_t number) {
    char text[128];
    size_t room = (size_t)request->prompt_tokens * BYTES_PER_TOKEN + 6 * strlen(model) + 1024 +
                  (options->extra ? strlen(options->extra) : 0);
    struct json_writer writer = {.out = malloc(room), .room = room};
    if (!writer.out) return (struct bytes){NULL, 0};
    json_writer_text(&writer, "{\"model\":");
    json_writer_string(&writer, bytes_of(model));
    json_writer_text(&writer, options->chat ? ",\"messages\":[{\"role\":\"user\",\"content\":"
                                            : ",\"prompt\":");
    load_body_write_prompt(&writer, options, request, number);
    snprintf(text, sizeof text, ",\"max_tokens\":%u,\"temperature\":%g", request->output_tokens,
             options->temperature);
    json_writer_text(&writer, options->chat ? "}]" : "");
    json_writer_text(&writer, text);
    json_writer_text(&writer, ",\"stream\":true,\"stream_options\":{\"include_usage\":true}");
    if (options->ignore_eos) json_writer_text(&writer, ",\"ignore_eos\":true");
    if (options->extra && options->extra[0]) {
        json_writer_text(&writer, ",");
        json_writer_text(&writer, options->extra);
    }
    json_writer_text(&writer, "}");
    check(json_writer_fits(&writer));
    return (struct bytes){writer.out, writer.count};
}
