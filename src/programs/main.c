/* SPDX-License-Identifier: Apache-2.0
 * fathom: one binary, one subcommand a file (program_<name> in programs/<name>.c).
 */
#include <stdio.h>
#include <string.h>

#include "programs/programs.h"

static const struct program programs[] = {
    {"version", "print the version", program_version},
};

static void print_help(FILE *out) {
    fprintf(out, "usage: fathom COMMAND [options]\n\ncommands:\n");
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++)
        fprintf(out, "  %-12s %s\n", programs[i].name, programs[i].summary);
    fprintf(out, "\n`fathom COMMAND --help` describes a command and its options.\n");
}

int program_version(int argc, char **argv) {
    printf("fathom %s\n", FATHOM_VERSION);
    return EXIT_CODE_OK;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        print_help(stderr);
        return EXIT_CODE_USAGE;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        print_help(stdout);
        return EXIT_CODE_OK;
    }
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++)
        if (!strcmp(argv[1], programs[i].name)) return programs[i].run(argc - 1, argv + 1);
    fprintf(stderr, "fathom: no command named '%s'; `fathom help` lists them\n", argv[1]);
    return EXIT_CODE_USAGE;
}
