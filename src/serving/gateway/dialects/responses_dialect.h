/* SPDX-License-Identifier: Apache-2.0
 * OpenAI's Responses API, without the parts that need stored answers.
 */
#ifndef SERVING_GATEWAY_DIALECTS_RESPONSES_DIALECT_H
#define SERVING_GATEWAY_DIALECTS_RESPONSES_DIALECT_H

#include "serving/gateway/api/dialect.h"

extern const struct dialect responses_dialect;

#endif
