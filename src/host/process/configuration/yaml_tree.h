/* SPDX-License-Identifier: Apache-2.0
 * Parses YAML text to a tree (base/tree.h), for scenarios, hardware and models. Mappings become
 * objects, sequences become arrays. Plain scalars have the types of YAML 1.2's core schema: null,
 * booleans, integers (decimal, 0o and 0x) and real numbers. All other scalars, and all quoted ones,
 * are strings. An integer beyond 64 bits becomes a real number.
 *
 * A file is one document. Anchors, aliases, tags, keys that are not scalars, duplicate keys,
 * infinities and NaN are rejected, so that a short text cannot become a large tree.
 */
#pragma once

#include "base/tree.h"

#define YAML_TREE_BYTES_MAX ((size_t)16 << 20)
#define YAML_TREE_DEPTH_MAX 24

/* STATUS_INVALID with the line and what was wrong there; STATUS_TOO_LARGE beyond the limits above;
 * STATUS_NO_MEMORY: the arena is too small (64 bytes per byte of text are always enough). `name`
 * stands for the text in messages. */
enum status yaml_tree_parse(struct arena *arena, struct bytes text, const char *name,
                            const struct tree **root_out, struct error *error) MUST_USE;

/* yaml_tree_parse with every scalar as a string, spelled as in the text; the root of a text without
 * a document is NULL. */
enum status yaml_tree_parse_words(struct arena *arena, struct bytes text, const char *name,
                                  const struct tree **root_out, struct error *error) MUST_USE;

/* yaml_tree_parse for the file at `path`. */
enum status yaml_tree_read(struct arena *arena, const char *path, const struct tree **root_out,
                           struct error *error) MUST_USE;
