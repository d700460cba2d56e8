/* SPDX-License-Identifier: Apache-2.0
 * Says whether constraints can be held, before anything is computed for who asks: compiles each as
 * a rank will, and keeps nothing but the verdict. A hostile one takes up to a second, so this has a
 * thread of its own; of the last ones the verdicts are remembered, since clients ask for the same
 * again and again.
 */
#pragma once

#include "base/bytes.h"
#include "contract/record_client.h"
#include "serving/text/tokenizer.h"

struct constraint_validator;

/* The tokenizer lives as long. */
enum status constraint_validator_open(const struct tokenizer *tokenizer,
                                      struct constraint_validator **verify_out,
                                      struct error *error) MUST_USE;

/* NULL is closed, too. */
void constraint_validator_close(struct constraint_validator *verify);

/* *error says why; it is empty if it holds. The verdict is remembered: where there are too many, the
 * client that has most of them loses one first. One thread at a time. */
enum constraint_verdict constraint_validator_ask(struct constraint_validator *verify,
                                                 uint64_t client, struct bytes text,
                                                 struct error *error);

/* Constraints compiled so far: the others were remembered. */
uint64_t constraint_validator_compiled(const struct constraint_validator *verify);
