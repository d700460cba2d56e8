/* SPDX-License-Identifier: Apache-2.0
 * Parser of the accounts file (docs/api.md has an example). It is read into a private database in
 * memory, or into a ledger's by `fathom account import`; account_notify.h builds RECORD_ACCOUNTS
 * from either. The file has the SHA-256 of API keys, so it contains no secret: a key has 256 random
 * bits and cannot be guessed from its hash.
 *
 * A tenant's salt is HMAC-SHA-256 of the name of its group or account, under a secret of the
 * service: 32 random bytes in a file next to it (its name and ".secret"), created if missing.
 * Gateways with units that share a cache directory need the same secret to find each other's
 * blocks.
 */
#pragma once

#include "base/bytes.h"
#include "base/sha256.h"
#include "base/status.h"
#include "contract/record_ledger.h"
#include "host/ledger/database.h"

/* Returns STATUS_INVALID with an error that names file, line and cure. The caller frees the
 * record. */
enum status accounts_file_parse(struct bytes text, const char *path,
                                const uint8_t secret[SHA256_BYTES],
                                struct record_accounts **record_out, struct error *error) MUST_USE;

/* Reads the file and its secret, which is created if it is missing. */
enum status accounts_file_read(const char *path, struct record_accounts **record_out,
                               struct error *error) MUST_USE;

/* Imports all accounts of an --accounts file together with its secret, so that their cached KV
 * blocks are still found. */
enum status accounts_file_import(struct database *database, const char *path, int64_t now,
                                 uint32_t *count_out, struct error *error) MUST_USE;
