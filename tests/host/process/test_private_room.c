/* SPDX-License-Identifier: Apache-2.0
 * Protects memory: what jobs leave in a room is gone when its owner ends, at once or, if it was
 * killed, when the next begins; a living owner's is left alone; a directory that others could have
 * put there is not used.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/process/private_room.h"

#include "test_case.h"

static char base[512];
static struct error error;

static void open_room(struct private_room *room) {
    if (private_room_open(base, room, &error)) fail_msg("%s", error.text);
    assert_int_equal(access(room->path, F_OK), 0);
}

static void put_file(const struct private_room *room) {
    char path[600];
    snprintf(path, sizeof path, "%s/job", room->path);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/job/common.weights", room->path);
    int file = open(path, O_CREAT | O_RDWR, 0600);
    assert_true(file >= 0);
    close(file);
}

TEST(a_room_goes_with_its_owner) {
    struct private_room one, two;
    char path[sizeof one.path];
    open_room(&one);
    open_room(&two);
    assert_string_not_equal(one.path, two.path);
    put_file(&one);
    memcpy(path, one.path, sizeof path);
    private_room_close(&one);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(access(two.path, F_OK), 0);
    private_room_close(&two);
    private_room_close(&two); /* and again: nothing happens */
}

/* The owner has started a program and is killed; the program lives on. */
TEST(a_killed_owners_room_goes_with_the_next) {
    struct private_room found, next;
    int pipes[2], begun[2], status;
    char byte;
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(pipe2(begun, O_CLOEXEC), 0); /* its end is the program's begin */
    pid_t owner = fork();
    assert_true(owner >= 0);
    if (owner == 0) {
        struct private_room room;
        if (private_room_open(base, &room, &error)) _exit(1);
        put_file(&room);
        pid_t program = fork();
        if (program == 0) {
            execlp("sleep", "sleep", "600", (char *)NULL);
            _exit(1);
        }
        close(begun[1]);
        if (read(begun[0], &byte, 1) != 0) _exit(1);
        if (write(pipes[1], &room, sizeof room) != sizeof room ||
            write(pipes[1], &program, sizeof program) != sizeof program)
            _exit(1);
        for (;;)
            pause();
    }
    pid_t program;
    close(begun[0]);
    close(begun[1]);
    assert_int_equal(read(pipes[0], &found, sizeof found), sizeof found);
    assert_int_equal(read(pipes[0], &program, sizeof program), sizeof program);
    open_room(&next);
    assert_int_equal(access(found.path, F_OK), 0); /* its owner lives */
    private_room_close(&next);
    kill(owner, SIGKILL);
    assert_int_equal(waitpid(owner, &status, 0), owner);
    open_room(&next);
    assert_int_equal(access(found.path, F_OK), -1);
    private_room_close(&next);
    kill(program, SIGKILL);
    close(pipes[0]);
    close(pipes[1]);
}

TEST(a_directory_open_to_others_is_refused) {
    struct private_room room;
    char path[600];
    snprintf(path, sizeof path, "%s/fathom-%u", base, (unsigned)getuid());
    mkdir(path, 0700);
    assert_int_equal(chmod(path, 0777), 0);
    assert_int_not_equal(private_room_open(base, &room, &error), STATUS_OK);
    assert_non_null(strstr(error.text, "ours alone"));
    assert_int_equal(chmod(path, 0700), 0);
    assert_int_not_equal(private_room_open("/nowhere", &room, &error), STATUS_OK);
    assert_non_null(strstr(error.text, "/nowhere"));
}

static int make_base(void **state) {
    snprintf(base, sizeof base, "%.400s/fathom-room-XXXXXX",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    return mkdtemp(base) ? 0 : -1;
}

static int remove_base(void **state) {
    char command[600];
    snprintf(command, sizeof command, "rm -r '%s'", base);
    return system(command);
}

TEST_GROUP(make_base, remove_base)
