/* SPDX-License-Identifier: Apache-2.0
 * Changes to a scenario before it is read. A setting is "a.b[0].c=value": the path of a key, and
 * its new value, written as JSON or as plain text. Trees are never changed: an edit makes a new
 * one, which shares the unchanged parts.
 *
 * A scenario names its hardware, model and prices. Resolving it replaces the names by the objects
 * that they refer to, so that a setting may change a part of them (hardware.hbm_gbps=4000).
 */
#pragma once

#include "base/status.h"
#include "base/tree.h"

/* Resolves names. `key`: "hardware", "model" or "prices". */
struct scenario_library {
    void *context;
    enum status (*find)(void *context, struct arena *arena, const char *key, struct bytes name,
                        const struct tree **tree_out, struct error *error);
};

/* Applies one setting to a tree. If the old value is {value: …, source: …}, the value is set, and
 * its source is replaced. Returns STATUS_INVALID if there is no such path. */
enum status scenario_edit_set(struct arena *arena, const struct tree *root, const char *setting,
                              const struct tree **root_out, struct error *error) MUST_USE;

/* Applies settings of whole names first (hardware=h200), then resolves names, then applies the
 * other settings in their order. */
enum status scenario_edit_prepare(struct arena *arena, const struct tree *root,
                                  const char *const *settings, size_t setting_count,
                                  const struct scenario_library *library,
                                  const struct tree **root_out, struct error *error) MUST_USE;
