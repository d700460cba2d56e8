/* SPDX-License-Identifier: Apache-2.0
 * Parses a command line by a table, and prints the table as help. There are two passes: the first
 * finds --help and --config, the second sets values. A flag therefore overrides the file regardless
 * of its position.
 */
#include "base/options.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/format.h"
#include "base/nearest.h"

#define HELP_COLUMNS 100 /* width of --help */
#define HELP_INDENT 30   /* column of an option's text */

bool options_is_experiment(const struct option *option) {
    return option->group == OPTION_GROUP_EXPERIMENTS && option->type != OPTION_EXPERIMENT;
}

/* The prefix of the option's name in a message. */
static const char *prefix_of(const struct option *option) {
    return options_is_experiment(option) ? "--experiment " : "--";
}

static const struct option *options_find_option(const struct option_table *table,
                                                struct bytes name) {
    for (size_t i = 0; i < table->option_count; i++)
        if (bytes_equal(bytes_of(table->options[i].name), name)) return &table->options[i];
    return NULL;
}

const char *options_nearest(const struct option_table *table, struct bytes name) {
    struct nearest nearest = nearest_begin(name);
    for (size_t i = 0; i < table->option_count; i++)
        if (!options_is_experiment(&table->options[i]))
            nearest_try(&nearest, table->options[i].name);
    return nearest.name;
}

/* Options of vLLM, SGLang, llama.cpp and Ollama, without dashes. A row is for tables that have the
 * option `ours`. `words` replace its name where the name alone does not help.
 * docs/coming-from.md has the whole list. */
static const struct foreign_option {
    const char *theirs, *ours, *words;
} foreign_options[] = {
    {"m", "model", "it is --model DIRECTORY"},
    {"model-path", "model", NULL},
    {"a", "served-name", NULL},
    {"alias", "served-name", NULL},
    {"served-model-name", "served-name", NULL},
    {"c", "max-context", NULL},
    {"ctx-size", "max-context", NULL},
    {"max-model-len", "max-context", NULL},
    {"context-length", "max-context", NULL},
    {"np", "max-batch-rows", NULL},
    {"parallel", "max-batch-rows", NULL},
    {"max-num-seqs", "max-batch-rows", NULL},
    {"max-running-requests", "max-batch-rows", NULL},
    {"max-num-batched-tokens", "max-batch-tokens", NULL},
    {"gpu-memory-utilization", "kv-memory", "it is --kv-memory, a size such as 8GiB"},
    {"mem-fraction-static", "kv-memory", "it is --kv-memory, a size such as 8GiB"},
    {"tp", "ranks", NULL},
    {"tp-size", "ranks", NULL},
    {"tensor-parallel-size", "ranks", NULL},
    {"t", "threads", NULL},
    {"api-key", "database", "`fathom account create` makes keys, for --database"},
    {"tool-call-parser", "tools-template", "calls are found by the chat template: leave it out"},
    {"reasoning-parser", "tools-template", "thoughts are found by the chat template: leave it out"},
    {"quantization", "model", "weights are used as the checkpoint has them: leave it out"},
    {"dtype", "model", "weights are used as the checkpoint has them: leave it out"},
    {"n", "max-new", NULL},
    {"n-predict", "max-new", NULL},
    {"max-tokens", "max-new", NULL},
    {"temp", "temperature", NULL},
    {"p", "max-new", "the prompt is an argument without an option"},
    {"prompt", "max-new", "the prompt is an argument without an option"},
};

static const struct foreign_option *find_foreign(const struct option_table *table,
                                                 struct bytes name) {
    for (size_t i = 0; i < ARRAY_COUNT(foreign_options); i++)
        if (bytes_equal(bytes_of(foreign_options[i].theirs), name) &&
            options_find_option(table, bytes_of(foreign_options[i].ours)))
            return &foreign_options[i];
    return NULL;
}

