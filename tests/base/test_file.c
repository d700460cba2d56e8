/* SPDX-License-Identifier: Apache-2.0
 * Protects start-up from what is no file: a FIFO nobody writes to, a directory, a socket, a device
 * are refused in one line that names them, and never waited for.
 */
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/file.h"

#include "test_case.h"

static char folder[32], path[100];
static struct error error;

static const char *in_folder(const char *name) {
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int make_folder(void **state) {
    (void)state;
    strcpy(folder, "/tmp/fathom-file-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    unlink(in_folder("it"));
    return rmdir(folder);
}

static void write_it(const char *text) {
    FILE *file = fopen(in_folder("it"), "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void refuses(const char *name, enum status expected, const char *words) {
    struct bytes text = {"untouched", 9};
    error.text[0] = '\0';
    assert_int_equal(file_take(name, 100, &text, &error), expected);
    assert_int_equal(text.count, 9);
    assert_int_equal(strncmp(error.text, name, strlen(name)), 0);
    if (!strstr(error.text, words)) fail_msg("'%s' lacks '%s'", error.text, words);
}

/* As `<(command)` and `command | fathom --config /dev/stdin` give them. */
TEST_AROUND(it_takes_a_pipe_that_is_open, make_folder, remove_folder) {
    for (size_t count = 99; count <= 101; count++) {
        struct bytes text = {"untouched", 9};
        int ends[2];
        char name[32], content[101];
        memset(content, 'c', sizeof content);
        assert_int_equal(pipe(ends), 0);
        assert_int_equal(write(ends[1], content, count), count);
        close(ends[1]);
        snprintf(name, sizeof name, "/dev/fd/%d", ends[0]);
        enum status status = file_take(name, 100, &text, &error);
        assert_int_equal(status, count <= 100 ? STATUS_OK : STATUS_TOO_LARGE);
        assert_int_equal(text.count, count <= 100 ? count : 9);
        if (status == STATUS_OK) {
            assert_memory_equal(text.data, content, count);
            assert_int_equal(text.data[count], 0);
            free((void *)(uintptr_t)text.data);
        }
        close(ends[0]);
    }
}

TEST_AROUND(it_takes_a_file, make_folder, remove_folder) {
    struct bytes text;
    for (const char *content = "four"; *content; content++) {
        write_it(content);
        assert_int_equal(file_take(in_folder("it"), strlen(content), &text, &error), STATUS_OK);
        assert_int_equal(text.count, strlen(content));
        assert_string_equal(text.data, content);
        free((void *)(uintptr_t)text.data);
    }
    write_it("");
    assert_int_equal(file_take(in_folder("it"), 0, &text, &error), STATUS_OK);
    assert_int_equal(text.count, 0);
    free((void *)(uintptr_t)text.data);
}

TEST_AROUND(it_refuses_what_is_too_large_or_not_there, make_folder, remove_folder) {
    char large[102];
    memset(large, 'x', 101);
    large[101] = '\0';
    write_it(large);
    refuses(in_folder("it"), STATUS_TOO_LARGE, "has 101 bytes, expected at most 100");
    refuses(in_folder("none"), STATUS_NOT_FOUND, "cannot open it: No such file");
}

TEST_AROUND(it_waits_for_no_fifo, make_folder, remove_folder) {
    assert_int_equal(mkfifo(in_folder("it"), 0600), 0);
    refuses(in_folder("it"), STATUS_INVALID, "expected a regular file, found a FIFO (named pipe)");
}

TEST_AROUND(it_refuses_directories_sockets_and_devices, make_folder, remove_folder) {
    refuses(folder, STATUS_INVALID, "expected a regular file, found a directory");
    refuses("/dev/zero", STATUS_INVALID, "expected a regular file, found a device");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", in_folder("it"));
    int socket_file = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(socket_file, (struct sockaddr *)&address, sizeof address), 0);
    refuses(in_folder("it"), STATUS_INVALID, "expected a regular file, found a socket");
    close(socket_file);
}

/* Also one that somebody writes to. */
TEST_AROUND(it_takes_nothing_from_a_fifo, make_folder, remove_folder) {
    assert_int_equal(mkfifo(in_folder("it"), 0600), 0);
    FILE *writer = fopen(in_folder("it"), "r+");
    assert_non_null(writer);
    fputs("text", writer);
    fflush(writer);
    refuses(in_folder("it"), STATUS_INVALID, "FIFO");
    fclose(writer);
}
