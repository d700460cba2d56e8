/* SPDX-License-Identifier: Apache-2.0
 * Reading a command line against a table. Two passes: the first finds --help and --config, the
 * second sets values, so that a flag wins over the file wherever it stands on the line.
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

#define NAME_BYTES_MAX 63

static const struct option *find_option(const struct option_table *table, struct bytes name) {
    for (size_t i = 0; i < table->option_count; i++)
        if (bytes_equal(bytes_of(table->options[i].name), name)) return &table->options[i];
    return NULL;
}

/* Edits (insert, delete, replace) between two names of at most NAME_BYTES_MAX bytes. */
static size_t edit_distance(struct bytes a, struct bytes b) {
    size_t row[NAME_BYTES_MAX + 1];
    for (size_t j = 0; j <= b.count; j++)
        row[j] = j;
    for (size_t i = 0; i < a.count; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < b.count; j++) {
            size_t replaced = diagonal + (a.data[i] != b.data[j]);
            size_t shorter = row[j] < row[j + 1] ? row[j] : row[j + 1];
            diagonal = row[j + 1];
            row[j + 1] = replaced < shorter + 1 ? replaced : shorter + 1;
        }
    }
    return row[b.count];
}

const char *options_nearest(const struct option_table *table, struct bytes name) {
    const char *nearest = NULL;
    size_t least = name.count / 3 + 2; /* beyond that it is another word, not a slip */
    if (name.count > NAME_BYTES_MAX) return NULL;
    for (size_t i = 0; i < table->option_count; i++) {
        struct bytes known = bytes_of(table->options[i].name);
        check(known.count <= NAME_BYTES_MAX);
        size_t distance = edit_distance(name, known);
        if (distance < least) {
            least = distance;
            nearest = table->options[i].name;
        }
    }
    return nearest;
}

static enum status unknown_option(const struct option_table *table, struct bytes name,
                                  struct error *error) {
    const char *nearest = options_nearest(table, name);
    int shown = (int)(name.count < 80 ? name.count : 80);
    if (nearest)
        return error_set(error, STATUS_INVALID, "unknown option '--%.*s'; did you mean --%s?",
                         shown, name.data, nearest);
    return error_set(error, STATUS_INVALID,
                     "unknown option '--%.*s'; `fathom %s --help` lists the options", shown,
                     name.data, table->command);
}

static enum status bad_value(const struct option *option, const char *value, const char *expected,
                             struct error *error) {
    return error_set(error, STATUS_INVALID, "option --%s: expected %s, found '%.80s'", option->name,
                     expected, value);
}

static enum status check_range(const struct option *option, double number, const char *value,
                               struct error *error) {
    bool bounded = option->minimum != 0 || option->maximum != 0;
    if (!bounded || (number >= option->minimum && number <= option->maximum)) return STATUS_OK;
    return error_set(error, STATUS_INVALID, "option --%s: expected %.15g to %.15g, found '%.80s'",
                     option->name, option->minimum, option->maximum, value);
}

static enum status set_flag(const struct option *option, const char *value, bool *out,
                            struct error *error) {
    bool yes = !strcmp(value, "true");
    if (!yes && strcmp(value, "false")) return bad_value(option, value, "true or false", error);
    *out = yes;
    return STATUS_OK;
}

static enum status set_count(const struct option *option, const char *value, uint64_t *out,
                             struct error *error) {
    char *end;
    errno = 0;
    unsigned long long number = strtoull(value, &end, 10);
    if (value[0] < '0' || value[0] > '9' || *end || errno)
        return bad_value(option, value, "a whole number", error);
    enum status status = check_range(option, (double)number, value, error);
    if (status == STATUS_OK) *out = number;
    return status;
}

