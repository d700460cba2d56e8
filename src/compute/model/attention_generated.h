/* SPDX-License-Identifier: Apache-2.0
 * Core attention of a batch's generated tokens, absorbed form; inside of attention.c.
 */
#pragma once

#include "compute/model/pass.h"

/* From scratch.q and the pages to scratch.attended: of the batch's tokens [first, end). */
void attention_generated_run(const struct pass *pass, uint32_t first, uint32_t end);
