/* SPDX-License-Identifier: Apache-2.0
 * Byte-level BPE from a Hugging Face tokenizer.json: text to token ids and back, the same ids as
 * the `tokenizers` library gives without special tokens: which of those go around a plain prompt,
 * the tokenizer only says. Those of a chat are written by its template.
 *
 * A tokenizer is immutable after tokenizer_open and may be shared by threads; encoding needs a
 * scratch per thread, which is made once and never grows. Time is O(n log n) in the longest word
 * and linear in the text. What a file asks for and we do not do is refused by name when it is
 * opened.
 *
 * Formats: docs of the tokenizers library (pre-tokenizers, added tokens, decoders);
 * byte-to-character table: GPT-2's bytes_to_unicode.
 */
#ifndef SERVING_TEXT_TOKENIZER_H
#define SERVING_TEXT_TOKENIZER_H

#include "base/arena.h"
#include "base/limits.h"
#include "serving/text/prompt_frame.h"

struct tokenizer;
struct tokenizer_scratch;

/* Reads tokenizer.json's bytes. The tokenizer lies in `arena`; `scratch` is used while reading and
 * may be cleared afterwards (about 10 bytes per byte of JSON). `json` is not kept. `name` stands
 * for the file in messages. Errors: INVALID (not JSON, or breaks the format), UNSUPPORTED (a
 * feature that we lack, named), TOO_LARGE, NO_MEMORY. */
enum status tokenizer_open(struct arena *arena, struct arena *scratch, struct bytes json,
                           const char *name, struct tokenizer **out, struct error *error) MUST_USE;
/* Gives back the machine code of the patterns; the rest goes with the arena. */
void tokenizer_close(struct tokenizer *tokenizer);

/* Arena bytes that suffice for a file of `json_bytes`: for tokenizer_open's two arenas. */
size_t tokenizer_arena_bytes(size_t json_bytes);
size_t tokenizer_open_scratch_bytes(size_t json_bytes);

/* One more than the largest id with a meaning (128815 for DeepSeek-V3; its model has 129280 rows).
 * Ids beyond it are legal below: they have no bytes. */
uint32_t tokenizer_vocab_count(const struct tokenizer *tokenizer);

/* The raw bytes a token stands for, not always whole characters; empty for unused ids. */
struct bytes tokenizer_token_bytes(const struct tokenizer *tokenizer, uint32_t id);
bool tokenizer_token_is_special(const struct tokenizer *tokenizer, uint32_t id);
bool tokenizer_token_is_added(const struct tokenizer *tokenizer, uint32_t id); /* special or not */

/* The tokens that the file puts around a plain prompt. */
const struct prompt_frame *tokenizer_frame(const struct tokenizer *tokenizer);

/* The token that is exactly this text: an added token first, else an ordinary one. */
bool tokenizer_find(const struct tokenizer *tokenizer, struct bytes content, uint32_t *id_out);

/* The added token, special or not, that is exactly this text. */
bool tokenizer_find_added(const struct tokenizer *tokenizer, struct bytes content,
                          uint32_t *id_out);

/* Working memory for texts of up to text_bytes_max bytes, about 21 times that plus 2.5 MiB; only
 * what long words need is touched. NULL when the arena is too small. */
struct tokenizer_scratch *tokenizer_scratch_create(struct arena *arena, size_t text_bytes_max);
size_t tokenizer_scratch_bytes(size_t text_bytes_max); /* arena bytes that suffice */

/* Where a text is plain: an added token is recognized only where none of its bytes is plain. The
 * spans come in order and do not overlap; the last may reach beyond the text. They decide about
 * added tokens and nothing else: words are cut and merged across a span's ends. */
struct plain_text {
    const struct text_span *spans; /* [count] */
    size_t count;
};

extern const struct plain_text plain_text_nowhere, plain_text_everywhere;

/* Encodes `text`. Added tokens (special ones or not, as the tokenizers library does) are recognized
 * in it where it is not plain. Invalid UTF-8 parts become U+FFFD first; a text that is plain in
 * parts must be valid. An id never needs more than one byte of (repaired) text, so capacity = text
 * bytes (3 times that if the text may be invalid) always suffices. STATUS_FULL: capacity is short;
 * *count_out is then the number of ids needed, and ids is filled with the first `capacity` of them.
 * STATUS_TOO_LARGE: the text, once repaired, exceeds the scratch's limit, or a pattern gave up on
 * it. STATUS_INVALID: it is plain in parts and no valid UTF-8. */
enum status tokenizer_encode(const struct tokenizer *tokenizer, struct tokenizer_scratch *scratch,
                             struct bytes text, struct plain_text plain, uint32_t *ids,
                             size_t capacity, size_t *count_out) MUST_USE;

/* No encoding of `text` has fewer tokens: bytes that stand in short tokens only need many. One pass
 * over the text, far faster than encoding it. 0 for an empty text alone. */
size_t tokenizer_count_min(const struct tokenizer *tokenizer, struct bytes text);

/* Like tokenizer_encode, but stops as soon as there are certainly more ids than `capacity`: returns
 * STATUS_FULL then, *count_out is a lower bound of the count, and `ids` is undefined. */
enum status tokenizer_encode_within(const struct tokenizer *tokenizer,
                                    struct tokenizer_scratch *scratch, struct bytes text,
                                    struct plain_text plain, uint32_t *ids, size_t capacity,
                                    size_t *count_out) MUST_USE;

/* Text of the ids, invalid UTF-8 replaced by U+FFFD. Ids without bytes vanish, and so do special
 * ones if `skip_special`. STATUS_FULL: capacity is short; *count_out is then the bytes needed, and
 * nothing useful is in out. */
enum status tokenizer_decode(const struct tokenizer *tokenizer, const uint32_t *ids,
                             size_t id_count, bool skip_special, char *out, size_t capacity,
                             size_t *count_out) MUST_USE;

#endif