static enum status set_number(const struct option *option, const char *value, double *out,
                              struct error *error) {
    char *end;
    double number = strtod(value, &end);
    if (end == value || *end || !isfinite(number))
        return bad_value(option, value, "a number", error);
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
    return bad_value(option, value, "bytes such as 4096, 512KiB, 2GiB or 1.5GB", error);
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
    return error_set(error, STATUS_INVALID, "option --%s: expected one of %s, found '%.80s'",
                     option->name, option->choices, value);
}

static enum status set_value(const struct option *option, const char *value, void *values,
                             struct error *error) {
    void *out = (char *)values + option->offset;
    switch (option->type) {
    case OPTION_FLAG:
        return set_flag(option, value, out, error);
    case OPTION_COUNT:
        return set_count(option, value, out, error);
    case OPTION_NUMBER:
        return set_number(option, value, out, error);
    case OPTION_BYTES:
        return set_bytes(option, value, out, error);
    case OPTION_TEXT:
        *(const char **)out = value;
        return STATUS_OK;
    case OPTION_CHOICE:
        return set_choice(option, value, out, error);
    }
    check(!"option type");
    return STATUS_INVALID;
}

enum status options_set(const struct option_table *table, const char *name, const char *value,
                        void *values, struct error *error) {
    const struct option *option = find_option(table, bytes_of(name));
    if (!option) return unknown_option(table, bytes_of(name), error);
    return set_value(option, value, values, error);
}

