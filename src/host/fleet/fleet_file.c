/* SPDX-License-Identifier: Apache-2.0 */
#include "host/fleet/fleet_file.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/limits.h"
#include "host/fleet/fleet_folder.h"
#include "host/process/configuration/host_list.h"
#include "host/process/configuration/yaml_tree.h"
#include "host/process/log/log.h"

#define NS 1e9
#define HOURS 24.0
#define KEY_BYTES 96

/* The parser's state: the name of the file in messages, and the first error. */
struct fleet_reader {
    struct arena *arena;
    const char *path;
    struct error *error;
    enum status status;
};

static void fleet_file_complain(struct fleet_reader *reader, const char *key,
                                const char *expected) {
    if (reader->status) return;
    reader->status = error_set(reader->error, STATUS_INVALID, "%.200s: %s: expected %s",
                               reader->path, key, expected);
}

/* Checks that every member is one of `names`, which ends with NULL. */
static void check_keys(struct fleet_reader *reader, const char *place, const struct tree *object,
                       const char *const *names) {
    struct tree_cursor cursor = {NULL};
    struct bytes key;
    const struct tree *value;
    if (object && tree_kind(object) != TREE_OBJECT)
        fleet_file_complain(reader, place, "keys and values");
    while (tree_next_member(object, &cursor, &key, &value)) {
        const char *const *name = names;
        while (*name && !bytes_equal(key, bytes_of(*name)))
            name++;
        if (*name || reader->status) continue;
        reader->status =
            error_set(reader->error, STATUS_INVALID, "%.200s: %s%s%.*s is not known", reader->path,
                      place, *place ? "." : "", key.count < 60 ? (int)key.count : 60, key.data);
    }
}

/* ---- values ---- */

static double fleet_file_read_number(struct fleet_reader *reader, const struct tree *object,
                                     const char *key, double fallback, double least, double most) {
    const struct tree *value = tree_member(object, key);
    double number = fallback;
    char expected[96];
    snprintf(expected, sizeof expected, "a number from %g to %g", least, most);
    if (value && !tree_get_number(value, &number)) fleet_file_complain(reader, key, expected);
    if (value && (number < least || number > most)) fleet_file_complain(reader, key, expected);
    if (!value && isnan(fallback)) fleet_file_complain(reader, key, expected);
    return number;
}

static uint32_t fleet_file_read_count(struct fleet_reader *reader, const struct tree *object,
                                      const char *key, uint32_t fallback, uint32_t least,
                                      uint32_t most) {
    const struct tree *value = tree_member(object, key);
    int64_t count = fallback;
    char expected[96];
    snprintf(expected, sizeof expected, "a whole number from %u to %u", least, most);
    if (value && !tree_get_integer(value, &count)) fleet_file_complain(reader, key, expected);
    if (value && (count < least || count > most)) fleet_file_complain(reader, key, expected);
    return (uint32_t)count;
}

static int64_t read_seconds(struct fleet_reader *reader, const struct tree *object, const char *key,
                            double fallback) {
    return (int64_t)(fleet_file_read_number(reader, object, key, fallback, 0.001, 1e7) * NS);
}

/* True if the text can be a word of a command line, or a part of a path. */
static bool fleet_file_is_plain(struct bytes text) {
    for (size_t i = 0; i < text.count; i++)
        if ((unsigned char)text.data[i] < ' ' || text.data[i] == 0x7F) return false;
    return true;
}

static const char *fleet_file_read_text(struct fleet_reader *reader, const struct tree *object,
                                        const char *key, const char *fallback) {
    const struct tree *value = tree_member(object, key);
    struct bytes text;
    if (!value && fallback) return fallback;
    if (!value || !tree_get_string(value, &text) || !text.count || !fleet_file_is_plain(text)) {
        fleet_file_complain(reader, key, "a text without control characters");
        return "";
    }
    struct bytes copy = arena_copy(reader->arena, text);
    return copy.data ? copy.data : "";
}

static struct fleet_words fleet_file_read_words(struct fleet_reader *reader,
                                                const struct tree *object, const char *key) {
    const struct tree *value = tree_member(object, key);
    struct fleet_words words = {0};
    struct bytes text;
    if (value && (tree_kind(value) != TREE_ARRAY || tree_count(value) > FLEET_WORDS_MAX))
        fleet_file_complain(reader, key, "a list of at most 64 words");
    for (size_t i = 0; !reader->status && i < tree_count(value); i++) {
        if (!tree_get_string(tree_at(value, i), &text) || !fleet_file_is_plain(text)) {
            fleet_file_complain(
                reader, key,
                "a list of words without control characters, in quotes where they are numbers");
            break;
        }
        words.words[words.count++] = arena_copy(reader->arena, text).data;
    }
    return words;
}

