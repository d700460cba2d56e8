/* SPDX-License-Identifier: Apache-2.0
 * Protects where the default model is looked for: beside the program's own directory as in a build
 * tree, then as in an installation; where it is nowhere, both places are named.
 */
#include "host/process/configuration/default_model.h"

#define TEST_OWN_MAIN
#include "test_case.h"

#include <libgen.h>
#include <limits.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[64];

/* Runs a shell's line in the folder; returns its exit code. */
static int shell(const char *line) {
    char text[PATH_MAX + 400];
    snprintf(text, sizeof text, "cd %s && %s", folder, line);
    int status = system(text);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int copy_program(void **state) {
    char self[PATH_MAX] = "", line[PATH_MAX + 40];
    snprintf(folder, sizeof folder, "/tmp/fathom_model_XXXXXX");
    if (!mkdtemp(folder) || readlink("/proc/self/exe", self, sizeof self - 1) < 0) return -1;
    snprintf(line, sizeof line, "mkdir bin && cp %s bin/program", self);
    return shell(line);
}

static int remove_all(void **state) {
    return shell("rm -rf \"$PWD\"");
}

TEST_AROUND(the_build_tree_comes_before_the_installation, copy_program, remove_all) {
    assert_int_equal(shell("bin/program find 2>said"), 1);
    assert_int_equal(shell("grep -q \"bin/../models or ../share/fathom/models\" said"), 0);
    assert_int_equal(shell("mkdir -p share/fathom/models/tiny-r1 models/tiny-r1"), 0);
    assert_int_equal(shell("bin/program find"), 1); /* a directory without a model */
    assert_int_equal(shell("touch share/fathom/models/tiny-r1/config.json"), 0);
    assert_int_equal(shell("bin/program find | grep -q /share/fathom/models/tiny-r1$"), 0);
    assert_int_equal(shell("touch models/tiny-r1/config.json"), 0);
    assert_int_equal(shell("bin/program find | grep -q /bin/../models/tiny-r1$"), 0);
}

/* As the copy of this program that the test runs. */
static int find(void) {
    char path[PATH_MAX];
    struct error error;
    enum status status = default_model_find(path, sizeof path, &error);
    fprintf(status ? stderr : stdout, "%s\n", status ? error.text : path);
    return status != STATUS_OK;
}

int main(int argc, char **argv) {
    if (argc > 1) return find();
    return test_cases_run();
}