/* `dashes` are those that stand before the name. */
static enum status refuse_foreign(const struct foreign_option *foreign, const char *dashes,
                                  struct error *error) {
    return error_set(error, STATUS_INVALID, "unknown option '%s%s'; in Fathom %s%s", dashes,
                     foreign->theirs, foreign->words ? "" : "it is --",
                     foreign->words ? foreign->words : foreign->ours);
}

static enum status unknown_option(const struct option_table *table, struct bytes name,
                                  struct error *error) {
    const struct foreign_option *foreign = find_foreign(table, name);
    const char *nearest = options_nearest(table, name);
    int shown = (int)(name.count < 80 ? name.count : 80);
    if (foreign) return refuse_foreign(foreign, "--", error);
    if (nearest)
        return error_set(error, STATUS_INVALID, "unknown option '--%.*s'; did you mean --%s?",
                         shown, name.data, nearest);
    return error_set(error, STATUS_INVALID,
                     "unknown option '--%.*s'; `fathom %s --help` lists the options", shown,
                     name.data, table->command);
}

/* Finds the row by its name, which is a flag or a key of the configuration file. */
static enum status look_up(const struct option_table *table, struct bytes name,
                           const struct option **option_out, struct error *error) {
    const struct option *option = options_find_option(table, name);
    if (!option) return unknown_option(table, name, error);
    if (options_is_experiment(option))
        return error_set(error, STATUS_INVALID, "--%s is now --experiment %s=VALUE", option->name,
                         option->name);
    *option_out = option;
    return STATUS_OK;
}

static enum status options_bad_value(const struct option *option, const char *value,
                                     const char *expected, struct error *error) {
    return error_set(error, STATUS_INVALID, "option %s%s: expected %s, found '%.80s'",
                     prefix_of(option), option->name, expected, value);
}

static enum status check_range(const struct option *option, double number, const char *value,
                               struct error *error) {
    bool bounded = option->minimum != 0 || option->maximum != 0;
    if (!bounded || (number >= option->minimum && number <= option->maximum)) return STATUS_OK;
    return error_set(error, STATUS_INVALID, "option %s%s: expected %.15g to %.15g, found '%.80s'",
                     prefix_of(option), option->name, option->minimum, option->maximum, value);
}

static enum status set_flag(const struct option *option, const char *value, bool *out,
                            struct error *error) {
    bool yes = !strcmp(value, "true");
    if (!yes && strcmp(value, "false"))
        return options_bad_value(option, value, "true or false", error);
    *out = yes;
    return STATUS_OK;
}

static enum status options_set_count(const struct option *option, const char *value, uint64_t *out,
                                     struct error *error) {
    char *end;
    errno = 0;
    unsigned long long number = strtoull(value, &end, 10);
    if (value[0] < '0' || value[0] > '9' || *end || errno)
        return options_bad_value(option, value, "a whole number", error);
    enum status status = check_range(option, (double)number, value, error);
    if (status == STATUS_OK) *out = number;
    return status;
}

static enum status set_number(const struct option *option, const char *value, double *out,
                              struct error *error) {
    char *end;
    double number = strtod(value, &end);
    if (end == value || *end || !isfinite(number))
        return options_bad_value(option, value, "a number", error);
    enum status status = check_range(option, number, value, error);
    if (status == STATUS_OK) *out = number;
    return status;
}

static enum status set_bytes(const struct option *option, const char *value, uint64_t *out,
                             struct error *error) {
    static const struct {
        const char *name;
        double bytes;
    } units[] = {
        {"", 1},         {"B", 1},    {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30},
        {"TiB", 0x1p40}, {"KB", 1e3}, {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12},
    };
    size_t digits = strspn(value, "0123456789.");
    char *end;
    double number = strtod(value, &end);
    for (size_t i = 0; digits > 0 && end == value + digits && i < ARRAY_COUNT(units); i++) {
        if (strcmp(end, units[i].name)) continue;
        double bytes = number * units[i].bytes;
        if (bytes >= 0x1p63) break;
        enum status status = check_range(option, bytes, value, error);
        if (status == STATUS_OK) *out = (uint64_t)bytes;
        return status;
    }
    return options_bad_value(option, value, "bytes such as 4096, 512KiB, 2GiB or 1.5GB", error);
}

