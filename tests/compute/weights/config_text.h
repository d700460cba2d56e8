/* SPDX-License-Identifier: Apache-2.0
 * config.json for tests: a small valid DeepSeek-V3 one, with keys replaced, added or dropped.
 */
#pragma once

#include "base/bytes.h"

struct config_key {
    const char *key;
    const char *json; /* NULL: drop the key */
};

/* The base with `changes` applied, which end with a NULL key. Valid until the next call. */
struct bytes config_text(const struct config_key *changes);

#define CONFIG(...) config_text((const struct config_key[]){__VA_ARGS__, {NULL, NULL}})
#define CONFIG_BASE config_text(&(const struct config_key){NULL, NULL})
