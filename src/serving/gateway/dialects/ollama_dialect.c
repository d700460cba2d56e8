/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/dialects/ollama_dialect.h"

#include "serving/gateway/dialects/ollama_reader.h"
#include "serving/gateway/dialects/ollama_words.h"

#define OLLAMA_DIALECT                                                                             \
    .chats = true, .call_prefix = "call_", .has_400_for_422 = true, .streams_lines = true,         \
    .keep_alive = {OLLAMA_WORDS_KEEP_ALIVE, sizeof OLLAMA_WORDS_KEEP_ALIVE - 1},                   \
    .frame_bytes = OLLAMA_WORDS_FRAME_BYTES, .repeats = OLLAMA_WORDS_REPEATS,                      \
    .write_whole = ollama_words_whole, .write_event = ollama_words_event,                          \
    .write_error = ollama_words_error

const struct dialect ollama_chat_dialect = {.name = "ollama_chat",
                                            .number = DIALECT_OLLAMA_CHAT,
                                            .prompt_field = "messages",
                                            .read = ollama_reader_chat,
                                            .write_count = ollama_words_loaded,
                                            OLLAMA_DIALECT};
const struct dialect ollama_generate_dialect = {.name = "ollama_generate",
                                                .number = DIALECT_OLLAMA_GENERATE,
                                                .prompt_field = "prompt",
                                                .read = ollama_reader_generate,
                                                .write_count = ollama_words_loaded_text,
                                                OLLAMA_DIALECT};
