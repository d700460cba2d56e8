/* SPDX-License-Identifier: Apache-2.0
 * OpenAI's text completions: the continuation of a prompt, after the prompt itself if `echo` is
 * set.
 */
#ifndef SERVING_GATEWAY_DIALECTS_COMPLETION_DIALECT_H
#define SERVING_GATEWAY_DIALECTS_COMPLETION_DIALECT_H

#include "serving/gateway/api/dialect.h"

extern const struct dialect completion_dialect;

#endif