static bool fleet_file_read_flag(struct fleet_reader *reader, const struct tree *object,
                                 const char *key, bool fallback) {
    const struct tree *value = tree_member(object, key);
    bool flag = fallback;
    if (value && !tree_get_bool(value, &flag)) fleet_file_complain(reader, key, "true or false");
    return flag;
}

/* ---- parts ---- */

static struct scale_rule_side read_side(struct fleet_reader *reader, const struct tree *roles,
                                        const char *name, struct fleet_words *arguments_out) {
    static const char *const keys[] = {"tokens_per_s", "nodes",     "least", "most",
                                       "beside",       "arguments", "group", NULL};
    const struct tree *role = tree_member(roles, name);
    if (!role) fleet_file_complain(reader, name, "what its units are");
    check_keys(reader, name, role, keys);
    *arguments_out = fleet_file_read_words(reader, role, "arguments");
    struct scale_rule_side side = {
        .unit_rate = fleet_file_read_number(reader, role, "tokens_per_s", NAN, 1e-3, 1e12),
        .unit_nodes = fleet_file_read_count(reader, role, "nodes", 1, 1, 10000),
        .least = fleet_file_read_count(reader, role, "least", 1, 1, MANAGED_UNITS_MAX),
        .most =
            fleet_file_read_count(reader, role, "most", LIMIT_FLEET_UNITS, 1, MANAGED_UNITS_MAX),
        .extra = fleet_file_read_count(reader, role, "beside", 0, 0, MANAGED_UNITS_MAX),
        .group = fleet_file_read_count(reader, role, "group", 1, 1, MANAGED_UNITS_MAX),
    };
    if (side.most < side.least) fleet_file_complain(reader, "most", "not less than least");
    return side;
}

/* Parses a number of one or two digits. */
static bool fleet_file_take_digits(struct bytes *text, uint32_t *number_out) {
    size_t digits = 0;
    for (*number_out = 0; digits < 2 && digits < text->count; digits++) {
        char digit = text->data[digits];
        if (digit < '0' || digit > '9') break;
        *number_out = *number_out * 10 + (uint32_t)(digit - '0');
    }
    *text = (struct bytes){text->data + digits, text->count - digits};
    return digits > 0;
}

/* Parses "08:00" as a time of the day. */
static int64_t read_hour(struct fleet_reader *reader, const struct tree *object, const char *key,
                         int64_t period_ns) {
    struct bytes text;
    uint32_t hours = 0, minutes = 0;
    bool known = tree_get_string(tree_member(object, key), &text);
    known = known && fleet_file_take_digits(&text, &hours) && text.count && text.data[0] == ':';
    if (known) text = (struct bytes){text.data + 1, text.count - 1};
    known = known && fleet_file_take_digits(&text, &minutes) && !text.count && minutes < 60 &&
            hours * 60 + minutes <= 24 * 60;
    if (!known) fleet_file_complain(reader, key, "a time of the day in quotes, as \"08:00\"");
    return (int64_t)((hours + minutes / 60.0) / HOURS * (double)period_ns);
}

static void read_calendar(struct fleet_reader *reader, const struct tree *root,
                          struct node_calendar *calendar) {
    static const char *const keys[] = {"from", "until", "promised", "price", NULL};
    const struct tree *lines = tree_member(root, "calendar");
    calendar->price = fleet_file_read_number(reader, root, "price", 1, 0, 1e9);
    if (lines && tree_count(lines) > NODE_CALENDAR_LINES)
        fleet_file_complain(reader, "calendar", "at most 64 lines");
    for (size_t i = 0; !reader->status && i < tree_count(lines); i++) {
        const struct tree *line = tree_at(lines, i);
        check_keys(reader, "calendar", line, keys);
        calendar->lines[calendar->count++] = (struct node_calendar_line){
            .from_ns = read_hour(reader, line, "from", calendar->period_ns),
            .until_ns = read_hour(reader, line, "until", calendar->period_ns),
            .promised = fleet_file_read_count(reader, line, "promised", 0, 0, 1000000),
            .price = tree_member(line, "price")
                         ? fleet_file_read_number(reader, line, "price", 0, 0, 1e9)
                         : -1,
        };
    }
}

