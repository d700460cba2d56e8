/* SPDX-License-Identifier: Apache-2.0
 * A checkpoint of random weights in memory instead of files, to time a shape at its real size
 * without writing it first. Tensors of one type share their bytes, so it needs memory only for the
 * largest of them; the packed model has its full size. Codes are evenly distributed, with scales
 * that keep outputs of a product at the magnitude of its inputs. Norms are 1 and biases 0.
 */
#pragma once

#include "compute/weights/checkpoint.h"

/* The shape must have no MTP layers. Close the checkpoint with checkpoint_close. */
enum status random_tensors_open(const struct shape *shape, struct checkpoint **checkpoint_out,
                                struct error *error) MUST_USE;
