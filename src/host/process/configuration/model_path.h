/* SPDX-License-Identifier: Apache-2.0
 * The directory of a model, from what a user gave as one. Every command that takes a model asks
 * here. Whatever is no model that Fathom reads (a hub's name, PyTorch weights, a folder above the
 * model, Git LFS pointers) is refused with the remedy. The files' contents are checked later, by
 * compute/weights.
 */
#pragma once

#include <limits.h>

#include "base/status.h"

/* Writes the directory of config.json: `given` itself, or the snapshot in a folder of the hub's
 * cache; or the path of a GGUF file: `given`, or the only model in such a folder, of a split one
 * the first file. NULL: the model that comes with Fathom. */
enum status model_path_find(const char *given, char path_out[static PATH_MAX],
                            struct error *error) MUST_USE;

/* The model's name: the last component of the path, after links are resolved, of a GGUF file
 * without its end, or the repository's name for a snapshot in the hub's cache. */
void model_path_name(const char *path, char name_out[static 256]);
