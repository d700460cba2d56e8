/* SPDX-License-Identifier: Apache-2.0
 * The pre-tokenizer splits text into the words in which byte pairs are merged. It is a sequence of
 * passes, each with a pattern. A pass splits every piece of the previous pass at the start and the
 * end of each match, without looking beyond the piece (so \s+(?!\S) treats a piece's end as the end
 * of the text). This is "Split" with behaviour "Isolated", the only kind in DeepSeek's tokenizers,
 * together with "Digits" (also a pattern) and the final "ByteLevel".
 */
#pragma once

#include "base/pattern.h"
#include "base/tree.h"

#define SPLITTER_PASSES_MAX 16

struct splitter {
    uint32_t pass_count;
    struct pattern *passes[SPLITTER_PASSES_MAX];
};

/* Reads the pre_tokenizer of tokenizer.json. Returns STATUS_UNSUPPORTED with an error that names
 * the unsupported feature. After an error nothing needs to be closed. */
enum status splitter_open(struct arena *arena, const struct tree *pre_tokenizer, const char *name,
                          struct splitter *out, struct error *error) MUST_USE;
/* Makes a splitter of one pass. */
enum status splitter_open_pattern(struct arena *arena, struct bytes pattern, const char *name,
                                  struct splitter *out, struct error *error) MUST_USE;
void splitter_close(struct splitter *splitter);

/* Receives a word, which is never empty. Returns false to stop. */
typedef bool splitter_sink(void *context, struct bytes word);

/* Splits `text` (valid UTF-8). Returns false if the sink did, or a pattern exceeded its limit. */
bool splitter_split(const struct splitter *splitter, struct pattern_scratch *scratch,
                    struct bytes text, splitter_sink *sink, void *context);
