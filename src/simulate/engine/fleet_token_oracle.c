/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/engine/fleet_token_oracle.h"

#include "base/byte_level.h"
#include "base/check.h"
#include "base/format.h"
#include "base/json_writer.h"

/* ---- words ---- */

enum { BYTES_FIRST = 100, WORDS_FIRST = 400 }; /* byte b has the token BYTES_FIRST + b */

#define BYTE(byte) (BYTES_FIRST + (byte))

enum word {
    SECTION = WORDS_FIRST, /* calls begin */
    CALL,                  /* a call begins, up to its name */
    LO,
    OK,
    SEEK,
    SEP,    /* between the name and the arguments */
    OBJECT, /* arguments, up to a string */
    EMPTY,  /* empty arguments */
    LETTERS,
    ESCAPE,
    PART_OF_MARK, /* a part of a mark, in arguments */
    CLOSE,        /* ends the string and the arguments */
    CALL_END,
    SECTION_END,
    SO,
    WORDS_END
};

enum { WORD_COUNT = WORDS_END - WORDS_FIRST };

struct token_oracle_words {
    const char *text[WORD_COUNT];
};

#define COMMON "lo", "ok", "seek"
#define ARGUMENTS(part_of_mark) "{\"at\": \"", "{}", "ab", "\\n", part_of_mark, "\"}"

static const struct token_oracle_words words_of[FLEET_TONGUES] = {
    {{"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", COMMON, "<｜tool▁sep｜>",
      ARGUMENTS("<｜tool▁call"), "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>", " so"}},
    {{"\n\n", "<tool_call>\n{\"name\": \"", COMMON, "\", \"arguments\": ", ARGUMENTS("}\n</tool"),
      "}\n</tool_call>", "\n\n\n", " so"}},
    {{"<|tool_calls_section_begin|>", "<|tool_call_begin|>functions.", COMMON,
      ":0<|tool_call_argument_begin|>", ARGUMENTS("<|tool_call_"), "<|tool_call_end|>",
      "<|tool_calls_section_end|>", " so"}},
};

/* The special tokens in the source of a template identify the format of calls. */
#define TEMPLATE(mark)                                                                             \
    "{# " mark " #}{% for t in tools or [] %}{{ t.function.name }};{% endfor %}"                   \
    "{% for m in messages %}#{{ m.content }}{% endfor %}{% if add_generation_prompt %}>{% endif "  \
    "%}"

static const char *const templates[FLEET_TONGUES] = {
    TEMPLATE("<｜tool▁calls▁begin｜>"), TEMPLATE("<tool_call>"), TEMPLATE("<|tool_call_begin|>")};

const char fleet_token_oracle_tools[] = "[{\"type\":\"function\",\"function\":{\"name\":\"look\"}},"
                                        "{\"type\":\"function\",\"function\":{\"name\":\"seek\"}}]";

/* ---- the grammar ---- */

#define LAST_HALF BYTE(0x97) /* of a letter in the content, after BYTE(0xC4) */
#define ARGUMENTS_GO_ON                                                                            \
    { LETTERS, LETTERS, ESCAPE, BYTE(0xC3), PART_OF_MARK, CLOSE, CLOSE, CLOSE }

static const uint16_t text_goes_on[8] = {SO,         SO,      BYTE('<'), BYTE('\n'),
                                         BYTE(0xC4), SECTION, SECTION,   SECTION};

