/* SPDX-License-Identifier: Apache-2.0
 * OpenAI's Responses API, without the parts that need stored answers.
 */
#pragma once

#include "serving/gateway/api/dialect.h"

extern const struct dialect responses_dialect;
