/* SPDX-License-Identifier: Apache-2.0
 * The options for authentication between gateways and units (host/wire/wire_keys.h).
 */
#pragma once

#include "command/command.h"
#include "host/wire/wire.h"

struct wire_values {
    const char *address, *key, *peers;
    bool plain;
    struct wire_keys keys; /* the parsed keys */
};

/* Rows for an option table of struct `owner` with a member struct wire_values `wire`. */
#define WIRE_KEY_OPTIONS(owner)                                                                    \
    OPTION_ROW("wire-key", OPTION_TEXT, NULL,                                                      \
               "this side's secret key file, from fathom keygen; required between machines",       \
               .offset = offsetof(owner, wire.key), .group = OPTION_GROUP_FLEET),                  \
        OPTION_ROW("wire-plain", OPTION_FLAG, NULL,                                                \
                   "DANGER: no keys and no encryption, also between machines: anyone who reaches " \
                   "the port reads and writes everything",                                         \
                   .offset = offsetof(owner, wire.plain), .group = OPTION_GROUP_FLEET)

/* Reads the keys and fills in address, keys and plain_anywhere. `values` live as long as the wire.
 */
enum status wire_options_read(struct wire_values *values, bool listens,
                              struct wire_options *options, struct error *error) MUST_USE;
void wire_options_close(struct wire_values *values);
