/* SPDX-License-Identifier: Apache-2.0
 * Changes to a scenario before it is read. A setting is "a.b[0].c=value": the path of a key and its
 * new value, as JSON or plain text. Trees are immutable: an edit makes a new tree that shares the
 * unchanged parts.
 *
 * A scenario names its hardware, model and prices. Resolving replaces these names by the objects
 * that they refer to, so that a setting can change a part of such an object
 * (hardware.hbm_gbps=4000).
 */
#pragma once

#include "base/status.h"
#include "base/tree.h"

/* Finds the object for a name. `key` is "hardware", "model" or "prices". */
struct scenario_library {
    void *context;
    enum status (*find)(void *context, struct arena *arena, const char *key, struct bytes name,
                        const struct tree **tree_out, struct error *error);
};

/* Applies one setting to a tree. If the old value is {value: …, source: …}, both are replaced.
 * Returns STATUS_INVALID if there is no such path. */
enum status scenario_edit_set(struct arena *arena, const struct tree *root, const char *setting,
                              const struct tree **root_out, struct error *error) MUST_USE;

/* Applies the settings of whole names (hardware=h200), then resolves all names, then applies the
 * other settings in their order. */
enum status scenario_edit_prepare(struct arena *arena, const struct tree *root,
                                  const char *const *settings, size_t setting_count,
                                  const struct scenario_library *library,
                                  const struct tree **root_out, struct error *error) MUST_USE;
