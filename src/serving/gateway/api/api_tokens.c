/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/api/api_tokens.h"

#include "base/format.h"
#include "base/utf8.h"

struct spelling { /* context of the visitors */
    struct json_writer *writer;
    const struct tokenizer *tokenizer;
    const struct token_list *list;
    uint32_t from;
    uint32_t offset; /* characters before the token */
    bool any;        /* the array or object already has an element */
};

static struct bytes bytes_of_token(const struct tokenizer *tokenizer, uint32_t token) {
    return tokenizer ? tokenizer_token_bytes(tokenizer, token) : (struct bytes){"", 0};
}

static void api_tokens_write_number(struct json_writer *writer, float logprob) {
    char text[32];
    if (!(logprob > -9999)) logprob = -9999;
    size_t count = format_text(text, sizeof text, "%.9g", logprob < 0 ? (double)logprob : 0.0);
    json_writer_bytes(writer, (struct bytes){text, count});
}

static void api_tokens_write_id(struct json_writer *writer, uint32_t token) {
    json_writer_text(writer, "\"token_id:");
    json_writer_unsigned(writer, token);
    json_writer_text(writer, "\"");
}

static void write_hexed(struct json_writer *writer, struct bytes bytes) {
    static const char digits[] = "0123456789abcdef";
    json_writer_text(writer, "\"bytes:");
    for (size_t i = 0; i < bytes.count; i++) {
        uint8_t byte = (uint8_t)bytes.data[i];
        char text[] = {'\\', '\\', 'x', digits[byte >> 4], digits[byte & 15], '\0'};
        json_writer_text(writer, text);
    }
    json_writer_text(writer, "\"");
}

/* ---- ids ---- */

static void visit_id(void *context, uint32_t index, const struct token_logprob *entries) {
    struct spelling *spelling = context;
    if (index > spelling->from) json_writer_text(spelling->writer, ",");
    json_writer_unsigned(spelling->writer, entries[0].token);
}

void api_tokens_ids(struct json_writer *writer, const struct token_list *list, uint32_t from,
                    uint32_t to) {
    struct spelling spelling = {.writer = writer, .from = from};
    json_writer_text(writer, "[");
    token_list_visit(list, from, to, visit_id, &spelling);
    json_writer_text(writer, "]");
}

/* ---- chats ---- */

/* Writes "token":…,"logprob":…,"bytes":[…] */
static void write_entry(const struct spelling *spelling, const struct token_logprob *entry) {
    struct json_writer *writer = spelling->writer;
    struct bytes bytes = bytes_of_token(spelling->tokenizer, entry->token);
    json_writer_text(writer, "\"token\":");
    if (bytes.count)
        utf8_write_repaired(writer, bytes);
    else
        api_tokens_write_id(writer, entry->token);
    json_writer_text(writer, ",\"logprob\":");
    api_tokens_write_number(writer, entry->logprob);
    json_writer_text(writer, ",\"bytes\":");
    json_writer_text(writer, bytes.count ? "[" : "null");
    for (size_t i = 0; i < bytes.count; i++) {
        if (i) json_writer_text(writer, ",");
        json_writer_unsigned(writer, (uint8_t)bytes.data[i]);
    }
    if (bytes.count) json_writer_text(writer, "]");
}

static void visit_chat(void *context, uint32_t index, const struct token_logprob *entries) {
    struct spelling *spelling = context;
    struct json_writer *writer = spelling->writer;
    json_writer_text(writer, spelling->any ? ",{" : "{");
    spelling->any = true;
    write_entry(spelling, entries);
    json_writer_text(writer, ",\"top_logprobs\":[");
    for (uint32_t i = 1; i < spelling->list->each; i++) {
        json_writer_text(writer, i > 1 ? ",{" : "{");
        write_entry(spelling, &entries[i]);
        json_writer_text(writer, "}");
    }
    json_writer_text(writer, "]}");
}

