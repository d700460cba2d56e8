/* SPDX-License-Identifier: Apache-2.0
 * Byte-level BPE from a Hugging Face tokenizer.json, or from a tiktoken.model (tiktoken.h). It
 * converts text to token ids and back, with the same ids as the libraries `tokenizers` and
 * `tiktoken` without special tokens. tokenizer_frame returns the special tokens around a plain
 * prompt. The template of a chat writes its own.
 *
 * A tokenizer is immutable after tokenizer_open and may be shared by threads. Encoding needs a
 * scratch per thread, which is created once and never grows. Time is O(n log n) in the longest word
 * and linear in the text. tokenizer_open rejects unsupported features of a file by name.
 *
 * The documentation of the tokenizers library describes the formats (pre-tokenizers, added tokens,
 * decoders). The byte-to-character table is GPT-2's bytes_to_unicode.
 */
#pragma once

#include "base/arena.h"
#include "base/limits.h"
#include "serving/text/prompt_frame.h"

struct tokenizer;
struct tokenizer_scratch;

/* Reads the bytes of tokenizer.json. The tokenizer is allocated in `arena`. `scratch` is used only
 * while reading. Neither it nor `json` is referenced later. Messages use `name` for the file.
 * Errors: STATUS_INVALID (not JSON, or malformed), STATUS_UNSUPPORTED (names the feature),
 * STATUS_TOO_LARGE, STATUS_NO_MEMORY. */
enum status tokenizer_open(struct arena *arena, struct arena *scratch, struct bytes json,
                           const char *name, struct tokenizer **out, struct error *error) MUST_USE;
/* The files of a tokenizer of the `tiktoken` library. `config` is tokenizer_config.json; data NULL:
 * there is none. Other arguments and errors as in tokenizer_open. */
struct tiktoken_files {
    struct bytes model, config;
    const char *name, *config_name;
};
enum status tokenizer_open_tiktoken(struct arena *arena, struct arena *scratch,
                                    struct tiktoken_files files, struct tokenizer **out,
                                    struct error *error) MUST_USE;

/* Frees the machine code of the patterns. The rest is freed with the arena. */
void tokenizer_close(struct tokenizer *tokenizer);

/* The sizes of tokenizer_open's two arenas that suffice for a file of `json_bytes`. */
size_t tokenizer_arena_bytes(size_t json_bytes);
size_t tokenizer_open_scratch_bytes(size_t json_bytes);

/* The same for tokenizer_open_tiktoken. */
size_t tokenizer_tiktoken_arena_bytes(const struct tiktoken_files *files);
size_t tokenizer_tiktoken_scratch_bytes(const struct tiktoken_files *files);

/* One more than the largest used id (128815 for DeepSeek-V3, which has 129280 rows). Larger ids are
 * allowed below and have no bytes. */
uint32_t tokenizer_vocab_count(const struct tokenizer *tokenizer);

/* The raw bytes of a token, which may be partial characters. They are empty for unused ids. */
struct bytes tokenizer_token_bytes(const struct tokenizer *tokenizer, uint32_t id);
bool tokenizer_token_is_special(const struct tokenizer *tokenizer, uint32_t id);
bool tokenizer_token_is_added(const struct tokenizer *tokenizer, uint32_t id); /* special or not */

/* The tokens that the file puts around a plain prompt. */
const struct prompt_frame *tokenizer_frame(const struct tokenizer *tokenizer);

/* Finds the token that is exactly this text: an added token first, else an ordinary one. */
bool tokenizer_find(const struct tokenizer *tokenizer, struct bytes content, uint32_t *id_out);

/* Finds the added token, special or not, that is exactly this text. */
bool tokenizer_find_added(const struct tokenizer *tokenizer, struct bytes content,
                          uint32_t *id_out);

/* Allocates working memory for texts of up to text_bytes_max bytes, about 21 times that plus 2.5
 * MiB. Memory for long words is touched only when needed. Returns NULL if memory is out. */
struct tokenizer_scratch *tokenizer_scratch_create(struct arena *arena, size_t text_bytes_max);
size_t tokenizer_scratch_bytes(size_t text_bytes_max); /* arena bytes that the scratch needs */

/* The plain parts of a text. An added token is recognized only if none of its bytes is plain. The
 * spans are ascending and do not overlap. The last may extend beyond the text. They affect only
 * added tokens, because words are split and merged across the ends of spans. */
struct plain_text {
    const struct text_span *spans; /* [count] */
    size_t count;
};

extern const struct plain_text plain_text_nowhere, plain_text_everywhere;

/* Encodes `text`. Added tokens (special or not, as in the tokenizers library) are recognized
 * outside the plain parts. Invalid UTF-8 is replaced by U+FFFD first, but a text that is plain in
 * parts must be valid. An id needs at least one byte of (repaired) text, so capacity = text bytes
 * (3 times that if the text may be invalid) always suffices. Returns STATUS_FULL if the capacity is
 * too small: *count_out is then the number of ids needed, and `ids` has the first `capacity` of
 * them. Returns STATUS_TOO_LARGE if the repaired text exceeds the scratch's limit or a pattern
 * exceeded its limit, and STATUS_INVALID if it is plain in parts and not valid UTF-8. */
enum status tokenizer_encode(const struct tokenizer *tokenizer, struct tokenizer_scratch *scratch,
                             struct bytes text, struct plain_text plain, uint32_t *ids,
                             size_t capacity, size_t *count_out) MUST_USE;

/* A lower bound of the number of tokens of any encoding of `text`. It accounts for bytes that occur
 * only in short tokens, and is 0 only for an empty text. One pass over the text computes it, far
 * faster than encoding. */
size_t tokenizer_count_min(const struct tokenizer *tokenizer, struct bytes text);

/* Like tokenizer_encode, but stops as soon as there are certainly more than `capacity` ids. It then
 * returns STATUS_FULL, *count_out is a lower bound of the number, and `ids` is undefined. */
enum status tokenizer_encode_within(const struct tokenizer *tokenizer,
                                    struct tokenizer_scratch *scratch, struct bytes text,
                                    struct plain_text plain, uint32_t *ids, size_t capacity,
                                    size_t *count_out) MUST_USE;

/* Decodes ids to text, with invalid UTF-8 replaced by U+FFFD. Ids without bytes are omitted, and so
 * are special ones if `skip_special`. Returns STATUS_FULL if the capacity is too small: *count_out
 * is then the number of bytes needed, and `out` is undefined. */
enum status tokenizer_decode(const struct tokenizer *tokenizer, const uint32_t *ids,
                             size_t id_count, bool skip_special, char *out, size_t capacity,
                             size_t *count_out) MUST_USE;
