/* SPDX-License-Identifier: Apache-2.0
 * The table of all top-level fields of a body, with one row for each name and meaning. A row says
 * whether its field is read, refused by name or ignored, and describes it in /openapi.json. No
 * field that would change the answer is ignored silently. Fields without a row are listed in a
 * warning to the client. api_inner.h has the members of nested objects.
 *
 *   READ      stored in the inner request: by kind and range, or by its own function
 *   OWN       read by the dialect (struct dialect's `read`), because it depends on other fields
 *   NEUTRAL   changes nothing about an answer, and is ignored
 *   REFUSED   would change the answer, and is not supported: 400, unless the value is neutral
 */
#pragma once

#include "serving/gateway/api/api_reader.h"
#include "serving/gateway/api/api_request.h"

enum api_field_use { API_FIELD_READ, API_FIELD_OWN, API_FIELD_NEUTRAL, API_FIELD_REFUSED };

enum api_field_kind { /* JSON type of the value */
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
    uint32_t dialects; /* bit (1 << enum dialect_number) for each dialect that has it */
    enum api_field_use use;
    enum api_field_kind kind;
    double low, high; /* range of numbers and integers */
    uint32_t offset;  /* offset of the member of struct api_request that stores it */
    /* Reader in place of kind and offset; NULL: none. `value` is not null. */
    bool (*read)(struct api_reader *reader, const struct tree *value, struct api_request *out);
    /* REFUSED: accepted values, separated by spaces. `only`: just these and null. `fine`: these and
     * all neutral values (api_reader_is_neutral). */
    const char *fine, *only;
    const char *words; /* its description; REFUSED: the alternative, for the error */
};

/* Finds a dialect's field by name. NULL: it has no such field. */
const struct api_field *api_field_find(const struct dialect *dialect, struct bytes name);

/* Rows of the table, from 0; NULL after the last. */
const struct api_field *api_field_at(size_t index);
