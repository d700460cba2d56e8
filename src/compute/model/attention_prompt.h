/* SPDX-License-Identifier: Apache-2.0
 * Core attention of a batch's prompt tokens, expanded form; inside of attention.c.
 */
#ifndef COMPUTE_MODEL_ATTENTION_PROMPT_H
#define COMPUTE_MODEL_ATTENTION_PROMPT_H

#include "compute/model/pass.h"

/* From scratch.q and the pages to scratch.attended. */
void attention_prompt_run(const struct pass *pass);

#endif
