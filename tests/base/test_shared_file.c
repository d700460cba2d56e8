/* SPDX-License-Identifier: Apache-2.0
 * Protects memory that processes share by a file: who is told where it is finds that memory, and
 * never another file, however its maker's numbers are used by then.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "base/shared_file.h"

#include "test_case.h"

enum { BYTES = 5000 };

TEST(another_process_finds_what_was_made) {
    struct shared_file where;
    int file = shared_file_create(BYTES, &where), status;
    char read_back = 0;
    assert_true(file >= 0 && where.name);
    pid_t child = fork();
    if (child == 0) {
        close(file);
        file = shared_file_open(&where, BYTES); /* its parent's */
        _exit(file >= 0 && pwrite(file, "x", 1, BYTES - 1) == 1 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(pread(file, &read_back, 1, BYTES - 1), 1);
    assert_int_equal(read_back, 'x');
    close(file);
}

TEST(what_is_not_there_is_not_found) {
    struct shared_file where, other, wrong;
    int file = shared_file_create(BYTES, &where);
    assert_true(file >= 0);
    assert_int_equal(shared_file_open(&where, BYTES + 1), -1);
    wrong = where;
    wrong.name++;
    assert_int_equal(shared_file_open(&wrong, BYTES), -1);
    wrong = where;
    wrong.name = 0;
    assert_int_equal(shared_file_open(&wrong, BYTES), -1);
    close(file);
    assert_int_equal(shared_file_open(&where, BYTES), -1);
    file = shared_file_create(BYTES, &other); /* under the number of the one before */
    assert_int_equal(other.file, where.file);
    assert_int_equal(shared_file_open(&where, BYTES), -1);
    close(file);
}
