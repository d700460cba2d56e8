/* SPDX-License-Identifier: Apache-2.0
 * Anthropic's Messages API, and its count_tokens endpoint, which takes the same body.
 */
#pragma once

#include "serving/gateway/api/dialect.h"

extern const struct dialect anthropic_dialect, anthropic_count_dialect;
