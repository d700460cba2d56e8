/* SPDX-License-Identifier: Apache-2.0
 * Core attention of a batch's prompt tokens, in the expanded form. Used by attention.c alone.
 */
#pragma once

#include "compute/model/pass.h"

/* Reads scratch.q and the KV pages, and writes scratch.attended. */
void attention_prompt_run(const struct pass *pass);
