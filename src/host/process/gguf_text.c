/* SPDX-License-Identifier: Apache-2.0
 * A GGUF file names the way in which its tokenizer splits words and leaves the patterns to the
 * program. They are written here as the steps of tokenizer.json that they were, so that one reader
 * (serving/text/tokenizer.c) reads both.
 */
#include "host/process/gguf_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/file.h"
#include "base/format.h"
#include "base/utf8.h"
#include "compute/weights/gguf_config.h"
#include "compute/weights/gguf_model.h"
#include "serving/text/tiktoken.h"

#define STEPS_MAX 6
#define KINDS "tokenizer.ggml.token_type"
#define KIND_CONTROL 3 /* llama.cpp's enum llama_token_type */
#define KIND_USER_DEFINED 4

#define CASED_LETTERS                                                                              \
    "A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}"                 \
    "\\x{1C4}-\\x{293}\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}"         \
    "\\x{37F}\\x{386}\\x{388}-\\x{38A}\\x{38C}\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}"                  \
    "\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}"                       \
    "\\x{13A0}-\\x{13F5}\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}"                 \
    "\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}"                 \
    "\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}\\x{1F59}"        \
    "\\x{1F5B}\\x{1F5D}\\x{1F5F}-\\x{1F7D}\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}\\x{1FBE}"         \
    "\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}\\x{1FD0}-\\x{1FD3}\\x{1FD6}-\\x{1FDB}"                 \
    "\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{2107}"                  \
    "\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}\\x{2124}\\x{2126}\\x{2128}"                   \
    "\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-\\x{213F}\\x{2145}-\\x{2149}"        \
    "\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}\\x{2CEB}-\\x{2CEE}"         \
    "\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}"                  \
    "\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}"                 \
    "\\x{FB13}-\\x{FB17}\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}"               \
    "\\x{104B0}-\\x{104D3}\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}"         \
    "\\x{118A0}-\\x{118DF}\\x{1E900}-\\x{1E943}"

/* Ways of splitting, by the names of tokenizer.ggml.pre. Sources: the pre_tokenizer of
 * DeepSeek-V3's, DeepSeek-LLM's, DeepSeek-Coder's and GLM-4's tokenizer.json, and llama.cpp's
 * src/llama-vocab.cpp, which has them under these names. */
static const struct split_way {
    const char *names[2];
    bool ignores_merges;
    bool tiktoken;                /* the pattern of serving/text/tiktoken.h */
    const char *steps[STEPS_MAX]; /* none: that of GPT-2, which ByteLevel has */
} ways[] = {
    {.names = {"deepseek-v3"},
     .steps = {"\\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
               "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
               "|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*"
               "|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"}},
    {.names = {"deepseek-llm"},
     .steps = {"[\r\n]", "\\s?[" CASED_LETTERS "]+",
               "\\s?[!-/"
               ":-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}]+",
               "\\s+$", "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+", "\\p{N}+"}},
    {.names = {"deepseek-coder"},
     .steps = {"[\r\n]", "\\s?\\p{L}+", "\\s?\\p{P}+",
               "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+", "\\p{N}"}},
    {.names = {"kimi-k2"}, .ignores_merges = true, .tiktoken = true},
    {.names = {"glm4", "chatglm-bpe"},
     .steps = {"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
               "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
               "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
    {.names = {"gpt-2"}},
};

static struct bytes gguf_text_of(const struct gguf *gguf, const char *key) {
    struct bytes text = {"", 0};
    (void)gguf_get_string(gguf_find(gguf, key), &text);
    return text;
}

/* Finds the way of splitting. Fails for tokenizers of other kinds. STATUS_NOT_FOUND: there is
 * none. */
static enum status find_way(const struct gguf *gguf, const struct split_way **out,
                            struct error *error) {
    const struct bytes model = gguf_text_of(gguf, "tokenizer.ggml.model");
    const struct bytes pre = gguf_text_of(gguf, "tokenizer.ggml.pre");
    if (!model.count || bytes_equal(model, BYTES_LITERAL("none")))
        return error_set(error, STATUS_NOT_FOUND, "%s: has no tokenizer", gguf->file);
    if (!bytes_equal(model, BYTES_LITERAL("gpt2")))
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: tokenizer.ggml.model: expected gpt2 (byte-level BPE), found another",
                         gguf->file);
    for (size_t i = 0; i < ARRAY_COUNT(ways); i++)
        for (size_t k = 0; k < ARRAY_COUNT(ways[i].names) && ways[i].names[k]; k++)
            if (bytes_equal(pre, bytes_of(ways[i].names[k]))) {
                *out = &ways[i];
                return STATUS_OK;
            }
    return error_set(error, STATUS_UNSUPPORTED,
                     "%s: tokenizer.ggml.pre: expected deepseek-v3, deepseek-llm, deepseek-coder, "
                     "kimi-k2, glm4 or gpt-2, found %s; convert the model again",
                     gguf->file, pre.count ? "another" : "nothing");
}

static void write_step(struct json_writer *writer, struct bytes pattern) {
    json_writer_text(writer, "{\"type\":\"Split\",\"behavior\":\"Isolated\",\"invert\":false,"
                             "\"pattern\":{\"Regex\":");
    json_writer_string(writer, pattern);
    json_writer_text(writer, "}},");
}

static void gguf_text_split(struct json_writer *writer, const struct split_way *way) {
    const bool gpt2 = !way->tiktoken && !way->steps[0];
    json_writer_text(writer, "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[");
    if (way->tiktoken) write_step(writer, tiktoken_pattern);
    for (size_t i = 0; i < STEPS_MAX && way->steps[i]; i++)
        write_step(writer, bytes_of(way->steps[i]));
    json_writer_print(writer,
                      "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":%s}]}",
                      gpt2 ? "true" : "false");
}

