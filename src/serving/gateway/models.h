/* SPDX-License-Identifier: Apache-2.0
 * The names under which the one model is asked for: those it is served under, the first of which
 * answers tell, and DeepSeek's two, which ask for thinking or for none, where its chat template can
 * do what they say.
 */
#ifndef SERVING_GATEWAY_MODELS_H
#define SERVING_GATEWAY_MODELS_H

#include "serving/gateway/api/api_request.h"

#define MODELS_SERVED_MAX 16
#define MODELS_NAME_BYTES_MAX 256 /* of each */

struct models {
    struct api_model names[MODELS_SERVED_MAX + 2];
    uint32_t count;
};

/* What models_list writes at most, with its terminator. */
#define MODELS_LIST_BYTES ((MODELS_SERVED_MAX + 2) * (MODELS_NAME_BYTES_MAX + 1))

/* What the template (NULL: there is none) lets a model think. */
enum chat_thought models_thought(const struct chat_template *chat_template);

/* `names`: one, or several split by commas; kept. STATUS_INVALID names the one that will not do. */
enum status models_open(struct models *models, struct bytes names, enum chat_thought thought,
                        struct error *error) MUST_USE;

/* All names in their order, with commas between. */
void models_list(const struct models *models, char out[static MODELS_LIST_BYTES]);

/* NULL: there is none of this name; "default" is the first one. */
const struct api_model *models_find(const struct models *models, struct bytes name);

/* Of the names' bits in `denied`, that of names[index] is not set; else *error is 404. */
bool models_allow(const struct models *models, uint64_t denied, uint32_t index,
                  struct api_error *error);

#endif
