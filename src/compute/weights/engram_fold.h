/* SPDX-License-Identifier: Apache-2.0
 * The folded ids of Engram (V4.1): tokens share one if their texts differ only in case, marks,
 * forms of letters or white space. A token's key is its text after these steps, in order:
 *
 *   NFKC, NFD, marks dropped, lower case, runs of [ \t\r\n] to one space; a lone space stays, of
 *   other texts white space is stripped from both ends; if nothing is left, the text as it was
 *
 * A token that is no text (its bytes are not UTF-8, or hold U+FFFD) has its string in the
 * vocabulary as its key. Folded ids number the keys in the order of the ids that have them first.
 * Source: DeepSeek-V4.1, inference/engram.py. Reads tokenizer.json's vocabulary and added tokens,
 * of byte-level BPE.
 */
#pragma once

#include <stdint.h>

#include "base/bytes.h"
#include "base/status.h"

struct engram_fold {
    uint32_t *ids;   /* [vocab] folded id of each token */
    uint32_t folded; /* number of folded ids */
};

/* Reads the directory's tokenizer.json. */
enum status engram_fold_open(const char *directory, uint32_t vocab, struct engram_fold *fold_out,
                             struct error *error);
/* The same from the file's text. `name` is only used in messages. */
enum status engram_fold_read(struct bytes text, const char *name, uint32_t vocab,
                             struct engram_fold *fold_out, struct error *error);
void engram_fold_close(struct engram_fold *fold);

/* Folds a valid text. Returns the bytes written: at most ENGRAM_FOLD_GROWTH times those of the
 * text. */
#define ENGRAM_FOLD_GROWTH 18
size_t engram_fold_text(struct bytes text, char *out);
