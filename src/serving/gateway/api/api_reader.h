/* SPDX-License-Identifier: Apache-2.0
 * Reads and validates single values of a request's body. Errors name the value. null is treated
 * like an absent value. Each reader leaves *out unchanged if the value is absent, and returns false
 * with the error set if the value is not acceptable.
 */
#pragma once

#include "base/arena.h"
#include "base/tree.h"
#include "serving/gateway/api/api_error.h"

struct dialect;
struct api_defaults;

struct api_place { /* path of the value: "messages[3].content[0]" */
    char text[64];
};

struct api_reader {
    struct arena *arena; /* memory of the values that are read */
    const struct dialect *dialect;
    const struct api_defaults *defaults;
    const struct tree *root; /* the body: an object */
    struct api_error *error;
    const struct api_place *tool_places; /* path of each tool; NULL: tools[0] and so on */
};

struct api_place api_reader_place_of(const char *list, size_t index, const char *rest);

/* ---- refusals; each returns false ---- */

bool api_reader_wrong_type(struct api_reader *reader, const char *param, const char *expected,
                           const struct tree *found);
/* The same for a number, except that one beyond 64 bits is out of range, with 422. */
bool api_reader_wrong_number(struct api_reader *reader, const char *param, const char *expected,
                             const struct tree *found);
bool api_reader_missing(struct api_reader *reader, const char *param);
bool api_reader_unsupported(struct api_reader *reader, const char *param, const char *why);
bool api_reader_no_memory(struct api_reader *reader);

/* "'place' needs `what`." */
bool api_reader_needs(struct api_reader *reader, const char *place, const char *what);

bool api_reader_refuse_type(struct api_reader *reader, const char *place,
                            const struct tree *object);

/* ---- values ---- */

/* Returns a member that is present and not null; else NULL. */
const struct tree *api_reader_given(const struct tree *object, const char *name);

/* Returns a member that is a string; else NULL. */
const struct tree *api_reader_string(const struct tree *object, const char *name);

/* Each reads the member `name` of `object`. Errors use the same name. */
bool api_reader_flag(struct api_reader *reader, const struct tree *object, const char *name,
                     bool *out);
bool api_reader_text(struct api_reader *reader, const struct tree *object, const char *name,
                     struct bytes *out);
bool api_reader_number(struct api_reader *reader, const struct tree *object, const char *name,
                       double low, double high, float *out);
bool api_reader_integer(struct api_reader *reader, const struct tree *object, const char *name,
                        int64_t low, int64_t high, uint32_t *out);
/* Reads one element of an array of token ids. */
bool api_reader_token(struct api_reader *reader, const char *name, const char *expected,
                      const struct tree *array, size_t index, uint32_t *out);

/* True if it is this string. */
bool api_reader_is(const struct tree *value, const char *expected);

/* True for an object with this string as its "type". */
bool api_reader_is_type(const struct tree *object, const char *type);

/* True if it is one of the words, which are separated by spaces. */
bool api_reader_has_word(const char *words, struct bytes word);

/* True for a string, number or boolean written as one of the words, which are separated by spaces
 * (NULL: none). */
bool api_reader_is_one_of(const struct tree *value, const char *words);

/* True for a neutral value: null, false, 0, "", [] or {}, or one of the words. */
bool api_reader_is_neutral(const struct tree *value, const char *words);