static enum status set_choice(const struct option *option, const char *value, const char **out,
                              struct error *error) {
    size_t value_bytes = strlen(value);
    for (const char *at = option->choices; *at;) {
        size_t bytes = strcspn(at, "|");
        if (bytes == value_bytes && !memcmp(at, value, bytes)) {
            *out = value;
            return STATUS_OK;
        }
        at += bytes + (at[bytes] == '|');
    }
    return error_set(error, STATUS_INVALID, "option %s%s: expected one of %s, found '%.80s'",
                     prefix_of(option), option->name, option->choices, value);
}

static enum status options_add_text(const struct option *option, const char *value,
                                    struct option_texts *out, struct error *error) {
    if (out->count == OPTION_TEXTS_MAX)
        return error_set(error, STATUS_INVALID, "option --%s: at most %d of them", option->name,
                         OPTION_TEXTS_MAX);
    out->texts[out->count++] = value;
    return STATUS_OK;
}

/* Texts that are never freed. */
struct kept_value {
    struct kept_value *next;
    char text[];
};
static struct kept_value *kept_values;

static enum status options_lack_memory(const struct option *option, struct error *error) {
    return error_set(error, STATUS_NO_MEMORY, "no memory for %s%s", prefix_of(option),
                     option->name);
}

/* Appends an item to a list. */
static enum status options_add_item(const struct option *option, const char *value,
                                    const char **out, struct error *error) {
    size_t count = strlen(*out), bytes = count + strlen(value) + 2;
    struct kept_value *joined = calloc(1, sizeof *joined + bytes);
    if (!joined) return options_lack_memory(option, error);
    format_text(joined->text, bytes, "%s,%s", *out, value);
    joined->next = kept_values;
    kept_values = joined;
    *out = joined->text;
    return STATUS_OK;
}

static enum status set_value(const struct option *option, const char *value, void *values,
                             struct error *error) {
    void *out = (char *)values + option->offset;
    switch (option->type) {
    case OPTION_FLAG:
        return set_flag(option, value, out, error);
    case OPTION_COUNT:
        return options_set_count(option, value, out, error);
    case OPTION_NUMBER:
        return set_number(option, value, out, error);
    case OPTION_BYTES:
        return set_bytes(option, value, out, error);
    case OPTION_TEXT:
    case OPTION_LIST:
        *(const char **)out = value;
        return STATUS_OK;
    case OPTION_CHOICE:
        return set_choice(option, value, out, error);
    case OPTION_TEXTS:
        return options_add_text(option, value, out, error);
    case OPTION_EXPERIMENT:
        break;
    }
    check(!"option type");
    return STATUS_INVALID;
}

static enum status unknown_experiment(const struct option_table *table, struct bytes name,
                                      struct error *error) {
    char names[256] = "";
    size_t used = 0;
    for (size_t i = 0; i < table->option_count; i++)
        if (options_is_experiment(&table->options[i]))
            used += format_text(names + used, sizeof names - used, "%s%s", used ? ", " : "",
                                table->options[i].name);
    return error_set(error, STATUS_INVALID, "unknown experiment '%.*s'; there are: %s",
                     (int)(name.count < 80 ? name.count : 80), name.data, names);
}

/* The rows of a table that were set by one source. */
struct given_rows {
    bool is_given[OPTION_ROWS_MAX];
};

static bool options_is_list(const struct option *option) {
    return option->type == OPTION_LIST || option->type == OPTION_TEXTS ||
           option->type == OPTION_EXPERIMENT;
}

/* Marks the row as set. Returns STATUS_INVALID if it was already set, because only one value would
 * count. */
static enum status give_row(const struct option_table *table, const struct option *option,
                            struct given_rows *given, bool *again_out, struct error *error) {
    size_t row = (size_t)(option - table->options);
    check(row < OPTION_ROWS_MAX);
    *again_out = given->is_given[row];
    given->is_given[row] = true;
    if (!*again_out || options_is_list(option)) return STATUS_OK;
    return error_set(error, STATUS_INVALID, "option %s%s is given twice; give it once",
                     prefix_of(option), option->name);
}

