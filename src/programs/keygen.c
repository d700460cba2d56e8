/* SPDX-License-Identifier: Apache-2.0
 * fathom keygen: generates a key pair for a gateway or a unit that connects to another machine, or
 * an API key for a client together with its line for the accounts file.
 */
#include <stdio.h>

#include "base/check.h"
#include "host/ledger/account_store.h"
#include "host/wire/wire_keys.h"
#include "programs/programs.h"

struct keygen_values {
    bool api_key;
};

static const struct option keygen_rows[] = {
    {"api-key", OPTION_FLAG, NULL,
     "print a new API key for a client, and its SHA-256 for the file of --accounts",
     .offset = offsetof(struct keygen_values, api_key)},
};

const struct option_table keygen_options = {
    .command = "keygen",
    .arguments = "[NAME]",
    .description = "Writes a pair of keys: NAME.public, for those who speak with its owner, and "
                   "NAME.secret, for the owner alone.",
    .options = keygen_rows,
    .option_count = ARRAY_COUNT(keygen_rows),
    .positional_max = 1,
};

static int print_api_key(void) {
    char key[ACCOUNT_KEY_TEXT], digest[ACCOUNT_DIGEST_TEXT];
    account_store_draw_key(key, digest);
    printf("%s\n%s\n", key, digest);
    return command_end(STATUS_OK, NULL);
}

int program_keygen(void *given, const struct option_result *result) {
    struct error error;
    struct keygen_values *values = given;
    if (values->api_key == (result->positional_count == 1))
        return command_misused("either NAME or --api-key");
    if (values->api_key) return print_api_key();
    enum status status = wire_keys_generate(result->positional[0], &error);
    if (!status) printf("%s.public\n%s.secret\n", result->positional[0], result->positional[0]);
    return command_end(status, &error);
}
