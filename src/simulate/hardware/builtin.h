/* SPDX-License-Identifier: Apache-2.0
 * The hardware, model, prices and scenario files of twin/, embedded in the binary unchanged.
 */
#pragma once

#include "base/bytes.h"

enum builtin_kind { BUILTIN_HARDWARE, BUILTIN_MODEL, BUILTIN_PRICES, BUILTIN_SCENARIO };

/* YAML text. `data` is NULL if no file of that kind has the name ("h800", "deepseek-v3"). */
struct bytes builtin_text(enum builtin_kind kind, struct bytes name);

/* The names of a kind by index, NULL after the last. */
const char *builtin_name(enum builtin_kind kind, uint32_t index);