/* Copies an experiment's value, which ends at a comma. The copy is never freed. */
static enum status set_copy(const struct option *option, struct bytes value, void *values,
                            struct error *error) {
    struct kept_value *copy = calloc(1, sizeof *copy + value.count + 1);
    if (!copy) return options_lack_memory(option, error);
    memcpy(copy->text, value.data, value.count);
    enum status status = set_value(option, copy->text, values, error);
    bool keeps =
        option->type == OPTION_TEXT || option->type == OPTION_LIST || option->type == OPTION_CHOICE;
    if (status == STATUS_OK && keeps) {
        copy->next = kept_values;
        kept_values = copy;
    } else {
        free(copy);
    }
    return status;
}

/* Sets the experiment of "NAME=VALUE". */
static enum status set_experiment(const struct option_table *table, struct bytes setting,
                                  struct given_rows *given, void *values, struct error *error) {
    bool again;
    const char *equals = memchr(setting.data, '=', setting.count);
    struct bytes name = {setting.data, equals ? (size_t)(equals - setting.data) : setting.count};
    const struct option *option = options_find_option(table, name);
    if (!option || !options_is_experiment(option)) return unknown_experiment(table, name, error);
    if (!equals)
        return error_set(error, STATUS_INVALID, "option --experiment %s needs a value: %s=VALUE",
                         option->name, option->name);
    struct bytes value = {equals + 1, setting.count - name.count - 1};
    enum status status = give_row(table, option, given, &again, error);
    return status ? status : set_copy(option, value, values, error);
}

/* Sets experiments from settings separated by commas. */
static enum status set_experiments(const struct option_table *table, const char *settings,
                                   struct given_rows *given, void *values, struct error *error) {
    enum status status = STATUS_OK;
    for (const char *at = settings; at && status == STATUS_OK;) {
        at += strspn(at, " ");
        size_t bytes = strcspn(at, ",");
        status = set_experiment(table, (struct bytes){at, bytes}, given, values, error);
        at = at[bytes] == ',' ? at + bytes + 1 : NULL;
    }
    return status;
}

/* Sets the value of a row that look_up has found. */
static enum status options_set_option(const struct option_table *table, const struct option *option,
                                      const char *value, struct given_rows *given, void *values,
                                      struct error *error) {
    bool again;
    enum status status = give_row(table, option, given, &again, error);
    if (status) return status;
    if (option->type == OPTION_EXPERIMENT)
        return set_experiments(table, value, given, values, error);
    if (again && option->type == OPTION_LIST)
        return options_add_item(option, value, (void *)((char *)values + option->offset), error);
    return set_value(option, value, values, error);
}

enum status options_set(const struct option_table *table, const char *name, const char *value,
                        void *values, struct error *error) {
    const struct option *option;
    struct given_rows given = {0};
    enum status status = look_up(table, bytes_of(name), &option, error);
    return status ? status : options_set_option(table, option, value, &given, values, error);
}

/* Sets a row's default before file and flags are read. A default that violates the row's own rules
 * is a bug. */
static void set_fallback(const struct option *option, void *values) {
    void *out = (char *)values + option->offset;
    if (option->type == OPTION_EXPERIMENT) return;
    if (option->type == OPTION_TEXTS) {
        *(struct option_texts *)out = (struct option_texts){.count = 0};
        return;
    }
    if (option->fallback) {
        check(set_value(option, option->fallback, values, NULL) == STATUS_OK);
        return;
    }
    if (option->type == OPTION_FLAG)
        *(bool *)out = false;
    else if (option->type == OPTION_COUNT || option->type == OPTION_BYTES)
        *(uint64_t *)out = 0;
    else if (option->type == OPTION_NUMBER)
        *(double *)out = 0;
    else
        *(const char **)out = NULL;
}

