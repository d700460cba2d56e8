/* SPDX-License-Identifier: Apache-2.0
 * Finds the features of a template by rendering tiny conversations with it: templates do not
 * declare them, and are too many to be recognized by their text. A rendering that fails shows that
 * the template does not support that form.
 */
#ifndef SERVING_TEXT_CHAT_PROBE_H
#define SERVING_TEXT_CHAT_PROBE_H

#include "serving/text/chat_values.h"

enum chat_thought {
    CHAT_THOUGHT_NEVER,   /* no template of a model that thinks */
    CHAT_THOUGHT_ALWAYS,  /* the model thinks, or does not, as it likes: nothing asks it to */
    CHAT_THOUGHT_SWITCHED /* by the variables `thinking` and `enable_thinking` */
};

struct chat_findings {
    struct chat_facts facts;
    enum chat_thought thought;
    bool thinks_by_default;
    bool prints_tools;
    bool reads_documents;
};

/* `source` has a template. `scratch` is cleared by every probe. */
void chat_probe(const struct chat_source *source, struct arena *scratch, struct chat_findings *out);

#endif
