/* SPDX-License-Identifier: Apache-2.0
 * Checks constraints before any computation for their requests. It compiles each as a rank will,
 * and keeps only the verdict. A hostile constraint takes up to a second, so the validator has a
 * thread of its own. The latest verdicts are cached, because clients repeat their constraints.
 */
#pragma once

#include "base/bytes.h"
#include "contract/record_client.h"
#include "serving/text/tokenizer.h"

struct constraint_validator;

/* The tokenizer must outlive the validator. */
enum status constraint_validator_open(const struct tokenizer *tokenizer,
                                      struct constraint_validator **verify_out,
                                      struct error *error) MUST_USE;

/* NULL is allowed. */
void constraint_validator_close(struct constraint_validator *verify);

/* Validates a constraint. *error has the reason if it is invalid, and is empty otherwise. The
 * verdict is cached. If the cache is full, the client with most verdicts loses one. Only one thread
 * may call it at a time. */
enum constraint_verdict constraint_validator_ask(struct constraint_validator *verify,
                                                 uint64_t client, struct bytes text,
                                                 struct error *error);

/* The number of constraints compiled so far; all other calls were served from the cache. */
uint64_t constraint_validator_compiled(const struct constraint_validator *verify);
