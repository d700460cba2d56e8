/* SPDX-License-Identifier: Apache-2.0
 * Core attention of a batch's prompt tokens, expanded form; inside of attention.c.
 */
#pragma once

#include "compute/model/pass.h"

/* From scratch.q and the pages to scratch.attended. */
void attention_prompt_run(const struct pass *pass);
