/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/dialects/responses_dialect.h"

#include "serving/gateway/dialects/responses_reader.h"
#include "serving/gateway/dialects/responses_words.h"

const struct dialect responses_dialect = {
    .name = "responses",
    .number = DIALECT_RESPONSES,
    .chats = true,
    .prompt_field = "input",
    .call_prefix = "call_",
    .has_400_for_422 = true,
    .keep_alive = {RESPONSES_WORDS_KEEP_ALIVE, sizeof RESPONSES_WORDS_KEEP_ALIVE - 1},
    .frame_bytes = RESPONSES_WORDS_FRAME_BYTES,
    .reports = RESPONSES_WORDS_REPORTS,
    .repeats = RESPONSES_WORDS_REPEATS,
    .read = responses_reader_read,
    .write_whole = responses_words_whole,
    .write_event = responses_words_event,
    .write_error = api_error_write,
};
