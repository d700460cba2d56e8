/* SPDX-License-Identifier: Apache-2.0
 * The table of all fields that a body can have at its top: one row for each name and meaning. What
 * a field does follows from its row: reading it, refusing it by name, ignoring it, and its place in
 * the document of /openapi.json. No field that would change the answer is ignored in silence: one
 * without a row is named in the client's warning. api_inner.h has the members of objects inside.
 *
 *   READ      goes into the inner request: by kind and range, or by a function of its own
 *   OWN       the dialect reads it itself (struct dialect's `read`): it belongs to others
 *   NEUTRAL   changes nothing about an answer, and is ignored
 *   REFUSED   would change the answer, and is not done here: 400, unless the value asks for nothing
 */
#ifndef SERVING_GATEWAY_API_API_FIELD_H
#define SERVING_GATEWAY_API_API_FIELD_H

#include "serving/gateway/api/api_reader.h"
#include "serving/gateway/api/api_request.h"

enum api_field_use { API_FIELD_READ, API_FIELD_OWN, API_FIELD_NEUTRAL, API_FIELD_REFUSED };

enum api_field_kind { /* of its value */
                      API_KIND_ANY,
                      API_KIND_FLAG,    /* bool */
                      API_KIND_NUMBER,  /* float */
                      API_KIND_INTEGER, /* uint32_t */
                      API_KIND_TEXT,    /* struct bytes */
                      API_KIND_ARRAY,   /* const struct tree * */
                      API_KIND_OBJECT   /* const struct tree * */
};

struct api_field {
    const char *name;
    uint32_t dialects; /* a bit for each (enum dialect_number) */
    enum api_field_use use;
    enum api_field_kind kind;
    double low, high; /* of numbers and integers */
    uint32_t offset;  /* of the member of struct api_request that it goes to */
    /* In place of kind and member; `value` is not null. */
    bool (*read)(struct api_reader *reader, const struct tree *value, struct api_request *out);
    /* REFUSED: values that are no reason to, split by spaces. `only`: they and null alone; `fine`:
     * beside all that asks for nothing (api_reader_is_neutral). */
    const char *fine, *only;
    const char *words; /* what it means; REFUSED: what to do without it */
};

/* NULL: the dialect has no such field. */
const struct api_field *api_field_find(const struct dialect *dialect, struct bytes name);

/* Rows of the table, from 0; NULL behind the last. */
const struct api_field *api_field_at(size_t index);

#endif