static const struct {
    uint16_t last, next[8]; /* each equally likely; 0: the stop token */
} follows[] = {
    {SECTION, {CALL, CALL, CALL, CALL, CALL, CALL, CALL, SO}},
    {CALL, {LO, LO, LO, LO, LO, SEEK, SEEK, SO}},
    {LO, {OK, OK, OK, OK, OK, OK, OK, LO}},
    {OK, {SEP, SEP, SEP, SEP, SEP, SEP, SEP, LO}},
    {SEEK, {SEP, SEP, SEP, SEP, SEP, SEP, SEP, SEP}},
    {SEP, {OBJECT, OBJECT, OBJECT, OBJECT, OBJECT, OBJECT, EMPTY, SO}},
    {OBJECT, ARGUMENTS_GO_ON},
    {LETTERS, ARGUMENTS_GO_ON},
    {ESCAPE, ARGUMENTS_GO_ON},
    {PART_OF_MARK, ARGUMENTS_GO_ON},
    {BYTE(0xA9), ARGUMENTS_GO_ON},
    {BYTE(0xC3),
     {BYTE(0xA9), BYTE(0xA9), BYTE(0xA9), BYTE(0xA9), BYTE(0xA9), BYTE(0xA9), CLOSE, LETTERS}},
    {BYTE(0xC4), {LAST_HALF, LAST_HALF, LAST_HALF, LAST_HALF, LAST_HALF, LAST_HALF, LAST_HALF, SO}},
    {EMPTY, {CALL_END, CALL_END, CALL_END, CALL_END, CALL_END, CALL_END, CALL_END, CALL_END}},
    {CLOSE, {CALL_END, CALL_END, CALL_END, CALL_END, CALL_END, CALL_END, CALL_END, LETTERS}},
    {CALL_END, {CALL, CALL, CALL, SECTION_END, SECTION_END, SECTION_END, SECTION_END, 0}},
    {SECTION_END, {0, 0, 0, 0, SO, SO, SECTION, SO}},
    {SO, {0, SO, SO, BYTE('<'), BYTE('\n'), BYTE(0xC4), SECTION, SECTION}},
};

uint32_t fleet_token_oracle_follow(uint64_t number, uint32_t last, uint32_t stop_token,
                                   bool may_stop) {
    const uint16_t *next = text_goes_on;
    for (size_t i = 0; i < ARRAY_COUNT(follows); i++)
        if (follows[i].last == last) next = follows[i].next;
    uint32_t token = next[number % 8];
    if (token) return token;
    return may_stop ? stop_token : SO;
}

/* ---- the vocabulary ---- */

static bool is_mark(const char *text) {
    return text[0] == '<' && text[strlen(text) - 1] == '>';
}

static void write_added(struct json_writer *writer, uint32_t id, const char *text, bool special) {
    json_writer_text(writer, ",{\"id\":");
    json_writer_unsigned(writer, id);
    json_writer_text(writer, ",\"special\":");
    json_writer_text(writer, special ? "true" : "false");
    json_writer_text(writer, ",\"content\":");
    json_writer_string(writer, bytes_of(text));
    json_writer_text(writer, "}");
}

static void write_tokenizer(struct json_writer *writer, const struct token_oracle_words *words) {
    json_writer_text(writer,
                     "{\"decoder\":{\"type\":\"ByteLevel\"},\"pre_tokenizer\":{\"type\":"
                     "\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false},"
                     "\"added_tokens\":[{\"id\":1,\"special\":true,\"content\":\"<stop>\"}");
    for (uint32_t i = 0; i < WORD_COUNT; i++)
        write_added(writer, WORDS_FIRST + i, words->text[i], is_mark(words->text[i]));
    json_writer_text(writer, "],\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{");
    for (uint32_t byte = 0; byte < 256; byte++) {
        char entry[32];
        format_text(entry, sizeof entry, "%s\"\\u%04x\":%u", byte ? "," : "",
                    byte_level_spelled((uint8_t)byte), BYTE(byte));
        json_writer_text(writer, entry);
    }
    json_writer_text(writer, "}}}");
}

/* ---- opening ---- */

#define LASTING_BYTES ((size_t)24 << 20) /* only a small part is touched */
#define SCRATCH_BYTES ((size_t)40 << 20)
#define JSON_BYTES ((size_t)64 << 10)

static enum status fleet_token_oracle_open_tools(struct fleet_token_oracle *token_oracle,
                                                 struct arena *arena, struct arena *scratch,
                                                 struct error *error) {
    const struct tree *tools;
    enum status status =
        tree_parse(scratch, bytes_of(fleet_token_oracle_tools), "tools", &tools, error);
    if (status) return status;
    return tool_format_set_open(arena, token_oracle->chat_template.calls, tools,
                                &token_oracle->tools, error);
}