const char *options_value(const struct option *option) {
    static const char *const names[] = {
        [OPTION_FLAG] = "",       [OPTION_COUNT] = "N",        [OPTION_NUMBER] = "X",
        [OPTION_BYTES] = "BYTES", [OPTION_TEXT] = "VALUE",     [OPTION_EXPERIMENT] = "NAME=VALUE",
        [OPTION_TEXTS] = "VALUE", [OPTION_LIST] = "VALUE,...",
    };
    return option->type == OPTION_CHOICE ? option->choices : names[option->type];
}

/* A flag of the command line with its value. */
struct flag {
    const struct option *option;
    const char *value;
};

/* Parses the flag at argv[*at] and advances *at past it (and past its value in a separate word). */
static enum status options_read_flag(const struct option_table *table, int argc, char **argv,
                                     int *at, struct flag *flag_out, struct error *error) {
    const char *name = argv[*at] + 2;
    size_t name_bytes = strcspn(name, "=");
    const char *value = name[name_bytes] == '=' ? name + name_bytes + 1 : NULL;
    const struct option *option = NULL;
    if (!value && !strncmp(name, "no-", 3)) option = options_find_option(table, bytes_of(name + 3));
    if (option && option->type == OPTION_FLAG) {
        value = "false";
    } else {
        enum status status = look_up(table, (struct bytes){name, name_bytes}, &option, error);
        if (status != STATUS_OK) return status;
    }
    *at += 1;
    if (!value && option->type == OPTION_FLAG) value = "true";
    if (!value && (*at == argc || !strncmp(argv[*at], "--", 2)))
        return error_set(error, STATUS_INVALID, "option --%s needs a value: --%s=%s", option->name,
                         option->name, options_value(option));
    if (!value) value = argv[(*at)++];
    *flag_out = (struct flag){option, value};
    return STATUS_OK;
}

/* True if the word is a flag. A lone "-" (standard input) is not, nor are words after "--". */
static bool is_flag(const char *word) {
    return word[0] == '-' && word[1] != '\0';
}

/* First pass: finds --help, and --all with it; reports no errors. */
static bool find_help(int argc, char **argv, bool *all_out) {
    bool found = false;
    *all_out = false;
    for (int at = 1; at < argc && strcmp(argv[at], "--"); at++) {
        found |= !strcmp(argv[at], "--help") || !strcmp(argv[at], "-h");
        *all_out |= !strcmp(argv[at], "--all");
    }
    return found;
}

static const char *find_config(const struct option_table *table, int argc, char **argv) {
    const char *path = NULL;
    struct flag flag;
    if (!options_find_option(table, BYTES_LITERAL("config"))) return NULL;
    for (int at = 1; at < argc && strcmp(argv[at], "--");) {
        if (strncmp(argv[at], "--", 2))
            at++;
        else if (options_read_flag(table, argc, argv, &at, &flag, NULL) != STATUS_OK)
            return NULL; /* the second pass reports the error */
        else if (!strcmp(flag.option->name, "config"))
            path = flag.value;
    }
    return path;
}

static enum status check_positionals(const struct option_table *table,
                                     const struct option_result *result, struct error *error) {
    size_t count = result->positional_count;
    if (count < table->positional_min)
        return error_set(error, STATUS_INVALID, "an argument is missing; usage: fathom %s %s",
                         table->command, table->arguments);
    return STATUS_OK;
}

/* Other servers take the model as an argument. */
static enum status refuse_argument(const struct option_table *table, const char *word,
                                   struct error *error) {
    bool has_model = options_find_option(table, BYTES_LITERAL("model")) != NULL;
    return error_set(
        error, STATUS_INVALID, "unexpected argument '%.80s'; %susage: fathom %s [options] %s", word,
        has_model ? "a model is given with --model; " : "", table->command, table->arguments);
}

/* A word that begins with one dash. */
static enum status refuse_dash(const struct option_table *table, const char *word,
                               struct error *error) {
    struct bytes name = {word + 1, strcspn(word + 1, "=")};
    const struct foreign_option *foreign = find_foreign(table, name);
    if (foreign) return refuse_foreign(foreign, "-", error);
    return error_set(error, STATUS_INVALID,
                     "unknown option '%.80s'; options begin with two dashes; put an argument that "
                     "begins with a dash after '--'",
                     word);
}

