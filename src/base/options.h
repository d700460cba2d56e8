/* SPDX-License-Identifier: Apache-2.0
 * Options: one table per command. Each row is a flag (`--kv-memory 2GiB`) and, for commands that
 * accept `--config FILE`, a key of that YAML file. Unknown names are fatal. `fathom inspect
 * options` prints the tables. Values are written to the caller's struct, at `offset`.
 *
 * A row of OPTION_GROUP_EXPERIMENTS serves comparisons of implementations. It is set by
 * `--experiment NAME=VALUE` and has no flag of its own. A table with such rows also has one row of
 * type OPTION_EXPERIMENT.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/status.h"

enum option_type {
    OPTION_FLAG,   /* bool; `--name`, `--no-name`, `--name=true|false` */
    OPTION_COUNT,  /* uint64_t in [minimum, maximum] */
    OPTION_NUMBER, /* double in [minimum, maximum] */
    OPTION_BYTES,  /* uint64_t: 4096, 512KiB, 2GiB, 1.5GB */
    OPTION_TEXT,   /* const char *; NULL if neither given nor defaulted */
    OPTION_CHOICE, /* const char *, one of `choices` ("a|b|c") */
    OPTION_LIST,   /* const char *: items separated by commas; repeated flags append */
    OPTION_TEXTS,  /* struct option_texts; the flag may be repeated */
    /* has no value; "NAME=VALUE,..." sets the named experiments */
    OPTION_EXPERIMENT,
};

#define OPTION_TEXTS_MAX 64
#define OPTION_ROWS_MAX 256 /* limit of a table */

struct option_texts { /* in the order given */
    size_t count;
    const char *texts[OPTION_TEXTS_MAX];
};

/* The groups of options in --help, in this order. */
enum option_group {
    OPTION_GROUP_EVERYDAY,
    OPTION_GROUP_RANKS,
    OPTION_GROUP_FLEET,
    OPTION_GROUP_STORAGE,
    OPTION_GROUP_TUNING,
    OPTION_GROUP_EXPERIMENTS,
    OPTION_GROUP_COUNT
};

struct option {
    const char *name; /* "kv-memory" */
    enum option_type type;
    /* default as text; NULL: FLAG false, COUNT/NUMBER/BYTES 0, TEXT NULL, TEXTS none */
    const char *fallback;
    const char *help; /* effect, without range and default */
    size_t offset;
    const char *choices;     /* OPTION_CHOICE */
    double minimum, maximum; /* COUNT, NUMBER; both 0: no bound */
    enum option_group group;
    /* Names of options, separated by |. This option has an effect only if at least one of those in
     * the table differs from its default, or, for a name with the prefix =, has its default. NULL:
     * it always has an effect. */
    const char *needs;
};

/* A row in a macro that several tables share. */
#define OPTION_ROW(...)                                                                            \
    { __VA_ARGS__ }

struct option_table {
    const char *command;     /* "serve" */
    const char *arguments;   /* "[PROMPT]" or "", for the usage line */
    const char *description; /* description and examples; line breaks are kept */
    /* For shell completion: the choice number `index` of the first argument, NULL after the last.
     * Not set: the choices in `arguments` ("stat|verify DIR"), if any. */
    const char *(*word)(uint32_t index);
    const struct option *options;
    size_t option_count;
    size_t positional_min, positional_max;
};

#define OPTION_POSITIONAL_MAX 8

struct option_result {
    bool help; /* --help was given and has been printed to stdout: exit with EXIT_CODE_OK */
    size_t positional_count;
    const char *positional[OPTION_POSITIONAL_MAX];
};

/* Applies the defaults, then the configuration file, then the flags. The file is read if the flag
 * "config" (OPTION_TEXT) is given and `read_config` is not NULL. `--` ends the flags; argv[0] is
 * the command's name. A repeated flag appends (LIST, TEXTS, EXPERIMENT) or is an error. The message
 * of STATUS_INVALID names the flag, the expected and the found value, and the most similar known
 * name. Text values point into argv or into memory that is never freed. */
typedef enum status options_read_config(const char *path, const struct option_table *table,
                                        void *values, struct error *error);
enum status options_parse(const struct option_table *table, int argc, char **argv, void *values,
                          options_read_config *read_config, struct option_result *result_out,
                          struct error *error);

/* Sets one option from text, for configuration readers. A text value is not copied: it must live as
 * long as the process. The value of OPTION_EXPERIMENT is copied. */
enum status options_set(const struct option_table *table, const char *name, const char *value,
                        void *values, struct error *error);

/* Formats an option's value as a flag, "--queue=256" or "--experiment=rank-steps=full". Returns the
 * bytes needed, as snprintf does; 0 if the option has no value (a text that was not given). */
size_t options_format(const struct option *option, const void *values, char *out, size_t bytes);

/* The next row after `after` (NULL: from the first row) that is set but has no effect, because
 * `needs` is not met. NULL if there is none. */
const struct option *options_next_idle(const struct option_table *table, const void *values,
                                       const struct option *after);

#define OPTION_IDLE_BYTES 160

/* Writes the reason why an option has no effect: "without --kv-dir or --kv-host", "with
 * --greedy". */
void options_say_idle(const struct option_table *table, const struct option *option,
                      char text_out[OPTION_IDLE_BYTES]);

/* The table's row of that name; NULL if there is none. */
const struct option *options_find(const struct option_table *table, const char *name);

/* The known name that is most similar to `name`, experiments excluded; NULL if none is similar. */
const char *options_nearest(const struct option_table *table, struct bytes name);

/* Prints usage and options, group by group, to a FILE *; without `all` only the everyday options,
 * and a line on the others. */
void options_print(const struct option_table *table, bool all, void *file);

/* ---- texts shared by --help, manual pages and shell completion ---- */

#define OPTION_TEXT_BYTES 768 /* enough for options_describe */

/* Writes the option's effect, its range and its default. */
void options_describe(const struct option *option, char text_out[OPTION_TEXT_BYTES]);

/* The placeholder of the option's value: "BYTES", "late|arrival"; "" if it has none. */
const char *options_value(const struct option *option);

/* True for a flag that is on by default and is disabled by --no-NAME. */
bool options_is_on(const struct option *option);

/* True for a row that is set by --experiment NAME=VALUE. */
bool options_is_experiment(const struct option *option);

/* The title of a group: "several ranks"; "options" if the table has no other group. */
const char *options_group_title(const struct option_table *table, enum option_group group);

/* The number of options in the group. */
size_t options_group_count(const struct option_table *table, enum option_group group);
