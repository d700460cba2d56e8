/* SPDX-License-Identifier: Apache-2.0
 * Changes to a scenario before it is read. A setting is "a.b[0].c=value": the path of a key, and
 * what stands there from now on, written as JSON or as plain text. Trees are never changed: an
 * edit makes a new one, which shares what is the same.
 *
 * A scenario names its hardware, model and prices; resolving it puts what those names stand for in
 * their places, so that a setting may reach into them (hardware.hbm_gbps=4000).
 */
#ifndef SIMULATE_SCENARIO_SCENARIO_EDIT_H
#define SIMULATE_SCENARIO_SCENARIO_EDIT_H

#include "base/status.h"
#include "base/tree.h"

/* Who knows what names stand for. `key`: "hardware", "model" or "prices". */
struct scenario_library {
    void *context;
    enum status (*find)(void *context, struct arena *arena, const char *key, struct bytes name,
                        const struct tree **tree_out, struct error *error);
};

/* One setting on a tree. Where the value there is {value: …, source: …}, the value is set, and the
 * source says so. STATUS_INVALID: no such path. */
enum status scenario_edit_set(struct arena *arena, const struct tree *root, const char *setting,
                              const struct tree **root_out, struct error *error) MUST_USE;

/* Settings of whole names first (hardware=h200), then names resolved, then the other settings in
 * their order. */
enum status scenario_edit_prepare(struct arena *arena, const struct tree *root,
                                  const char *const *settings, size_t setting_count,
                                  const struct scenario_library *library,
                                  const struct tree **root_out, struct error *error) MUST_USE;

#endif