static void read_manager(struct fleet_reader *reader, const struct tree *root,
                         struct fleet_file *file) {
    static const char *const limits[] = {"ttft_s", "tpot_s", "missed", NULL};
    static const char *const roles[] = {"prefill", "decode", NULL};
    struct fleet_manager_options *manager = &file->manager;
    const struct tree *limit = tree_member(root, "limits"), *role = tree_member(root, "roles");
    check_keys(reader, "limits", limit, limits);
    check_keys(reader, "roles", role, roles);
    manager->calendar.period_ns = read_seconds(reader, root, "day_s", 86400);
    double day_s = (double)manager->calendar.period_ns / NS;
    manager->ttft_limit_ns = read_seconds(reader, limit, "ttft_s", 2);
    manager->tpot_limit_ns = read_seconds(reader, limit, "tpot_s", 0.1);
    manager->missed_share = fleet_file_read_number(reader, limit, "missed", 0.01, 0, 1);
    manager->nodes = fleet_file_read_count(reader, root, "nodes", 0, 1, 1000000);
    if (!tree_member(root, "nodes"))
        fleet_file_complain(reader, "nodes", "how many the fleet may have");
    manager->decide_ns = read_seconds(reader, root, "decide_s", day_s / 8640);
    manager->drain_ns_max = read_seconds(reader, root, "drain_s", day_s / 288);
    manager->rule.start_ns = read_seconds(reader, root, "start_s", day_s / 288);
    manager->start_ns_max =
        read_seconds(reader, root, "start_max_s", 4 * (double)manager->rule.start_ns / NS);
    manager->rule.rest_ns = read_seconds(reader, root, "rest_s", day_s / 32);
    manager->rule.reserve = fleet_file_read_number(reader, root, "reserve", 0.1, 0, 0.9);
    manager->rule.give_back = fleet_file_read_number(reader, root, "give_back", 0.1, 0, 0.9);
    if (manager->rule.reserve + manager->rule.give_back > 0.95)
        fleet_file_complain(reader, "give_back", "less than 0.95 with reserve");
    manager->converts = fleet_file_read_flag(reader, root, "converts", false);
    manager->starts_at_once =
        fleet_file_read_count(reader, root, "starts_at_once", 8, 1, MANAGED_UNITS_MAX);
    manager->rule.sides[SCALE_PREFILL] =
        read_side(reader, role, "prefill", &file->arguments[SCALE_PREFILL]);
    manager->rule.sides[SCALE_DECODE] =
        read_side(reader, role, "decode", &file->arguments[SCALE_DECODE]);
    read_calendar(reader, root, &manager->calendar);
}

/* Rejects a key that only another launcher uses. */
static void check_launcher(struct fleet_reader *reader, const struct tree *root,
                           const struct fleet_file *file) {
    static const struct {
        const char *key, *launcher;
    } rows[] = {
        {"hosts", "hosts"}, {"remote_shell", "hosts"}, {"host_units", "hosts"}, {"slurm", "slurm"}};
    char expected[96];
    if (strcmp(file->launcher, "local") != 0 && strcmp(file->launcher, "hosts") != 0 &&
        strcmp(file->launcher, "slurm") != 0)
        fleet_file_complain(reader, "launcher", "local, hosts or slurm");
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        if (!tree_member(root, rows[i].key) || strcmp(file->launcher, rows[i].launcher) == 0)
            continue;
        snprintf(expected, sizeof expected, "to be absent with launcher %.20s, only %s uses it",
                 file->launcher, rows[i].launcher);
        fleet_file_complain(reader, rows[i].key, expected);
    }
}

/* Skips words that are not host names, with a line in the log: the remote shell could interpret
 * them as options. The fleet runs on the other hosts. */
static void fleet_file_check_hosts(struct fleet_reader *reader, struct fleet_file *file) {
    struct fleet_words *hosts = &file->hosts;
    uint32_t kept = 0;
    struct error why;
    if (strcmp(file->launcher, "hosts") == 0 && !hosts->count)
        fleet_file_complain(reader, "hosts", "where units may run, as [a, b]");
    for (uint32_t i = 0; i < hosts->count && !reader->status; i++) {
        const char *word = hosts->words[i];
        for (uint32_t other = 0; other < kept; other++)
            if (strcmp(word, hosts->words[other]) == 0)
                fleet_file_complain(reader, "hosts", "each host once");
        if (host_list_check_name(bytes_of(word), &why))
            log_say(LOG_ERROR, "fleet", "a host of the file is left out file=%s why=%s",
                    reader->path, why.text);
        else
            hosts->words[kept++] = word;
    }
    hosts->count = kept;
    hosts->words[kept] = NULL;
}