static enum status parse_words(const struct option_table *table, int argc, char **argv,
                               void *values, struct option_result *result, struct error *error) {
    enum status status = STATUS_OK;
    struct given_rows given = {0};
    bool flags_over = false;
    for (int at = 1; at < argc && status == STATUS_OK;) {
        const char *word = argv[at];
        struct flag flag;
        if (!flags_over && !strcmp(word, "--")) {
            flags_over = true;
            at++;
        } else if (!flags_over && !strncmp(word, "--", 2)) {
            status = options_read_flag(table, argc, argv, &at, &flag, error);
            if (status == STATUS_OK)
                status = options_set_option(table, flag.option, flag.value, &given, values, error);
        } else if (!flags_over && is_flag(word)) {
            status = refuse_dash(table, word, error);
        } else if (result->positional_count == table->positional_max) {
            status = refuse_argument(table, word, error);
        } else {
            result->positional[result->positional_count++] = word;
            at++;
        }
    }
    return status == STATUS_OK ? check_positionals(table, result, error) : status;
}

enum status options_parse(const struct option_table *table, int argc, char **argv, void *values,
                          options_read_config *read_config, struct option_result *result_out,
                          struct error *error) {
    struct option_result result = {0};
    bool all;
    check(table->positional_max <= OPTION_POSITIONAL_MAX);
    for (size_t i = 0; i < table->option_count; i++)
        set_fallback(&table->options[i], values);
    if (find_help(argc, argv, &all)) {
        options_print(table, all, stdout);
        result.help = true;
        *result_out = result;
        return STATUS_OK;
    }
    const char *config = read_config ? find_config(table, argc, argv) : NULL;
    enum status status = config ? read_config(config, table, values, error) : STATUS_OK;
    if (status == STATUS_OK) status = parse_words(table, argc, argv, values, &result, error);
    if (status == STATUS_OK) *result_out = result;
    return status;
}

/* ---- help ---- */

/* Prints a text in lines of at most HELP_COLUMNS, broken at spaces, starting at column `indent`.
 * The caller has printed what precedes it on the first line. */
static void print_wrapped(const char *text, int indent, FILE *file) {
    for (size_t room = (size_t)(HELP_COLUMNS - indent);;) {
        size_t line = strcspn(text, "\n"), bytes = line;
        if (line > room)
            for (bytes = room; bytes > 0 && text[bytes] != ' ';)
                bytes--;
        if (bytes == 0) bytes = line; /* a word longer than a line, or an empty line */
        fprintf(file, "%.*s\n", (int)bytes, text);
        if (text[bytes] == '\0') return;
        text += bytes + 1;
        fprintf(file, "%*s", indent, "");
    }
}

/* Prints a spelling on lines of its own, broken between choices if it is too long. */
static void print_wide(const char *spelling, FILE *file) {
    const size_t room = HELP_COLUMNS - 2;
    while (strlen(spelling) > room) {
        size_t bytes = room;
        while (bytes > 0 && spelling[bytes - 1] != '|')
            bytes--;
        if (bytes == 0) break;
        fprintf(file, "  %.*s\n", (int)bytes, spelling);
        spelling += bytes;
    }
    fprintf(file, "  %s\n%*s", spelling, HELP_INDENT, "");
}

/* Prints the spelling of an option up to the start of its text: on the same line if that fits. */
static void print_spelling(const struct option *option, FILE *file) {
    char text[160];
    const char *value = options_value(option), *joint = *value ? " " : "";
    size_t width =
        options_is_experiment(option)
            ? format_text(text, sizeof text, "%s=%s", option->name, value)
            : format_text(text, sizeof text, "--%s%s%s%s", options_is_on(option) ? "[no-]" : "",
                          option->name, joint, value);
    if (width > HELP_INDENT - 4)
        print_wide(text, file);
    else
        fprintf(file, "  %-*s", HELP_INDENT - 2, text);
}

