/* SPDX-License-Identifier: Apache-2.0
 * OpenAI's text completions: the continuation of a prompt, after the prompt itself if `echo` is
 * set.
 */
#pragma once

#include "serving/gateway/api/dialect.h"

extern const struct dialect completion_dialect;
