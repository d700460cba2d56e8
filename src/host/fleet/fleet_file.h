/* SPDX-License-Identifier: Apache-2.0
 * Parser of fleet.yaml: the description of a fleet and its settings. docs/fleet.md documents every
 * key; an unknown key is an error.
 */
#pragma once

#include "base/tree.h"
#include "serving/fleet/fleet_manager.h"

#define FLEET_WORDS_MAX 64 /* limit of a list of words */

struct fleet_words { /* NULL at the end */
    uint32_t count;
    const char *words[FLEET_WORDS_MAX + 1];
};

struct fleet_file {
    const char *name;
    const char *folder;   /* folder of the manager's state */
    const char *launcher; /* "local", "hosts" or "slurm" */
    const char *connect;  /* value of --connect for units */
    const char *kv_listen;
    struct fleet_words gateways; /* admin URLs of the gateways: http://host:port */
    struct fleet_words program;  /* words of the command line before "unit" */
    /* options of units: for each side, and for all */
    struct fleet_words arguments[SCALE_SIDES + 1];
    struct fleet_words hosts;        /* launcher hosts: hosts for units */
    struct fleet_words remote_shell; /* launcher hosts */
    struct fleet_words slurm;        /* launcher slurm: options of sbatch */
    uint32_t host_units;             /* launcher hosts: limit of units per host */
    struct fleet_manager_options manager;
};

/* Reads and validates the file. The texts are allocated in the arena. */
enum status fleet_file_read(const char *path, struct arena *arena, struct fleet_file *file_out,
                            struct error *error) MUST_USE;
