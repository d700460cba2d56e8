/* SPDX-License-Identifier: Apache-2.0
 * Parses the list of hosts for ranks, with the number of ranks for each: from --hosts a:8,b:8, from
 * a file with a line for each host, or from the environment of a Slurm allocation. Names become
 * arguments of a remote shell, so a name must not look like an option or contain characters that a
 * shell interprets.
 */
#pragma once

#include <stdint.h>

#include "base/bytes.h"
#include "base/status.h"

#define HOST_LIST_MAX 1024
#define HOST_NAME_BYTES 128

struct host_list {
    char (*names)[HOST_NAME_BYTES]; /* [count], from malloc */
    uint32_t *slots;                /* [count] ranks that the host takes, 1.. */
    uint32_t count;
};

/* Returns STATUS_INVALID with the reason if a name must not be an argument of a remote shell. */
enum status host_list_check_name(struct bytes name, struct error *error) MUST_USE;

/* "a:8,b:8"; a name alone has one slot. */
enum status host_list_parse(struct bytes text, struct host_list *list_out,
                            struct error *error) MUST_USE;

/* Lines "NAME slots=8", "NAME:8" or "NAME", with comments after #. `path` is for messages. */
enum status host_list_parse_file(struct bytes text, const char *path, struct host_list *list_out,
                                 struct error *error) MUST_USE;

/* SLURM_JOB_NODELIST, "n[01-03,7]-ib,login", and SLURM_TASKS_PER_NODE, "8(x3),4". */
enum status host_list_parse_slurm(struct bytes nodes, struct bytes tasks,
                                  struct host_list *list_out, struct error *error) MUST_USE;

void host_list_free(struct host_list *list);
