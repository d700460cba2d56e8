/* SPDX-License-Identifier: Apache-2.0
 * The names of the one model that is served. Answers use the first of the served names. DeepSeek's
 * two names are added if the chat template supports thinking; they switch it on and off. With the
 * served name "*" any other name is the first one, and answers repeat the name that was asked for.
 */
#pragma once

#include "serving/gateway/api/api_request.h"

#define MODELS_SERVED_MAX 16
#define MODELS_NAME_BYTES_MAX API_MODEL_NAME_BYTES_MAX

struct models {
    struct api_model names[MODELS_SERVED_MAX + 2];
    uint32_t count;
    bool any; /* "*" is among the served names, and not in `names` */
};

/* The most bytes that models_list writes, including the terminator. */
#define MODELS_LIST_BYTES ((MODELS_SERVED_MAX + 2) * (MODELS_NAME_BYTES_MAX + 1))

/* The thinking modes that the template supports. chat_template NULL: there is none. */
enum chat_thought models_thought(const struct chat_template *chat_template);

/* `names`: served names, separated by commas; they must stay valid. STATUS_INVALID: *error has the
 * name that is not acceptable. */
enum status models_open(struct models *models, struct bytes names, enum chat_thought thought,
                        struct error *error) MUST_USE;

/* Writes all names in order, separated by commas. */
void models_list(const struct models *models, char out[static MODELS_LIST_BYTES]);

/* Finds a model by name (api_values_find_model). With `any`, a name of no model is the first one.
 * NULL: there is none. */
const struct api_model *models_find(const struct models *models, struct bytes name);

/* True if bit `index` of `denied` is not set; else sets *error to 404. */
bool models_allow(const struct models *models, uint64_t denied, uint32_t index,
                  struct api_error *error);
