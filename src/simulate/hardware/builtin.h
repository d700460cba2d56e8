/* SPDX-License-Identifier: Apache-2.0
 * The hardware, model, prices and scenario files of twin/, embedded unchanged in the binary.
 */
#pragma once

#include "base/bytes.h"

enum builtin_kind { BUILTIN_HARDWARE, BUILTIN_MODEL, BUILTIN_PRICES, BUILTIN_SCENARIO };

/* The YAML text of a file by its name, such as "h800" or "deepseek-v3"; `data` is NULL if there is
 * none. */
struct bytes builtin_text(enum builtin_kind kind, struct bytes name);

/* The names of the files of a kind, by index; NULL after the last one. */
const char *builtin_name(enum builtin_kind kind, uint32_t index);
