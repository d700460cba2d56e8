/* SPDX-License-Identifier: Apache-2.0
 * A checkpoint of random weights that lies in memory, not in files: to time a shape at its real
 * size without writing it first. Tensors of one type share their bytes, so it is as large as the
 * largest of them; a model that packs it has as many weights as any other. FP8 codes are spread
 * evenly, scaled so that a product's results are of its inputs' size; norms are 1, biases 0.
 */
#pragma once

#include "compute/weights/checkpoint.h"

/* The shape has no MTP layers. The checkpoint is closed with checkpoint_close. */
enum status random_tensors_open(const struct shape *shape, struct checkpoint **checkpoint_out,
                                struct error *error) MUST_USE;
