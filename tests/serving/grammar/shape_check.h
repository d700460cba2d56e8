/* SPDX-License-Identifier: Apache-2.0
 * Whether a value lies in a shape, told from the value's tree: what the compiler of schemas made is
 * checked without the matcher.
 */
#pragma once

#include "base/tree.h"
#include "serving/grammar/schema/value_shape.h"

bool shape_check(const struct shape_program *program, const struct tree *value);