/* Writes the tokens of the reasoning (`chosen`), or those of the content. */
static void write_chosen(struct json_writer *writer, const struct tokenizer *tokenizer,
                         const struct token_list *list, uint32_t from, uint32_t to, bool chosen) {
    struct spelling spelling = {.writer = writer, .tokenizer = tokenizer, .list = list};
    bool reasons;
    json_writer_text(writer, "[");
    for (uint32_t start = from; token_list_next_turn(list, &from, to, &reasons); start = from)
        if (reasons == chosen) token_list_visit(list, start, from, visit_chat, &spelling);
    json_writer_text(writer, "]");
}

void api_tokens_logprobs(struct json_writer *writer, const struct tokenizer *tokenizer,
                         const struct token_list *list, uint32_t from, uint32_t to) {
    write_chosen(writer, tokenizer, list, from, to, false);
}

static bool any_reasons(const struct token_list *list, uint32_t from, uint32_t to) {
    bool reasons = false;
    while (!reasons && token_list_next_turn(list, &from, to, &reasons))
        continue;
    return reasons;
}

void api_tokens_chat_logprobs(struct json_writer *writer, const struct tokenizer *tokenizer,
                              const struct token_list *list, uint32_t from, uint32_t to) {
    json_writer_text(writer, "{\"content\":");
    write_chosen(writer, tokenizer, list, from, to, false);
    if (any_reasons(list, from, to)) {
        json_writer_text(writer, ",\"reasoning_content\":");
        write_chosen(writer, tokenizer, list, from, to, true);
    }
    json_writer_text(writer, ",\"refusal\":null}");
}

/* ---- completions ---- */

static void api_tokens_write_name(const struct spelling *spelling, uint32_t token) {
    struct bytes bytes = bytes_of_token(spelling->tokenizer, token);
    if (bytes.count == 0)
        api_tokens_write_id(spelling->writer, token);
    else if (utf8_valid_prefix(bytes) == bytes.count && !memchr(bytes.data, 0, bytes.count))
        json_writer_string(spelling->writer, bytes);
    else
        write_hexed(spelling->writer, bytes);
}

/* Writes a comma unless it is the first element. */
static void api_tokens_next_of(struct spelling *spelling) {
    if (spelling->any) json_writer_text(spelling->writer, ",");
    spelling->any = true;
}

static bool is_unknown(const struct spelling *spelling, uint32_t index) {
    return index == 0 && spelling->list->has_first;
}

static void visit_name(void *context, uint32_t index, const struct token_logprob *entries) {
    struct spelling *spelling = context;
    api_tokens_next_of(spelling);
    api_tokens_write_name(spelling, entries[0].token);
}

static void visit_logprob(void *context, uint32_t index, const struct token_logprob *entries) {
    struct spelling *spelling = context;
    api_tokens_next_of(spelling);
    if (is_unknown(spelling, index))
        json_writer_text(spelling->writer, "null");
    else
        api_tokens_write_number(spelling->writer, entries[0].logprob);
}

static void write_pair(struct spelling *spelling, const struct token_logprob *entry) {
    api_tokens_next_of(spelling);
    api_tokens_write_name(spelling, entry->token);
    json_writer_text(spelling->writer, ":");
    api_tokens_write_number(spelling->writer, entry->logprob);
}

/* Lists the likeliest tokens and, as OpenAI does, the token itself, even if it is not among
 * them. */
static void visit_top(void *context, uint32_t index, const struct token_logprob *entries) {
    struct spelling *spelling = context;
    api_tokens_next_of(spelling);
    if (is_unknown(spelling, index)) {
        json_writer_text(spelling->writer, "null");
        return;
    }
    bool reported = false;
    json_writer_text(spelling->writer, "{");
    spelling->any = false;
    for (uint32_t i = 1; i < spelling->list->each; i++) {
        reported |= entries[i].token == entries[0].token;
        write_pair(spelling, &entries[i]);
    }
    if (!reported) write_pair(spelling, &entries[0]);
    json_writer_text(spelling->writer, "}");
    spelling->any = true;
}

