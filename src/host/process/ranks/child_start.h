/* SPDX-License-Identifier: Apache-2.0
 * What a process that was just forked settles before it becomes another program: it is in a group of
 * its own, ends with who started it, and has its signals as a program finds them at its start. Its
 * streams and its other files are its starter's choice.
 */
#ifndef HOST_PROCESS_RANKS_CHILD_START_H
#define HOST_PROCESS_RANKS_CHILD_START_H

#include <sys/types.h>

#define CHILD_START_LATE 126 /* the exit code of a child if its parent was gone already */

/* In the child; `parent` is who forked it. Does not return if that one has gone. */
void child_start_settle(pid_t parent);

#endif
