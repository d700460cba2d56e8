/* SPDX-License-Identifier: Apache-2.0
 * fathom keygen: a pair of keys for a gateway or a unit that speaks with another machine.
 */
#include <stdio.h>

#include "host/wire_keys.h"
#include "programs/command.h"

const struct option_table keygen_options[1] = {
    {.command = "keygen",
     .arguments = "NAME",
     .description = "Writes a pair of keys: NAME.public, for those who speak with its owner, and "
                    "NAME.secret, for the owner alone.",
     .positional_min = 1,
     .positional_max = 1},
};

int program_keygen(int argc, char **argv) {
    struct option_result result;
    struct error error;
    int exit_code;
    if (!command_begin(keygen_options, argc, argv, NULL, &result, &exit_code)) return exit_code;
    enum status status = wire_keys_generate(result.positional[0], &error);
    if (status) return command_failed(keygen_options, status, &error);
    printf("%s.public\n%s.secret\n", result.positional[0], result.positional[0]);
    return command_end(keygen_options);
}
