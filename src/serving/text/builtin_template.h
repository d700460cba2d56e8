/* SPDX-License-Identifier: Apache-2.0
 * The built-in chat templates (models/templates). Each is that of a release of DeepSeek, with a
 * place for tools, which the published one lacks. Without tools and calls it writes the same bytes.
 * V3.2's release has a program in place of a template, and the built-in one writes its bytes. Two
 * are not complete: they stand before another template and put tools, calls and results, or calls
 * alone (kimi-k2), into the texts of messages.
 *
 * A checkpoint whose template has no place for tools gets the built-in one that suits it, for
 * requests with tools alone. It is recognized by the texts and names in the checkpoint's template,
 * not by the model's name, so that fine-tuned models get it, too.
 */
#pragma once

#include "serving/jinja/evaluate/jinja.h"

struct builtin_template {
    const char *name;  /* for --chat-template */
    const char *about; /* the releases that it is for */
    struct bytes text; /* Jinja */
    bool is_front;     /* not complete: it stands before the checkpoint's template */
};

#define BUILTIN_TEMPLATE_COUNT 8

/* In the order of the releases. */
struct builtin_template builtin_template_at(size_t index);

/* Returns false if no complete template has this name. */
bool builtin_template_find(struct bytes name, struct builtin_template *out);

/* The one for a checkpoint without a template, by the architecture that its config.json names.
 * Returns false if there is none. */
bool builtin_template_stand_in(struct bytes architecture, struct builtin_template *out);

/* The one that suits a model with this template, which leaves out tools, or (`prints_tools`) calls
 * alone. Returns false if none does. */
bool builtin_template_suit(const struct jinja_program *own, bool prints_tools,
                           struct builtin_template *out);
