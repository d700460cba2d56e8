/* SPDX-License-Identifier: Apache-2.0
 * The subcommands. argv[0] is the subcommand's name. Results go to stdout, everything else to stderr.
 */
#ifndef PROGRAMS_PROGRAMS_H
#define PROGRAMS_PROGRAMS_H

enum exit_code {
    EXIT_CODE_OK = 0,
    EXIT_CODE_FAILED = 1,  /* the work failed: bad checkpoint, I/O, a refused request */
    EXIT_CODE_USAGE = 2,   /* the command line is wrong */
};

struct program {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
};

int program_version(int argc, char **argv);

#endif
