/* SPDX-License-Identifier: Apache-2.0
 * The file that says who may ask (docs/api.md has an example). It is read into a private database in
 * memory, or into a ledger's by `fathom account import`; RECORD_ACCOUNTS follows from either in the same
 * way (account_notify.h). API keys stand in it as their SHA-256, so it holds no secret: a key has 256
 * random bits and cannot be guessed from it.
 *
 * A tenant's salt is HMAC-SHA-256 of its group's or account's name, under a secret of the service:
 * 32 random bytes next to the file (its name and ".secret"), created if it is missing. Gateways with
 * units that share a cache directory need the same secret to find each other's blocks.
 */
#ifndef HOST_LEDGER_ACCOUNTS_FILE_H
#define HOST_LEDGER_ACCOUNTS_FILE_H

#include "base/bytes.h"
#include "base/sha256.h"
#include "base/status.h"
#include "contract/record_ledger.h"
#include "host/ledger/database.h"

/* STATUS_INVALID names file, line and cure. The record is the caller's (free). */
enum status accounts_file_parse(struct bytes text, const char *path,
                                const uint8_t secret[SHA256_BYTES],
                                struct record_accounts **record_out, struct error *error) MUST_USE;

/* Reads the file, and its secret, which it makes at the first time. */
enum status accounts_file_read(const char *path, struct record_accounts **record_out,
                               struct error *error) MUST_USE;

/* Puts the file's accounts into a database that has none of them, within the caller's transaction. */
enum status accounts_file_enter(struct bytes text, const char *path, struct database *database,
                                int64_t now, uint32_t *count_out, struct error *error) MUST_USE;

/* The file's text, which is the caller's (free), and its secret. */
enum status accounts_file_take(const char *path, struct bytes *text_out,
                               uint8_t secret_out[SHA256_BYTES], struct error *error) MUST_USE;

/* STATUS_INVALID: nothing may be called so; `of` says what was to be: "an account", "a group". */
enum status accounts_file_check_name(const char *name, const char *of,
                                     struct error *error) MUST_USE;

/* The salt of a group (NULL, "": there is none), or else of the account. Groups and accounts of one
 * name are different tenants, and so are generations of one: a new one finds no block of the one
 * before. */
struct tenant_salt accounts_file_salt(const uint8_t secret[SHA256_BYTES], const char *account,
                                      const char *group, uint64_t generation);

#define ACCOUNTS_KEY_TEXT (3 + 2 * SHA256_BYTES + 1)    /* "sk-…" */
#define ACCOUNTS_DIGEST_TEXT (7 + 2 * SHA256_BYTES + 1) /* "sha256:…" */

/* A new API key for a client, and what the file says of it. */
void accounts_file_draw_key(char key_out[ACCOUNTS_KEY_TEXT], char digest_out[ACCOUNTS_DIGEST_TEXT]);

#endif
