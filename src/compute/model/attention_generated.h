/* SPDX-License-Identifier: Apache-2.0
 * Core attention of a batch's generated tokens, in the absorbed form. Used by attention.c alone.
 */
#pragma once

#include "compute/model/pass.h"

/* Reads scratch.q and the KV pages, and writes scratch.attended of tokens [first, end). */
void attention_generated_run(const struct pass *pass, uint32_t first, uint32_t end);
