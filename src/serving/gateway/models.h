/* SPDX-License-Identifier: Apache-2.0
 * The names of the one model: those it is served under, the first of which answers use, and
 * DeepSeek's two, which ask for thinking or for none if the chat template supports it.
 */
#pragma once

#include "serving/gateway/api/api_request.h"

#define MODELS_SERVED_MAX 16
#define MODELS_NAME_BYTES_MAX 256 /* of each */

struct models {
    struct api_model names[MODELS_SERVED_MAX + 2];
    uint32_t count;
};

/* Bytes that models_list writes at most, with its terminator. */
#define MODELS_LIST_BYTES ((MODELS_SERVED_MAX + 2) * (MODELS_NAME_BYTES_MAX + 1))

/* The thinking that the template supports (NULL: there is no template). */
enum chat_thought models_thought(const struct chat_template *chat_template);

/* `names`: one, or several separated by commas; must stay valid. STATUS_INVALID names the one that
 * is not acceptable. */
enum status models_open(struct models *models, struct bytes names, enum chat_thought thought,
                        struct error *error) MUST_USE;

/* All names in their order, with commas between. */
void models_list(const struct models *models, char out[static MODELS_LIST_BYTES]);

/* NULL: there is none of this name; "default" is the first one. */
const struct api_model *models_find(const struct models *models, struct bytes name);

/* True if the bit of names[index] is not set in `denied`; else *error is 404. */
bool models_allow(const struct models *models, uint64_t denied, uint32_t index,
                  struct api_error *error);
