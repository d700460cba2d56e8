/* SPDX-License-Identifier: Apache-2.0
 * Answers of `chat` from a model in this process. It runs the model without a unit, as a single
 * user needs no scheduling.
 */
#pragma once

#include "programs/chat_parts.h"

struct chat_model;

enum status chat_model_open(const struct chat_values *values, struct chat_model **model_out,
                            struct error *error) MUST_USE;
void chat_model_close(struct chat_model *model);

/* Answers a conversation. STATUS_TOO_LARGE: it does not fit the context. */
enum status chat_model_answer(struct chat_model *model, const struct chat_values *values,
                              const struct chat_conversation *conversation,
                              const struct chat_sink *sink, enum chat_end *end_out,
                              struct error *error) MUST_USE;