/* Rejects options that the launcher sets itself to find its jobs. */
static void check_slurm(struct fleet_reader *reader, const struct fleet_file *file) {
    static const char *const own[] = {"--job-name", "--nodes", "--output",     "--open-mode",
                                      "--array",    "--wrap",  "--no-requeue", "--requeue",
                                      "--parsable", "--wait",  "--test-only",  "-J",
                                      "-N",         "-o",      "-a",           "-W"};
    char expected[160];
    for (uint32_t i = 0; i < file->slurm.count; i++)
        for (size_t row = 0; row < ARRAY_COUNT(own); row++) {
            const char *word = file->slurm.words[i];
            size_t bytes = strlen(own[row]);
            bool is_short = own[row][1] != '-';
            if (strncmp(word, own[row], bytes) != 0) continue;
            if (!is_short && word[bytes] && word[bytes] != '=') continue;
            snprintf(expected, sizeof expected, "no %s: the launcher sets that itself", own[row]);
            fleet_file_complain(reader, "slurm", expected);
        }
    if (strcmp(file->launcher, "slurm") == 0 && strpbrk(file->folder, "%\\"))
        fleet_file_complain(reader, "folder",
                            "a path without % and \\, which sbatch --output replaces");
}

static void fleet_file_read_root(struct fleet_reader *reader, const struct tree *root,
                                 struct fleet_file *file) {
    static const char *const keys[] = {
        "name",     "folder",       "launcher",    "connect",  "kv_listen",      "gateways",
        "program",  "roles",        "arguments",   "limits",   "nodes",          "day_s",
        "decide_s", "start_s",      "start_max_s", "drain_s",  "rest_s",         "reserve",
        "price",    "calendar",     "give_back",   "converts", "starts_at_once", "hosts",
        "slurm",    "remote_shell", "host_units",  NULL};
    check_keys(reader, "", root, keys);
    file->name = fleet_file_read_text(reader, root, "name", NULL);
    file->folder = fleet_file_read_text(reader, root, "folder", NULL);
    file->launcher = fleet_file_read_text(reader, root, "launcher", "local");
    file->connect = fleet_file_read_text(reader, root, "connect", NULL);
    file->kv_listen = fleet_file_read_text(reader, root, "kv_listen", "127.0.0.1");
    file->gateways = fleet_file_read_words(reader, root, "gateways");
    file->program = fleet_file_read_words(reader, root, "program");
    file->hosts = fleet_file_read_words(reader, root, "hosts");
    file->remote_shell = fleet_file_read_words(reader, root, "remote_shell");
    file->slurm = fleet_file_read_words(reader, root, "slurm");
    file->host_units = fleet_file_read_count(reader, root, "host_units", 1, 1, 1000);
    file->arguments[SCALE_SIDES] = fleet_file_read_words(reader, root, "arguments");
    if (!file->gateways.count || file->gateways.count > LIMIT_FLEET_GATEWAYS)
        fleet_file_complain(reader, "gateways", "one to eight, as [http://127.0.0.1:8001]");
    if (strlen(file->folder) > FLEET_FOLDER_BYTES_MAX)
        fleet_file_complain(reader, "folder", "a path of at most 300 bytes");
    check_launcher(reader, root, file);
    fleet_file_check_hosts(reader, file);
    check_slurm(reader, file);
    read_manager(reader, root, file);
}

enum status fleet_file_read(const char *path, struct arena *arena, struct fleet_file *file_out,
                            struct error *error) {
    const struct tree *root;
    struct fleet_file file = {0};
    enum status status = yaml_tree_read(arena, path, &root, error);
    if (status) return status;
    struct fleet_reader reader = {.arena = arena, .path = path, .error = error};
    if (tree_kind(root) != TREE_OBJECT)
        return error_set(error, STATUS_INVALID, "%.200s: expected keys and values", path);
    fleet_file_read_root(&reader, root, &file);
    if (reader.status) return reader.status;
    *file_out = file;
    return STATUS_OK;
}
