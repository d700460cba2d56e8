/* SPDX-License-Identifier: Apache-2.0
 * fathom help --man DIRECTORY, fathom help --completion bash: manual pages and a shell's completion,
 * written from the tables of programs and of their options, so that they say what the program does.
 */
#ifndef PROGRAMS_MANUAL_H
#define PROGRAMS_MANUAL_H

/* argv[0] is "help", argv[1] an option. Returns the exit code. */
int manual_run(int argc, char **argv);

#endif