bool fleet_token_oracle_open(struct fleet_token_oracle *token_oracle, struct arena *arena,
                             uint32_t which) {
    struct arena lasting, scratch;
    struct error error;
    void *memory = arena_take(arena, LASTING_BYTES), *work = arena_take(arena, SCRATCH_BYTES);
    struct json_writer json = {.out = arena_take(arena, JSON_BYTES), .room = JSON_BYTES};
    if (!memory || !work || !json.out) return false;
    arena_over(&lasting, memory, LASTING_BYTES);
    arena_over(&scratch, work, SCRATCH_BYTES);
    write_tokenizer(&json, &words_of[which]);
    check(json_writer_fits(&json));
    enum status status = tokenizer_open(&lasting, &scratch, (struct bytes){json.out, json.count},
                                        "tongue", &token_oracle->tokenizer, &error);
    struct chat_files files = {.own = {bytes_of(templates[which]), "template"}};
    arena_clear(&scratch);
    if (!status)
        status =
            chat_template_open(&lasting, &scratch, files, &token_oracle->chat_template, &error);
    arena_clear(&scratch);
    if (!status) status = fleet_token_oracle_open_tools(token_oracle, &lasting, &scratch, &error);
    check(status == STATUS_OK);
    return true;
}

void fleet_token_oracle_close(struct fleet_token_oracle *token_oracle) {
    if (token_oracle->tokenizer) tokenizer_close(token_oracle->tokenizer);
    token_oracle->tokenizer = NULL;
}

/* ---- prompts and answers ---- */

uint32_t fleet_token_oracle_byte(char byte) {
    return BYTE((uint8_t)byte);
}

bool fleet_token_oracle_is_byte(uint32_t token, char *byte_out) {
    if (token < BYTES_FIRST || token >= BYTES_FIRST + 256) return false;
    *byte_out = (char)(token - BYTES_FIRST);
    return true;
}

uint32_t fleet_token_oracle_prompt(const char *content, bool with_tools, uint32_t *tokens_out) {
    const char *const parts[] = {with_tools ? "look;seek;" : "", "#", content, ">"};
    uint32_t count = 0;
    for (size_t i = 0; i < ARRAY_COUNT(parts); i++)
        for (const char *at = parts[i]; *at; at++)
            tokens_out[count++] = BYTE((uint8_t)*at);
    return count;
}

static void add(char *to, uint32_t *bytes, struct bytes more) {
    check(*bytes + more.count <= FLEET_SPEECH_BYTES);
    memcpy(to + *bytes, more.data, more.count);
    *bytes += (uint32_t)more.count;
}

/* Begins a call. Writes the mark unless the id of the call has already written it. */
static void fleet_token_oracle_begin_call(struct fleet_speech *speech,
                                          enum token_stream_part part) {
    bool has_id = speech->calls_bytes && speech->calls[speech->calls_bytes - 1] == '\2';
    speech->ended = speech->ended || (speech->one_call && speech->call_count > 0 && !has_id);
    if (speech->ended) return;
    if (!has_id) add(speech->calls, &speech->calls_bytes, BYTES_LITERAL("\1"));
    if (!has_id && part == TOKEN_STREAM_CALL)
        add(speech->calls, &speech->calls_bytes, BYTES_LITERAL("\2"));
}

static void fleet_token_oracle_receive(void *context, enum token_stream_part part,
                                       struct bytes text) {
    struct fleet_speech *speech = context;
    bool call = part == TOKEN_STREAM_CALL || part == TOKEN_STREAM_CALL_ID;
    if (call) fleet_token_oracle_begin_call(speech, part);
    if (speech->ended) return;
    if (!call && part != TOKEN_STREAM_ARGUMENTS) {
        add(speech->content, &speech->content_bytes, text);
        return;
    }
    add(speech->calls, &speech->calls_bytes, text);
    if (call)
        add(speech->calls, &speech->calls_bytes,
            part == TOKEN_STREAM_CALL ? BYTES_LITERAL("\3") : BYTES_LITERAL("\2"));
    speech->call_count += part == TOKEN_STREAM_CALL;
}

uint32_t fleet_token_oracle_listen(const struct fleet_token_oracle *token_oracle, bool with_tools,
                                   const uint32_t *tokens, uint32_t count,
                                   struct fleet_speech *speech) {
    struct token_stream stream;
    token_stream_open(&stream, token_oracle->tokenizer, NULL, TOKEN_STREAM_PLAIN,
                      with_tools ? token_oracle->tools : NULL);
    for (uint32_t i = 0; i < count; i++) {
        (void)token_stream_push(&stream, tokens[i], fleet_token_oracle_receive, speech);
        if (speech->ended) return i + 1;
    }
    token_stream_finish(&stream, fleet_token_oracle_receive, speech);
    return count;
}
