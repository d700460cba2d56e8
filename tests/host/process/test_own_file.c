/* SPDX-License-Identifier: Apache-2.0
 * Protects files from being chosen by another user: nothing is written to through a link, to a file
 * with a second name or of somebody else, or in a folder where others may write. Cases about other
 * users need root, and are skipped without.
 */
#include "host/process/own_file.h"

#include "test_case.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define OTHER 65534
#define WORDS "precious"

static char folder[64];
static struct error error;

static int make_folder(void **state) {
    strcpy(folder, "/tmp/test_own_file.XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    char line[96];
    snprintf(line, sizeof line, "rm -rf %s", folder);
    return system(line);
}

static const char *path_of(const char *name) {
    static char paths[4][128];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name) {
    FILE *file = fopen(path_of(name), "w");
    assert_non_null(file);
    fputs(WORDS, file);
    fclose(file);
}

static long bytes_of_file(const char *name) {
    struct stat info;
    return stat(path_of(name), &info) ? -1 : (long)info.st_size;
}

static void refuse(const char *name, int number) {
    static const int flags[] = {O_RDWR | O_CREAT | O_TRUNC, O_WRONLY | O_CREAT | O_APPEND,
                                O_WRONLY | O_TRUNC, O_RDWR};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        assert_int_equal(own_file_open(path_of(name), flags[i], 0600), -1);
        assert_int_equal(errno, number);
    }
}

TEST_AROUND(a_file_of_ours_is_made_opened_and_cut, make_folder, remove_folder) {
    int file = own_file_open(path_of("new"), O_WRONLY | O_CREAT | O_EXCL, 0600);
    struct stat info;
    assert_true(file >= 0);
    assert_int_equal(fstat(file, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_int_equal(write(file, WORDS, sizeof WORDS - 1), sizeof WORDS - 1);
    close(file);
    file = own_file_open(path_of("new"), O_WRONLY | O_CREAT | O_APPEND, 0600);
    assert_true(fcntl(file, F_GETFL) & O_APPEND && !(fcntl(file, F_GETFL) & O_NONBLOCK));
    assert_true(fcntl(file, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(bytes_of_file("new"), sizeof WORDS - 1);
    close(file);
    close(own_file_open(path_of("new"), O_WRONLY | O_CREAT | O_TRUNC, 0600));
    assert_int_equal(bytes_of_file("new"), 0);
    assert_int_equal(own_file_open(path_of("none"), O_RDWR, 0), -1);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(own_file_open(path_of("no/folder"), O_RDWR, 0), -1);
}

TEST_AROUND(nothing_is_written_through_a_link, make_folder, remove_folder) {
    write_file("victim");
    assert_int_equal(symlink(path_of("victim"), path_of("link")), 0);
    refuse("link", ELOOP);
    assert_int_equal(symlink(path_of("nowhere"), path_of("dangling")), 0);
    refuse("dangling", ELOOP);
    assert_int_equal(bytes_of_file("nowhere"), -1);
    assert_int_equal(link(path_of("victim"), path_of("second")), 0);
    refuse("second", EPERM);
    assert_int_equal(bytes_of_file("victim"), sizeof WORDS - 1);
    assert_non_null(strstr(own_file_why(ELOOP), "link"));
    assert_non_null(strstr(own_file_why(EPERM), "expected a regular file"));
}

/* No process reads from the FIFO: the open does not wait for one. */
TEST_AROUND(what_is_no_file_is_refused, make_folder, remove_folder) {
    assert_int_equal(mkfifo(path_of("fifo"), 0600), 0);
    refuse("fifo", EPERM);
    assert_int_equal(mkdir(path_of("folder"), 0700), 0);
    refuse("folder", EPERM);
}

static void need_root(void) {
    if (geteuid() != 0) skip();
}

TEST_AROUND(another_users_file_is_refused, make_folder, remove_folder) {
    need_root();
    write_file("theirs");
    assert_int_equal(chown(path_of("theirs"), OTHER, OTHER), 0);
    refuse("theirs", EPERM);
    assert_int_equal(bytes_of_file("theirs"), sizeof WORDS - 1);
    /* root may look after a whole folder of another user's */
    assert_int_equal(chown(folder, OTHER, OTHER), 0);
    int file = own_file_open(path_of("theirs"), O_RDWR, 0);
    assert_true(file >= 0);
    close(file);
}

static enum status check_folder(void) {
    int open_folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(open_folder >= 0);
    memset(&error, 0, sizeof error);
    enum status status = own_file_check_folder(open_folder, folder, &error);
    close(open_folder);
    return status;
}

TEST_AROUND(a_folder_where_others_write_is_refused, make_folder, remove_folder) {
    assert_int_equal(check_folder(), STATUS_OK);
    assert_int_equal(chmod(folder, 0755), 0);
    assert_int_equal(check_folder(), STATUS_OK);
    assert_int_equal(chmod(folder, 0775), 0); /* with a private group */
    assert_int_equal(check_folder(), STATUS_OK);
    assert_int_equal(chmod(folder, 0777), 0);
    assert_int_equal(check_folder(), STATUS_INVALID);
    assert_non_null(strstr(error.text, folder));
    assert_non_null(strstr(error.text, "mode 777"));
    assert_non_null(strstr(error.text, "chmod go-w"));
    need_root();
    assert_int_equal(chmod(folder, 01777), 0); /* as /tmp */
    assert_int_equal(check_folder(), STATUS_OK);
    assert_int_equal(chown(folder, 0, OTHER), 0);
    assert_int_equal(chmod(folder, 0770), 0);
    assert_int_equal(check_folder(), STATUS_INVALID);
}

TEST_AROUND(a_folder_of_another_user_is_refused, make_folder, remove_folder) {
    need_root();
    assert_int_equal(chown(folder, OTHER, OTHER), 0);
    assert_int_equal(check_folder(), STATUS_INVALID);
    assert_non_null(strstr(error.text, "its owner is user 65534"));
    assert_non_null(strstr(error.text, "chown"));
    assert_int_equal(rmdir(folder), 0); /* nothing was left in it */
    assert_int_equal(mkdir(folder, 0700), 0);
}

/* The operator's own links are meant; so is what is no file at all, such as /dev/stdout. */
TEST_AROUND(a_report_goes_where_the_operator_means, make_folder, remove_folder) {
    write_file("report");
    assert_int_equal(symlink(path_of("report"), path_of("latest")), 0);
    FILE *report = own_file_report(path_of("latest"));
    assert_non_null(report);
    fclose(report);
    assert_int_equal(bytes_of_file("report"), 0);
    report = own_file_report("/dev/null");
    assert_non_null(report);
    fclose(report);
    report = own_file_report(path_of("made"));
    assert_non_null(report);
    assert_int_equal(fclose(report), 0);
    assert_int_equal(bytes_of_file("made"), 0);
    errno = 0;
    assert_null(own_file_named(path_of("made"), O_EXCL, 0600));
    assert_int_equal(errno, EEXIST);
    need_root();
    write_file("victim");
    assert_int_equal(symlink(path_of("victim"), path_of("trap")), 0);
    assert_int_equal(lchown(path_of("trap"), OTHER, OTHER), 0);
    assert_null(own_file_report(path_of("trap")));
    assert_int_equal(errno, ELOOP);
    assert_int_equal(bytes_of_file("victim"), sizeof WORDS - 1);
}
