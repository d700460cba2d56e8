/* SPDX-License-Identifier: Apache-2.0
 * Authentication of a wire's peers. For ipc:// the file system decides, and on loopback there is
 * none; between machines both sides prove themselves with CURVE keys (Curve25519), which also
 * encrypt: a gateway has a list of the public keys that it lets in, a unit knows the gateway's.
 *
 * A key file is text: lines that begin with "# ", and one key of 40 characters (Z85) a line.
 */
#ifndef HOST_WIRE_WIRE_KEYS_H
#define HOST_WIRE_WIRE_KEYS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

#define WIRE_KEY_TEXT 41 /* 40 characters and a terminator */
#define WIRE_ALLOWED_MAX 1024

struct wire_keys {
    char public[WIRE_KEY_TEXT], secret[WIRE_KEY_TEXT];
    char gateway[WIRE_KEY_TEXT];    /* a unit: the gateway's public key */
    char (*allowed)[WIRE_KEY_TEXT]; /* [allowed_count] a gateway: the units' public keys */
    uint32_t allowed_count;
};

/* Writes a new pair: NAME.public, and NAME.secret that only its owner can read. STATUS_INVALID when
 * one of them exists. */
enum status wire_keys_generate(const char *name, struct error *error) MUST_USE;

/* Reads the own secret file, and the file of the keys let in, or that of the gateway's; paths may
 * be NULL. What is read lives until wire_keys_close. */
enum status wire_keys_open(const char *secret_path, const char *allowed_path,
                           const char *gateway_path, struct wire_keys *keys_out,
                           struct error *error) MUST_USE;
void wire_keys_close(struct wire_keys *keys);

/* True if the key of 32 bytes is let in. */
bool wire_keys_allow(const struct wire_keys *keys, const uint8_t public[32]);

/* STATUS_INVALID: no address, or one that needs keys. */
enum status wire_keys_check_address(const char *address, bool has_keys, bool plain_anywhere,
                                    struct error *error) MUST_USE;

#endif
