/* SPDX-License-Identifier: Apache-2.0
 * Merges shape programs into one, for forms with several schemas.
 */
#pragma once

#include "serving/grammar/schema/value_shape.h"

/* Copies all programs into one, which refers to the same DFAs. roots_out [count] receives the
 * numbers of their roots in the new program. STATUS_NO_MEMORY. */
enum status shape_join(struct arena *arena, const struct shape_program *const *programs,
                       size_t count, uint32_t *roots_out,
                       const struct shape_program **out) MUST_USE;
