/* SPDX-License-Identifier: Apache-2.0
 * The pre-tokenizer: cuts text into the words that byte pairs are merged in. It is a sequence of
 * passes, each a pattern; a pass cuts every piece that the previous ones left at the start and the
 * end of each of its matches, seeing nothing beyond the piece (so \s+(?!\S) takes a piece's end for
 * the end of the text). This is "Split" with behaviour "Isolated", which is all that DeepSeek's
 * tokenizers use, together with "Digits" (a pattern in disguise) and the closing "ByteLevel".
 */
#ifndef SERVING_TEXT_SPLITTER_H
#define SERVING_TEXT_SPLITTER_H

#include "base/pattern.h"
#include "base/tree.h"

#define SPLITTER_PASSES_MAX 16

struct splitter {
    uint32_t pass_count;
    struct pattern *passes[SPLITTER_PASSES_MAX];
};

/* Reads pre_tokenizer. UNSUPPORTED names what we do not do. On failure nothing is left open. */
enum status splitter_open(struct arena *arena, const struct tree *pre_tokenizer, const char *name,
                          struct splitter *out, struct error *error) MUST_USE;
void splitter_close(struct splitter *splitter);

/* Takes a word, never empty; false ends the splitting. */
typedef bool splitter_sink(void *context, struct bytes word);

/* Cuts `text` (valid UTF-8). False if the sink said so, or a pattern gave up. */
bool splitter_split(const struct splitter *splitter, struct pattern_scratch *scratch,
                    struct bytes text, splitter_sink *sink, void *context);

#endif
