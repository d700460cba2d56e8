/* SPDX-License-Identifier: Apache-2.0
 * What the parts of `chat` share: its options, and how an answer arrives and ends.
 */
#pragma once

#include "command/model_run.h"
#include "programs/answer_view.h"
#include "programs/conversation.h"
#include "programs/sampler.h"

struct chat_values {
    struct model_run_values run;
    const char *system, *url;
    const char *content_specials, *chat_template;
    double temperature, top_p;
    struct sampler_values sampler;
    uint64_t max_context, max_new, seed, top_k;
    bool history;
};

enum chat_end { CHAT_END_STOP, CHAT_END_LENGTH, CHAT_END_INTERRUPTED };

/* Receives an answer's text as it arrives: whole characters. */
struct chat_sink {
    void (*push)(void *context, enum answer_part part, struct bytes text);
    /* Describes the wait for the answer: visible characters of one line. */
    void (*wait)(void *context, const char *text);
    void *context;
};

/* Reports how much of the prompt is computed. `ready` is less than `total`. */
void chat_report_prompt(const struct chat_sink *sink, uint32_t ready, uint32_t total);
