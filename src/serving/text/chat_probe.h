/* SPDX-License-Identifier: Apache-2.0
 * Detects the features of a template by rendering tiny conversations with it. Templates do not
 * declare features, and are too many to be recognized by their text. If a rendering fails, the
 * template does not support the tested form.
 */
#pragma once

#include "serving/text/chat_values.h"

enum chat_thought {
    CHAT_THOUGHT_NEVER,   /* the template is for a model without reasoning */
    CHAT_THOUGHT_ALWAYS,  /* the template has no switch: the model decides whether it reasons */
    CHAT_THOUGHT_SWITCHED /* the variables `thinking` and `enable_thinking` switch it */
};

struct chat_findings {
    struct chat_facts facts;
    enum chat_thought thought;
    bool thinks_by_default;
    bool prints_tools, prints_calls;
    bool reads_documents;
};

/* Probes a source, which must have a template. Every probe clears `scratch`. */
void chat_probe(const struct chat_source *source, struct arena *scratch, struct chat_findings *out);
