/* SPDX-License-Identifier: Apache-2.0
 * OpenAI's text completions: what follows a prompt, with the prompt in front of it if that was
 * asked for.
 */
#ifndef SERVING_GATEWAY_DIALECTS_COMPLETION_DIALECT_H
#define SERVING_GATEWAY_DIALECTS_COMPLETION_DIALECT_H

#include "serving/gateway/api/dialect.h"

extern const struct dialect completion_dialect;

#endif