bool options_is_on(const struct option *option) {
    return option->type == OPTION_FLAG && option->fallback && !strcmp(option->fallback, "true");
}

void options_describe(const struct option *option, char text[OPTION_TEXT_BYTES]) {
    const size_t bytes = OPTION_TEXT_BYTES;
    bool on = options_is_on(option);
    bool bounded = option->minimum != 0 || option->maximum != 0;
    const char *fallback = on ? "on" : option->type == OPTION_FLAG ? NULL : option->fallback;
    size_t used = format_text(text, bytes, "%s", option->help);
    if (bounded)
        used += format_text(text + used, bytes - used, " (%.15g to %.15g%s", option->minimum,
                            option->maximum, fallback ? "" : ")");
    if (fallback)
        used += format_text(text + used, bytes - used, "%sdefault: %s)", bounded ? "; " : " (",
                            fallback);
    check(used + 1 < bytes);
}

static void options_print_option(const struct option *option, FILE *file) {
    char text[OPTION_TEXT_BYTES];
    options_describe(option, text);
    print_spelling(option, file);
    print_wrapped(text, HELP_INDENT, file);
}

size_t options_group_count(const struct option_table *table, enum option_group group) {
    size_t count = 0;
    for (size_t i = 0; i < table->option_count; i++)
        count += table->options[i].group == group;
    return count;
}

const char *options_group_title(const struct option_table *table, enum option_group group) {
    static const char *const titles[OPTION_GROUP_COUNT] = {
        [OPTION_GROUP_EVERYDAY] = "everyday options",
        [OPTION_GROUP_RANKS] = "several ranks",
        [OPTION_GROUP_FLEET] = "fleet",
        [OPTION_GROUP_STORAGE] = "storage",
        [OPTION_GROUP_TUNING] = "tuning",
        [OPTION_GROUP_EXPERIMENTS] = "experiments",
    };
    return options_group_count(table, group) == table->option_count ? "options" : titles[group];
}

static void print_group(const struct option_table *table, enum option_group group, FILE *file) {
    if (options_group_count(table, group) == 0) return;
    fprintf(file, "\n%s:\n", options_group_title(table, group));
    for (size_t i = 0; i < table->option_count; i++)
        if (table->options[i].group == group) options_print_option(&table->options[i], file);
}

/* Names the groups that are not printed. */
static void print_rest(const struct option_table *table, size_t count, FILE *file) {
    const char *separator = "";
    fprintf(file, "\n`fathom help %s --all` lists %zu more: ", table->command, count);
    for (int group = OPTION_GROUP_EVERYDAY + 1; group < OPTION_GROUP_COUNT; group++) {
        if (options_group_count(table, (enum option_group)group) == 0) continue;
        fprintf(file, "%s%s", separator, options_group_title(table, (enum option_group)group));
        separator = ", ";
    }
    fprintf(file, ".\n");
}

void options_print(const struct option_table *table, bool all, void *file) {
    size_t everyday = options_group_count(table, OPTION_GROUP_EVERYDAY);
    bool rest = !all && everyday && everyday < table->option_count;
    fprintf(file, "usage: fathom %s%s%s%s\n\n", table->command,
            table->option_count ? " [options]" : "", *table->arguments ? " " : "",
            table->arguments);
    print_wrapped(table->description, 0, file);
    for (int group = 0; group < OPTION_GROUP_COUNT; group++)
        if (!rest || group == OPTION_GROUP_EVERYDAY)
            print_group(table, (enum option_group)group, file);
    if (rest) print_rest(table, table->option_count - everyday, file);
}

/* ---- lookup and formatting ---- */

const struct option *options_find(const struct option_table *table, const char *name) {
    return options_find_option(table, bytes_of(name));
}