/* What a row holds before file and flags. A fallback outside its own rules is a bug of ours. */
static void set_fallback(const struct option *option, void *values) {
    void *out = (char *)values + option->offset;
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

/* One flag of the command line, with its value. */
struct flag {
    const struct option *option;
    const char *value;
};

/* Reads the flag at argv[*at] and moves *at behind it (and its value, if that is a word of its
 * own). */
static enum status read_flag(const struct option_table *table, int argc, char **argv, int *at,
                             struct flag *flag_out, struct error *error) {
    const char *name = argv[*at] + 2;
    size_t name_bytes = strcspn(name, "=");
    const char *value = name[name_bytes] == '=' ? name + name_bytes + 1 : NULL;
    const struct option *option = find_option(table, (struct bytes){name, name_bytes});
    if (!option && !value && !strncmp(name, "no-", 3)) {
        option = find_option(table, bytes_of(name + 3));
        if (option && option->type != OPTION_FLAG) option = NULL;
        value = "false";
    }
    if (!option) return unknown_option(table, (struct bytes){name, name_bytes}, error);
    *at += 1;
    if (!value && option->type == OPTION_FLAG) value = "true";
    if (!value && (*at == argc || !strncmp(argv[*at], "--", 2)))
        return error_set(error, STATUS_INVALID, "option --%s needs a value: --%s=VALUE",
                         option->name, option->name);
    if (!value) value = argv[(*at)++];
    *flag_out = (struct flag){option, value};
    return STATUS_OK;
}

/* Is argv[at] a flag? A lone "-" (standard input) and what follows "--" are not. */
static bool is_flag(const char *word) {
    return word[0] == '-' && word[1] != '\0';
}

/* First pass: finds --help and the value of --config; complains about nothing. */
static bool find_help(int argc, char **argv) {
    for (int at = 1; at < argc && strcmp(argv[at], "--"); at++)
        if (!strcmp(argv[at], "--help") || !strcmp(argv[at], "-h")) return true;
    return false;
}

static const char *find_config(const struct option_table *table, int argc, char **argv) {
    const char *path = NULL;
    struct flag flag;
    if (!find_option(table, BYTES_LITERAL("config"))) return NULL;
    for (int at = 1; at < argc && strcmp(argv[at], "--");) {
        if (strncmp(argv[at], "--", 2))
            at++;
        else if (read_flag(table, argc, argv, &at, &flag, NULL) != STATUS_OK)
            return NULL; /* the second pass says what is wrong */
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

static enum status parse_words(const struct option_table *table, int argc, char **argv,
                               void *values, struct option_result *result, struct error *error) {
    enum status status = STATUS_OK;
    bool flags_over = false;
    for (int at = 1; at < argc && status == STATUS_OK;) {
        const char *word = argv[at];
        struct flag flag;
        if (!flags_over && !strcmp(word, "--")) {
            flags_over = true;
            at++;
        } else if (!flags_over && !strncmp(word, "--", 2)) {
            status = read_flag(table, argc, argv, &at, &flag, error);
            if (status == STATUS_OK) status = set_value(flag.option, flag.value, values, error);
        } else if (!flags_over && is_flag(word)) {
            status = error_set(error, STATUS_INVALID,
                               "unknown option '%.80s'; options begin with two dashes, and an "
                               "argument that begins with one stands behind '--'",
                               word);
        } else if (result->positional_count == table->positional_max) {
            status = error_set(error, STATUS_INVALID,
                               "unexpected argument '%.80s'; usage: fathom %s [options] %s", word,
                               table->command, table->arguments);
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
    check(table->positional_max <= OPTION_POSITIONAL_MAX);
    for (size_t i = 0; i < table->option_count; i++)
        set_fallback(&table->options[i], values);
    if (find_help(argc, argv)) {
        options_print(table, stdout);
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

static const char *value_name(const struct option *option) {
    static const char *const names[] = {
        [OPTION_FLAG] = "",        [OPTION_COUNT] = " N",    [OPTION_NUMBER] = " X",
        [OPTION_BYTES] = " BYTES", [OPTION_TEXT] = " VALUE", [OPTION_CHOICE] = " ",
    };
    return names[option->type];
}

static void print_option(const struct option *option, FILE *file) {
    char left[160];
    bool on = option->type == OPTION_FLAG && option->fallback && !strcmp(option->fallback, "true");
    size_t width =
        format_text(left, sizeof left, "--%s%s%s%s", on ? "[no-]" : "", option->name,
                    value_name(option), option->type == OPTION_CHOICE ? option->choices : "");
    if (width > 26)
        fprintf(file, "  %s\n  %26s  %s", left, "", option->help);
    else
        fprintf(file, "  %-26s  %s", left, option->help);
    if (option->minimum != 0 || option->maximum != 0)
        fprintf(file, ", %.15g to %.15g", option->minimum, option->maximum);
    if (option->fallback && option->type != OPTION_FLAG)
        fprintf(file, " (default: %s)", option->fallback);
    fprintf(file, "%s\n", on ? " (default: on)" : "");
}

void options_print(const struct option_table *table, void *file) {
    fprintf(file, "usage: fathom %s%s%s%s\n\n%s\n", table->command,
            table->option_count ? " [options]" : "", *table->arguments ? " " : "", table->arguments,
            table->description);
    if (table->option_count) fprintf(file, "\noptions:\n");
    for (size_t i = 0; i < table->option_count; i++)
        print_option(&table->options[i], file);
}

const struct option *options_find(const struct option_table *table, const char *name) {
    return find_option(table, bytes_of(name));
}

size_t options_format(const struct option *option, const void *values, char *out, size_t bytes) {
    const char *at = (const char *)values + option->offset;
    const char *text;
    double number;
    uint64_t count;
    bool flag;
    switch (option->type) {
    case OPTION_FLAG:
        memcpy(&flag, at, sizeof flag);
        return (size_t)snprintf(out, bytes, "--%s=%s", option->name, flag ? "true" : "false");
    case OPTION_COUNT:
    case OPTION_BYTES:
        memcpy(&count, at, sizeof count);
        return (size_t)snprintf(out, bytes, "--%s=%" PRIu64, option->name, count);
    case OPTION_NUMBER:
        memcpy(&number, at, sizeof number);
        return (size_t)snprintf(out, bytes, "--%s=%.17g", option->name, number);
    case OPTION_TEXT:
    case OPTION_CHOICE:
        memcpy(&text, at, sizeof text);
        return text ? (size_t)snprintf(out, bytes, "--%s=%s", option->name, text) : 0;
    }
    return 0;
}
