/* SPDX-License-Identifier: Apache-2.0
 * fleet.yaml: what a fleet is, and how it is to be run. docs/fleet.md has every key; one that is not
 * known is an error.
 */
#ifndef HOST_FLEET_FLEET_FILE_H
#define HOST_FLEET_FLEET_FILE_H

#include "base/tree.h"
#include "serving/fleet/fleet_manager.h"

#define FLEET_WORDS_MAX 64 /* of a list of words */

struct fleet_words { /* NULL at the end */
    uint32_t count;
    const char *words[FLEET_WORDS_MAX + 1];
};

struct fleet_file {
    const char *name;
    const char *folder;   /* where the manager keeps its state */
    const char *launcher; /* "local", "hosts" or "slurm" */
    const char *connect;  /* where units reach the gateways: --connect */
    const char *kv_listen;
    struct fleet_words gateways; /* where operators reach them: http://host:port */
    struct fleet_words program;  /* the words before "unit" */
    struct fleet_words arguments[SCALE_SIDES + 1]; /* of a unit of each side; of all */
    struct fleet_words hosts;                      /* launcher hosts: where units may run */
    struct fleet_words remote_shell;               /* launcher hosts */
    struct fleet_words slurm;                      /* launcher slurm: options of sbatch */
    uint32_t host_units;                           /* launcher hosts: units of one host at most */
    struct fleet_manager_options manager;
};

/* The texts live in the arena. */
enum status fleet_file_read(const char *path, struct arena *arena, struct fleet_file *file_out,
                            struct error *error) MUST_USE;

#endif
