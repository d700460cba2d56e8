/* SPDX-License-Identifier: Apache-2.0
 * The model that comes with Fathom, for commands without a model option.
 */
#pragma once

#include <stddef.h>

#include "base/status.h"

#define DEFAULT_MODEL "tiny-r1"

/* Finds the directory of tiny-r1: ../models/ next to the executable's directory (a build tree), or
 * ../share/fathom/models/ (an installation). STATUS_NOT_FOUND names the directories. */
enum status default_model_find(char *path_out, size_t path_bytes, struct error *error) MUST_USE;