static void visit_offset(void *context, uint32_t index, const struct token_logprob *entries) {
    struct spelling *spelling = context;
    if (index >= spelling->from) {
        api_tokens_next_of(spelling);
        json_writer_unsigned(spelling->writer, spelling->offset);
    }
    spelling->offset +=
        api_tokens_characters(spelling->tokenizer, spelling->list, index, entries[0].token);
}

struct both { /* the prompt's tokens, and [from, to) of the answer's; either may be NULL */
    const struct token_list *echoed, *tokens;
    uint32_t from, to;
};

static void visit_all(struct spelling *spelling, const struct both *both,
                      token_list_visitor *visit) {
    spelling->any = false;
    if (both->echoed) {
        spelling->list = both->echoed;
        spelling->from = 0;
        spelling->offset = both->echoed->text_offset;
        token_list_visit(both->echoed, 0, both->echoed->count, visit, spelling);
    }
    if (!both->tokens) return;
    spelling->list = both->tokens;
    spelling->from = both->from;
    spelling->offset = both->tokens->text_offset;
    token_list_visit(both->tokens, visit == visit_offset ? 0 : both->from, both->to, visit,
                     spelling);
}

void api_tokens_completion_logprobs(struct json_writer *writer, const struct tokenizer *tokenizer,
                                    const struct token_list *echoed,
                                    const struct token_list *tokens, uint32_t from, uint32_t to) {
    struct spelling spelling = {.writer = writer, .tokenizer = tokenizer};
    struct both both = {echoed, tokens, from, to};
    json_writer_text(writer, "{\"tokens\":[");
    visit_all(&spelling, &both, visit_name);
    json_writer_text(writer, "],\"token_logprobs\":[");
    visit_all(&spelling, &both, visit_logprob);
    json_writer_text(writer, "],\"top_logprobs\":[");
    visit_all(&spelling, &both, visit_top);
    json_writer_text(writer, "],\"text_offset\":[");
    visit_all(&spelling, &both, visit_offset);
    json_writer_text(writer, "]}");
}

/* ---- sizes ---- */

uint32_t api_tokens_characters(const struct tokenizer *tokenizer, const struct token_list *list,
                               uint32_t index, uint32_t token) {
    bool hidden = list->is_prompt ? index < list->hidden_front || index >= list->hidden_back
                                  : tokenizer && tokenizer_token_is_special(tokenizer, token);
    if (!tokenizer || hidden) return 0;
    return (uint32_t)utf8_count(tokenizer_token_bytes(tokenizer, token));
}

#define USAGE_BYTES_MAX 128 /* names, numbers and punctuation around a token, in any format */
#define TEXT_BYTES_MAX 16   /* JSON of one byte: escaped 6, repaired 3, in hex 5, as a number 4 */

size_t api_tokens_bytes_max(const struct tokenizer *tokenizer, const struct token_logprob *entries,
                            uint32_t each) {
    size_t bytes = 0;
    for (uint32_t i = 0; i < each; i++)
        bytes +=
            USAGE_BYTES_MAX + TEXT_BYTES_MAX * bytes_of_token(tokenizer, entries[i].token).count;
    return 2 * bytes; /* completions write the token up to two more times */
}

#define NUMBER_BYTES 10     /* "-1.2345678": most have eight or nine digits */
#define OTHER_NAME_BYTES 3  /* a name of one letter */
#define FIRST_NAME_BYTES 12 /* "token_id:5", the name of a token without text */

size_t api_tokens_echo_bytes(const struct tokenizer *tokenizer, const uint32_t *tokens,
                             uint32_t count, uint32_t each, size_t most) {
    uint32_t others = each > 2 ? each - 2 : 0; /* the token itself may be among the likeliest */
    size_t of_each = 3 + 2 * (NUMBER_BYTES + 2) + 2 /* {}, commas, and the offset */
                     + others * (OTHER_NAME_BYTES + NUMBER_BYTES + 2);
    size_t bytes = 0;
    for (uint32_t i = 0; i < count && bytes <= most; i++) {
        size_t name = bytes_of_token(tokenizer, tokens[i]).count;
        bytes += of_each + 2 * (name ? name + 2 : FIRST_NAME_BYTES);
    }
    return bytes;
}
