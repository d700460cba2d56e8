/* SPDX-License-Identifier: Apache-2.0
 * Options: one table per command; every row is a flag (`--kv-memory 2GiB`) and, for commands that
 * take `--config FILE`, a key of that YAML file. Unknown names are fatal. `fathom inspect options`
 * prints the tables. Values land in the caller's struct, at `offset`.
 *
 * A row of OPTION_GROUP_EXPERIMENTS is no flag of its own: it is set by `--experiment NAME=VALUE`,
 * and is meant for comparisons of implementations. A table that has such rows has one of
 * OPTION_EXPERIMENT, too.
 */
#ifndef BASE_OPTIONS_H
#define BASE_OPTIONS_H

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
    OPTION_TEXT,   /* const char *; NULL when neither given nor defaulted */
    OPTION_CHOICE, /* const char *, one of `choices` ("a|b|c") */
    OPTION_LIST,   /* const char *, as TEXT: items with commas between; given again, it adds */
    OPTION_TEXTS,  /* struct option_texts: may be given several times */
    /* no value of its own; "NAME=VALUE,..." sets the experiments that it names */
    OPTION_EXPERIMENT,
};

#define OPTION_TEXTS_MAX 64
#define OPTION_ROWS_MAX 256 /* of a table */

struct option_texts { /* in the order given */
    size_t count;
    const char *texts[OPTION_TEXTS_MAX];
};

/* How --help puts options together, in this order. */
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
    const char *fallback; /* as text; NULL: FLAG false, COUNT/NUMBER/BYTES 0, TEXT NULL,
                           * TEXTS none */
    const char *help;     /* what it does, without range and fallback; stands alone */
    size_t offset;
    const char *choices;     /* OPTION_CHOICE */
    double minimum, maximum; /* COUNT, NUMBER; both 0: no bound */
    enum option_group group;
    /* Names with | between: it does nothing unless one of them, of those that the table has, is set to
     * something else than its fallback; a name with = before it has to have its fallback. NULL: it
     * always does something. */
    const char *needs;
};

/* A row of a macro of rows that several tables have. */
#define OPTION_ROW(...)                                                                            \
    { __VA_ARGS__ }

struct option_table {
    const char *command;     /* "serve" */
    const char *arguments;   /* "[PROMPT]" or "" : for the usage line */
    const char *description; /* what it does, and examples; newlines stay where they are */
    const struct option *options;
    size_t option_count;
    size_t positional_min, positional_max;
};

#define OPTION_POSITIONAL_MAX 8

struct option_result {
    bool help; /* --help was asked for and has been printed to stdout: exit with EXIT_CODE_OK */
    size_t positional_count;
    const char *positional[OPTION_POSITIONAL_MAX];
};

/* Fills the fallbacks, then the configuration file if the table has a row "config" (OPTION_TEXT),
 * it is given and `read_config` is not NULL, then the flags (flags win). `--` ends the flags;
 * argv[0] is the command's name. A flag that is given twice adds (LIST, TEXTS, EXPERIMENT) or is
 * refused. STATUS_INVALID names the flag, what was expected and found, and
 * the nearest known name. Text values point into argv or into memory kept for the process's life.
 */
typedef enum status options_read_config(const char *path, const struct option_table *table,
                                        void *values, struct error *error);
enum status options_parse(const struct option_table *table, int argc, char **argv, void *values,
                          options_read_config *read_config, struct option_result *result_out,
                          struct error *error);

/* Sets one option from text; for configuration readers. A text value is kept as it is: it must live
 * as long as the process. What OPTION_EXPERIMENT keeps is a copy. */
enum status options_set(const struct option_table *table, const char *name, const char *value,
                        void *values, struct error *error);

/* An option's value as a flag, "--queue=256" or "--experiment=rank-steps=full"; the bytes that it
 * needs, as snprintf counts them; 0: it has none (a text that was not given). */
size_t options_format(const struct option *option, const void *values, char *out, size_t bytes);

/* The first row behind `after` (NULL: of all) that is set and does nothing for want of what it needs; NULL:
 * there is none. */
const struct option *options_next_idle(const struct option_table *table, const void *values,
                                       const struct option *after);

#define OPTION_IDLE_BYTES 160

/* Why it does nothing: "without --kv-dir or --kv-host", "with --greedy". */
void options_say_idle(const struct option_table *table, const struct option *option,
                      char text_out[OPTION_IDLE_BYTES]);

/* The table's row of that name; NULL: there is none. */
const struct option *options_find(const struct option_table *table, const char *name);

/* The known name that `name` was probably meant to be, experiments apart; NULL if none is near. */
const char *options_nearest(const struct option_table *table, struct bytes name);

/* Prints usage and options, group by group, to a FILE *. */
void options_print(const struct option_table *table, void *file);

/* ---- what a help, a manual page and a shell's completion say alike ---- */

#define OPTION_TEXT_BYTES 768 /* that suffice for options_describe */

/* Writes the option's effect, with its range and its fallback. */
void options_describe(const struct option *option, char text_out[OPTION_TEXT_BYTES]);

/* The placeholder of the option's value: "BYTES", "late|arrival"; "" if it takes none. */
const char *options_value(const struct option *option);

/* True for a flag that is on unless --no-NAME is given. */
bool options_is_on(const struct option *option);

/* True for a row that is set by --experiment NAME=VALUE. */
bool options_is_experiment(const struct option *option);

/* Over the options of a group: "several ranks"; "options" if the table has no other. */
const char *options_group_title(const struct option_table *table, enum option_group group);

/* How many options of the table are of the group. */
size_t options_group_count(const struct option_table *table, enum option_group group);

#endif