static enum status gguf_text_refuse(const struct gguf *gguf, const char *key, uint64_t index,
                                    struct error *error) {
    return error_set(error, STATUS_CORRUPT,
                     "%s: %s[%lu]: expected valid UTF-8; the file is damaged, fetch it again",
                     gguf->file, key, index);
}

/* Writes the tokens of the vocabulary or, if `added`, those that are found in text as they are. */
static enum status gguf_text_tokens(const struct gguf *gguf, struct json_writer *writer, bool added,
                                    struct error *error) {
    const struct gguf_value *tokens = gguf_find(gguf, "tokenizer.ggml.tokens");
    const struct gguf_value *kinds = gguf_find(gguf, KINDS);
    const char *between = "";
    struct bytes token;
    size_t at = 0, kind_at = 0;
    for (uint64_t id = 0; gguf_next_string(tokens, &at, &token); id++) {
        int64_t kind = 0;
        (void)gguf_next_integer(kinds, &kind_at, &kind);
        if (utf8_valid_prefix(token) != token.count)
            return gguf_text_refuse(gguf, "tokenizer.ggml.tokens", id, error);
        if ((kind == KIND_CONTROL || kind == KIND_USER_DEFINED) != added || !token.count) continue;
        if (added)
            json_writer_print(writer,
                              "%s{\"id\":%lu,\"content\":\"%.*s\",\"normalized\":false,"
                              "\"special\":%s}",
                              between, id, PRINT_BYTES(token),
                              kind == KIND_CONTROL ? "true" : "false");
        else
            json_writer_print(writer, "%s\"%.*s\":%lu", between, PRINT_BYTES(token), id);
        between = ",";
    }
    return STATUS_OK;
}

static enum status gguf_text_merges(const struct gguf *gguf, struct json_writer *writer,
                                    struct error *error) {
    const struct gguf_value *merges = gguf_find(gguf, "tokenizer.ggml.merges");
    struct bytes merge;
    size_t at = 0;
    for (uint64_t i = 0; gguf_next_string(merges, &at, &merge); i++) {
        if (utf8_valid_prefix(merge) != merge.count)
            return gguf_text_refuse(gguf, "tokenizer.ggml.merges", i, error);
        json_writer_print(writer, "%s\"%.*s\"", i ? "," : "", PRINT_BYTES(merge));
    }
    return STATUS_OK;
}

static enum status gguf_text_tokenizer(const struct gguf *gguf, struct json_writer *writer,
                                       struct error *error) {
    const struct split_way *way = NULL;
    enum status status = find_way(gguf, &way, error);
    if (status) return status;
    json_writer_text(writer, "{\"normalizer\":null,\"decoder\":{\"type\":\"ByteLevel\"},");
    gguf_text_split(writer, way);
    json_writer_text(writer, ",\"added_tokens\":[");
    status = gguf_text_tokens(gguf, writer, true, error);
    json_writer_print(writer, "],\"model\":{\"type\":\"BPE\",\"ignore_merges\":%s,\"vocab\":{",
                      way->ignores_merges ? "true" : "false");
    if (!status) status = gguf_text_tokens(gguf, writer, false, error);
    json_writer_text(writer, "},\"merges\":[");
    if (!status) status = gguf_text_merges(gguf, writer, error);
    json_writer_text(writer, "]}}");
    return status;
}

