/* SPDX-License-Identifier: Apache-2.0
 * Authentication of a wire's peers. For ipc:// file permissions apply, and on loopback there is
 * none. Between machines both sides authenticate with CURVE keys (Curve25519), which also encrypt:
 * a gateway has a list of the public keys that it accepts, a unit has the gateway's.
 *
 * A key file is text: lines that begin with "# ", and one key of 40 characters (Z85) per line.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

#define WIRE_KEY_TEXT 41 /* 40 characters and a terminator */
#define WIRE_ALLOWED_MAX 1024

struct wire_keys {
    char public[WIRE_KEY_TEXT], secret[WIRE_KEY_TEXT];
    char gateway[WIRE_KEY_TEXT];    /* of a unit: the gateway's public key */
    char (*allowed)[WIRE_KEY_TEXT]; /* [allowed_count] of a gateway: the units' public keys */
    uint32_t allowed_count;
};

/* Writes a new pair: NAME.public, and NAME.secret with permissions for its owner only. Returns
 * STATUS_INVALID if one of them exists. */
enum status wire_keys_generate(const char *name, struct error *error) MUST_USE;

/* Reads the secret key file, and the file of accepted keys or that of the gateway's key; paths may
 * be NULL. The keys are valid until wire_keys_close. */
enum status wire_keys_open(const char *secret_path, const char *allowed_path,
                           const char *gateway_path, struct wire_keys *keys_out,
                           struct error *error) MUST_USE;
void wire_keys_close(struct wire_keys *keys);

/* True if the key of 32 bytes is accepted. */
bool wire_keys_allow(const struct wire_keys *keys, const uint8_t public[32]);

/* Returns STATUS_INVALID for an invalid address, or one that needs keys. */
enum status wire_keys_check_address(const char *address, bool has_keys, bool plain_anywhere,
                                    struct error *error) MUST_USE;
