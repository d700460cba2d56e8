/* SPDX-License-Identifier: Apache-2.0
 * Protects configuration files: the same names, values and refusals as flags have, with the file
 * named.
 */
#include <unistd.h>

#include "base/check.h"
#include "host/process/configuration/config_file.h"
#include "test_case.h"

struct values {
    const char *config, *model;
    uint64_t port, shuffle, slow;
    bool progress;
};

static const struct option rows[] = {
    {"config", OPTION_TEXT, NULL, "a file", .offset = offsetof(struct values, config)},
    {"model", OPTION_TEXT, "m", "directory", .offset = offsetof(struct values, model)},
    {"port", OPTION_COUNT, "8000", "port", .offset = offsetof(struct values, port),
     .maximum = 65535},
    {"progress", OPTION_FLAG, NULL, "progress", .offset = offsetof(struct values, progress)},
    {"experiment", OPTION_EXPERIMENT, NULL, "compare", .group = OPTION_GROUP_EXPERIMENTS},
    {"shuffle", OPTION_COUNT, NULL, "a seed", .offset = offsetof(struct values, shuffle),
     .group = OPTION_GROUP_EXPERIMENTS},
    {"slow", OPTION_COUNT, NULL, "a link", .offset = offsetof(struct values, slow),
     .group = OPTION_GROUP_EXPERIMENTS},
};
static const struct option_table table = {.command = "serve",
                                          .arguments = "",
                                          .description = "",
                                          .options = rows,
                                          .option_count = ARRAY_COUNT(rows)};

static struct values values;
static struct error error;

static enum status parse(const char *text) {
    memset(&values, 0, sizeof values);
    memset(&error, 0, sizeof error);
    return config_file_parse(bytes_of(text), "fathom.yaml", &table, &values, &error);
}

static void refuses(const char *text, const char *needle) {
    assert_int_equal(parse(text), STATUS_INVALID);
    if (strncmp(error.text, "fathom.yaml", 11) || !strstr(error.text, needle))
        fail_msg("'%s' lacks 'fathom.yaml' or '%s'", error.text, needle);
}

TEST(keys_are_options) {
    assert_int_equal(parse("# ours\nmodel: a dir\nport: 81\nprogress: true\n"), STATUS_OK);
    assert_string_equal(values.model, "a dir");
    assert_int_equal(values.port, 81);
    assert_true(values.progress);
    free((void *)(uintptr_t)values.model);
    assert_int_equal(parse(""), STATUS_OK);
    assert_int_equal(parse("# only a comment\n"), STATUS_OK);
    assert_int_equal(parse("{}"), STATUS_OK);
    assert_null(values.model);
}

/* A mapping has each key once, so one line names them all. */
TEST(experiments_have_one_key) {
    assert_int_equal(parse("experiment: shuffle=4\nport: 81\n"), STATUS_OK);
    assert_int_equal(values.shuffle, 4);
    assert_int_equal(parse("experiment: shuffle=5, slow=2\n"), STATUS_OK);
    assert_int_equal(values.shuffle, 5);
    assert_int_equal(values.slow, 2);
    refuses("shuffle: 4\n", "--shuffle is now --experiment shuffle=VALUE");
    refuses("experiment: shufle=4\n", "unknown experiment 'shufle'; there are: shuffle, slow");
    refuses("experiment: {shuffle: 4}\n",
            "experiment: expected one value, as after --experiment, found an object");
}

TEST(mistakes_name_file_and_key) {
    refuses("prot: 1\n", "unknown key 'prot', did you mean port");
    refuses("frobnicate: 1\n", "unknown key 'frobnicate'; `fathom serve --help`");
    refuses("config: other.yaml\n", "unknown key 'config'");
    refuses("port: 99999\n", "option --port: expected 0 to 65535, found '99999'");
    refuses("port: many\n", "option --port: expected a whole number");
    refuses("port:\n", "option --port: expected a whole number, found ''");
    refuses("port: [1, 2]\n", "port: expected one value, as after --port, found an array");
    refuses("port: 1\nport: 2\n", "the key stands here twice: port");
    refuses("- port\n", "expected lines of 'name: value'");
    refuses("model: &x a\nport: *x\n", "line 1: anchors and tags are not read");
    refuses("model: \"a\\0b\"\n", "model: expected a text without a zero byte");
    refuses("a: b: c\n", "line 1: not valid YAML: mapping values");
    refuses("port: \xff\n", "not valid YAML");
}

TEST(files_are_bounded) {
    char path[] = "/tmp/fathom_config_XXXXXX";
    assert_int_equal(config_file_read("/nonexistent/f.yaml", &table, &values, &error),
                     STATUS_NOT_FOUND);
    assert_non_null(strstr(error.text, "/nonexistent/f.yaml: cannot open"));
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "port: 7\n", 8), 8);
    assert_int_equal(config_file_read(path, &table, &values, &error), STATUS_OK);
    assert_int_equal(values.port, 7);
    assert_int_equal(ftruncate(fd, 1 << 20), 0);
    assert_int_equal(config_file_read(path, &table, &values, &error), STATUS_TOO_LARGE);
    assert_int_equal(config_file_read("/", &table, &values, &error), STATUS_INVALID);
    assert_non_null(strstr(error.text, "expected a regular file, found a directory"));
    close(fd);
    unlink(path);
}
