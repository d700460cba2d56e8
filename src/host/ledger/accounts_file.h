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

/* Inserts the file's accounts into a database that has none of them, within the caller's
 * transaction. */
enum status accounts_file_enter(struct bytes text, const char *path, struct database *database,
                                int64_t now, uint32_t *count_out, struct error *error) MUST_USE;

/* Reads the file's text, which the caller frees, and its secret. */
enum status accounts_file_take(const char *path, struct bytes *text_out,
                               uint8_t secret_out[SHA256_BYTES], struct error *error) MUST_USE;

/* Returns STATUS_INVALID if the name is not allowed. `of` is used in the message: "an account", "a
 * group". */
enum status accounts_file_check_name(const char *name, const char *of,
                                     struct error *error) MUST_USE;

/* The salt of a group (NULL, "": none), else of the account. Groups and accounts of the same name
 * are different tenants, and so are their generations: a new generation finds no blocks of the
 * previous one. */
struct tenant_salt accounts_file_salt(const uint8_t secret[SHA256_BYTES], const char *account,
                                      const char *group, uint64_t generation);

#define ACCOUNTS_KEY_TEXT (3 + 2 * SHA256_BYTES + 1)    /* "sk-…" */
#define ACCOUNTS_DIGEST_TEXT (7 + 2 * SHA256_BYTES + 1) /* "sha256:…" */

/* Draws a new API key for a client, and its digest for the file. */
void accounts_file_draw_key(char key_out[ACCOUNTS_KEY_TEXT], char digest_out[ACCOUNTS_DIGEST_TEXT]);
