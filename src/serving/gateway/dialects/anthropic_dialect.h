/* SPDX-License-Identifier: Apache-2.0
 * Anthropic's Messages API, and its counting of a prompt's tokens, which takes the same body.
 */
#pragma once

#include "serving/gateway/api/dialect.h"

extern const struct dialect anthropic_dialect, anthropic_count_dialect;
