/* SPDX-License-Identifier: Apache-2.0
 * Configuration files: one flat YAML mapping; its keys are the names of a command's options.
 */
#pragma once

#include "base/options.h"

/* An options_read_config: sets every option that the file at `path` gives. STATUS_INVALID names the
 * file, the key and, for an unknown key, the nearest known one. */
enum status config_file_read(const char *path, const struct option_table *table, void *values,
                             struct error *error);

/* The same, on text in memory. */
enum status config_file_parse(struct bytes text, const char *path, const struct option_table *table,
                              void *values, struct error *error);
