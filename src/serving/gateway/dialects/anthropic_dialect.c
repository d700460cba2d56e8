/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/dialects/anthropic_dialect.h"

#include "serving/gateway/dialects/anthropic_reader.h"
#include "serving/gateway/dialects/anthropic_words.h"

static bool anthropic_dialect_read_message(struct api_reader *reader, struct api_request *out) {
    if (out->new_tokens_max == 0) return api_reader_missing(reader, "max_tokens");
    return anthropic_reader_read(reader, out);
}

static bool anthropic_dialect_read_count(struct api_reader *reader, struct api_request *out) {
    out->tokens_only = true;
    out->stream = false;
    out->new_tokens_max = 0;
    return anthropic_reader_read(reader, out);
}

#define ANTHROPIC_DIALECT(reader)                                                                  \
    .number = DIALECT_ANTHROPIC, .chats = true, .prompt_field = "messages",                        \
    .call_prefix = "toolu_", .has_400_for_422 = true,                                              \
    .keep_alive = {ANTHROPIC_WORDS_KEEP_ALIVE, sizeof ANTHROPIC_WORDS_KEEP_ALIVE - 1},             \
    .frame_bytes = ANTHROPIC_WORDS_FRAME_BYTES, .read = reader,                                    \
    .write_whole = anthropic_words_whole, .write_count = anthropic_words_count,                    \
    .write_event = anthropic_words_event, .write_error = anthropic_words_error,                    \
    .explain_length = anthropic_words_length

const struct dialect anthropic_dialect = {.name = "anthropic",
                                          ANTHROPIC_DIALECT(anthropic_dialect_read_message)};
const struct dialect anthropic_count_dialect = {.name = "anthropic_count",
                                                ANTHROPIC_DIALECT(anthropic_dialect_read_count)};