size_t options_format(const struct option *option, const void *values, char *out, size_t bytes) {
    const char *at = (const char *)values + option->offset;
    const char *prefix = options_is_experiment(option) ? "--experiment=" : "--";
    const char *text;
    double number;
    uint64_t count;
    bool flag;
    switch (option->type) {
    case OPTION_FLAG:
        memcpy(&flag, at, sizeof flag);
        return (size_t)snprintf(out, bytes, "%s%s=%s", prefix, option->name,
                                flag ? "true" : "false");
    case OPTION_COUNT:
    case OPTION_BYTES:
        memcpy(&count, at, sizeof count);
        return (size_t)snprintf(out, bytes, "%s%s=%" PRIu64, prefix, option->name, count);
    case OPTION_NUMBER:
        memcpy(&number, at, sizeof number);
        return (size_t)snprintf(out, bytes, "%s%s=%.17g", prefix, option->name, number);
    case OPTION_TEXT:
    case OPTION_LIST:
    case OPTION_CHOICE:
        memcpy(&text, at, sizeof text);
        return text ? (size_t)snprintf(out, bytes, "%s%s=%s", prefix, option->name, text) : 0;
    case OPTION_TEXTS: /* several flags */
    case OPTION_EXPERIMENT:
        break;
    }
    return 0;
}

/* ---- options without effect ---- */

/* True if the value differs from the default. */
static bool options_is_set(const struct option *option, const void *values) {
    union {
        bool flag;
        uint64_t count;
        double number;
        const char *text;
        struct option_texts texts;
    } fallback;
    struct option alone = *option;
    const char *at = (const char *)values + option->offset;
    const char *text;
    alone.offset = 0;
    if (option->type == OPTION_EXPERIMENT) return false;
    set_fallback(&alone, &fallback);
    switch (option->type) {
    case OPTION_FLAG:
        return *(const bool *)at != fallback.flag;
    case OPTION_COUNT:
    case OPTION_BYTES:
        return memcmp(at, &fallback.count, sizeof fallback.count) != 0;
    case OPTION_NUMBER:
        return memcmp(at, &fallback.number, sizeof fallback.number) != 0;
    case OPTION_TEXT:
    case OPTION_LIST:
    case OPTION_CHOICE:
        memcpy(&text, at, sizeof text);
        return text && (!fallback.text || strcmp(text, fallback.text) != 0);
    default:
        memcpy(&fallback.texts.count, at, sizeof fallback.texts.count);
        return fallback.texts.count > 0;
    }
}

/* The next name of `needs` in the table, and the value that it must have. NULL if there is none. */
static const struct option *next_needed(const struct option_table *table, const char **needs,
                                        bool *is_set_out) {
    const struct option *option = NULL;
    while (!option && *needs && **needs) {
        *is_set_out = **needs != '=';
        *needs += !*is_set_out;
        size_t bytes = strcspn(*needs, "|");
        option = options_find_option(table, (struct bytes){*needs, bytes});
        *needs += bytes + ((*needs)[bytes] == '|');
    }
    return option;
}

static bool options_is_idle(const struct option_table *table, const struct option *option,
                            const void *values) {
    const char *needs = option->needs;
    bool has_to_be;
    const struct option *needed = next_needed(table, &needs, &has_to_be);
    if (!needed || !options_is_set(option, values)) return false;
    for (; needed; needed = next_needed(table, &needs, &has_to_be))
        if (options_is_set(needed, values) == has_to_be) return false;
    return true;
}

const struct option *options_next_idle(const struct option_table *table, const void *values,
                                       const struct option *after) {
    const struct option *option = after ? after + 1 : table->options;
    while (option < table->options + table->option_count && !options_is_idle(table, option, values))
        option++;
    return option < table->options + table->option_count ? option : NULL;
}

void options_say_idle(const struct option_table *table, const struct option *option,
                      char text_out[OPTION_IDLE_BYTES]) {
    const char *needs = option->needs;
    size_t used = 0;
    text_out[0] = 0;
    bool has_to_be;
    for (const struct option *needed; (needed = next_needed(table, &needs, &has_to_be));) {
        const char *before = has_to_be || options_is_on(needed) ? "without " : "with ";
        used += format_text(text_out + used, OPTION_IDLE_BYTES - used, "%s%s%s",
                            used ? " or " : before, prefix_of(needed), needed->name);
    }
}
