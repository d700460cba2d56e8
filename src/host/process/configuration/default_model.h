/* SPDX-License-Identifier: Apache-2.0
 * The model that comes with Fathom, for commands that are given none.
 */
#pragma once

#include <stddef.h>

#include "base/status.h"

/* Directory of tiny-r1: ../models/ next to the executable's directory (a build tree), else
 * ../share/fathom/models/ (an installation). NOT_FOUND names what was looked at. */
enum status default_model_find(char *path_out, size_t path_bytes, struct error *error) MUST_USE;