static void write_switch(const struct gguf *gguf, struct json_writer *writer, const char *key,
                         const char *name) {
    bool on = false;
    if (gguf_get_bool(gguf_find(gguf, key), &on))
        json_writer_print(writer, ",\"%s\":%s", name, on ? "true" : "false");
}

/* The text of the token with the id under `key`. */
static void gguf_text_special(const struct gguf *gguf, struct json_writer *writer, const char *key,
                              const char *name) {
    const struct gguf_value *tokens = gguf_find(gguf, "tokenizer.ggml.tokens");
    struct bytes token;
    uint64_t id = 0;
    size_t at = 0;
    if (!gguf_get_count(gguf_find(gguf, key), &id)) return;
    while (gguf_next_string(tokens, &at, &token)) {
        if (id--) continue;
        if (utf8_valid_prefix(token) == token.count)
            json_writer_print(writer, ",\"%s\":\"%.*s\"", name, PRINT_BYTES(token));
        return;
    }
}

static enum status gguf_text_config(const struct gguf *gguf, struct json_writer *writer,
                                    struct error *error) {
    const struct bytes template = gguf_text_of(gguf, "tokenizer.chat_template");
    json_writer_text(writer, "{\"tokenizer_class\":\"GGUF\"");
    gguf_text_special(gguf, writer, "tokenizer.ggml.bos_token_id", "bos_token");
    gguf_text_special(gguf, writer, "tokenizer.ggml.eos_token_id", "eos_token");
    write_switch(gguf, writer, "tokenizer.ggml.add_bos_token", "add_bos_token");
    write_switch(gguf, writer, "tokenizer.ggml.add_eos_token", "add_eos_token");
    if (utf8_valid_prefix(template) != template.count)
        return error_set(error, STATUS_CORRUPT,
                         "%s: tokenizer.chat_template: expected valid UTF-8; the file is damaged",
                         gguf->file);
    if (template.count)
        json_writer_print(writer, ",\"chat_template\":\"%.*s\"", PRINT_BYTES(template));
    json_writer_text(writer, "}");
    return STATUS_OK;
}

/* Defaults of sampling, which newer files have. generation_config.json's reader checks them. */
static enum status gguf_text_generation(const struct gguf *gguf, struct json_writer *writer,
                                        struct error *error) {
    static const char *const names[] = {"temperature", "top_p", "top_k"};
    static const char *const keys[] = {"general.sampling.temp", "general.sampling.top_p",
                                       "general.sampling.top_k"};
    bool any = false;
    json_writer_text(writer, "{");
    for (size_t i = 0; i < ARRAY_COUNT(keys); i++) {
        double number;
        char text[40];
        if (!gguf_get_number(gguf_find(gguf, keys[i]), &number) || !isfinite(number)) continue;
        format_text(text, sizeof text, "%.7g", number);
        json_writer_print(writer, "%s\"%s\":%s", any ? "," : "", names[i], text);
        any = true;
    }
    json_writer_text(writer, "}");
    if (any) return STATUS_OK;
    return error_set(error, STATUS_NOT_FOUND, "%s: has no defaults of sampling", gguf->file);
}

static enum status take_from_gguf(const char *model, gguf_model_write *write, struct bytes *out,
                                  struct error *error) {
    struct gguf_model opened;
    enum status status = gguf_model_open(model, &opened, error);
    if (!status) status = gguf_config_check(&opened.gguf, error);
    if (!status) status = gguf_model_json(&opened, write, out, error);
    gguf_model_close(&opened);
    return status;
}

enum status gguf_text_take(const char *model, const char *name, size_t bytes_max, char *path_out,
                           size_t path_bytes, struct bytes *out, struct error *error) {
    static const struct {
        const char *name;
        gguf_model_write *write;
    } texts[] = {{"config.json", gguf_config_write},
                 {"tokenizer.json", gguf_text_tokenizer},
                 {"tokenizer_config.json", gguf_text_config},
                 {"generation_config.json", gguf_text_generation}};
    const bool is_gguf = gguf_model_is(model);
    int length = is_gguf ? snprintf(path_out, path_bytes, "%s", model)
                         : snprintf(path_out, path_bytes, "%s/%s", model, name);
    if (length < 0 || (size_t)length >= path_bytes)
        return error_set(error, STATUS_INVALID, "the path of %s is too long", name);
    if (!is_gguf) return file_take(path_out, bytes_max, out, error);
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++)
        if (!strcmp(texts[i].name, name)) return take_from_gguf(model, texts[i].write, out, error);
    return error_set(error, STATUS_NOT_FOUND, "%s: has no %s", model, name);
}
