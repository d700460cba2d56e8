/* SPDX-License-Identifier: Apache-2.0
 * A layer's attention; part of the seam (compute/model/compute.h).
 */
#ifndef COMPUTE_MODEL_ATTENTION_H
#define COMPUTE_MODEL_ATTENTION_H

#include "compute/model/pass.h"

/* Reads x: queries, and the batch's KV rows, written to their pages; the core of pass.early tokens. */
void attention_begin(const struct pass *pass);
/* The others' core and the output projection; leaves what is to be added to x. */
void attention_finish(const struct pass *pass);
/* The KV rows, and nothing else. */
void attention_write_rows(const struct pass *pass);

#endif
