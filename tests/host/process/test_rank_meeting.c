/* SPDX-License-Identifier: Apache-2.0
 * Protects the launcher's side of a meeting, with both ends of every socket in this process: who
 * says which rank it is, says it twice or leaves. How ranks of a launch meet is test_rank_launch.c's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "compute/exchange/job_meeting.h"
#include "host/process/rank_meeting.h"

#define RANKS 2
#define PLACES 3

static struct rank_meeting *open_meeting(void) {
    const struct rank_meeting_options options = {.ranks = RANKS, .places = PLACES};
    struct rank_meeting *meeting;
    struct error error;
    if (rank_meeting_open(&options, &meeting, &error)) fail_msg("%s", error.text);
    return meeting;
}

/* The other end of a socket that the meeting took. */
static int join(struct rank_meeting *meeting, bool fits) {
    int ends[2];
    check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
    assert_int_equal(rank_meeting_add(meeting, ends[0], RANK_MEETING_ANYONE), fits);
    return ends[1];
}

static void say_here(struct rank_meeting *meeting, int file, uint32_t rank) {
    static char frame[JOB_HERE_BYTES_MAX];
    size_t bytes = job_frame_here(frame, rank, 0, "", BYTES_LITERAL("address"));
    check(write(file, frame, bytes) == (ssize_t)bytes);
    rank_meeting_tend(meeting);
}

/* The next frame's kind and rank; kind 0: nothing was said; and UINT32_MAX: the socket has ended. */
static struct job_frame heard(int file) {
    char rest[1024];
    struct job_frame head;
    ssize_t got = read(file, &head, sizeof head);
    if (got == 0) return (struct job_frame){.kind = UINT32_MAX};
    if (got < 0) return (struct job_frame){.kind = 0};
    check(got == sizeof head && head.bytes <= sizeof rest);
    check(read(file, rest, head.bytes) == (ssize_t)head.bytes);
    return head;
}

static void ranks_say_themselves_which_they_are(void **state) {
    struct rank_meeting *meeting = open_meeting();
    int first = join(meeting, true), second = join(meeting, true);
    say_here(meeting, first, 1);
    assert_int_equal(heard(first).kind, 0);
    say_here(meeting, second, 0);
    assert_int_equal(heard(first).kind, JOB_FRAME_ROSTER);
    assert_int_equal(heard(second).kind, JOB_FRAME_ROSTER);
    rank_meeting_close(meeting);
    assert_int_equal(heard(first).kind, UINT32_MAX);
    close(first);
    close(second);
}

static void a_second_rank_of_the_same_number_is_sent_away(void **state) {
    struct rank_meeting *meeting = open_meeting();
    int first = join(meeting, true), second = join(meeting, true), third = join(meeting, true);
    say_here(meeting, first, 1);
    say_here(meeting, second, 1);
    assert_int_equal(heard(second).kind, UINT32_MAX);
    say_here(meeting, third, 0);
    assert_int_equal(heard(first).kind, JOB_FRAME_ROSTER);
    assert_int_equal(heard(third).kind, JOB_FRAME_ROSTER);
    rank_meeting_close(meeting);
    close(first);
    close(second);
    close(third);
}

static void who_leaves_is_told_of_once(void **state) {
    struct rank_meeting *meeting = open_meeting();
    int first = join(meeting, true), second = join(meeting, true);
    say_here(meeting, first, 0);
    say_here(meeting, second, 1);
    assert_int_equal(heard(first).kind, JOB_FRAME_ROSTER);
    close(second);
    rank_meeting_tend(meeting);
    const struct job_frame gone = heard(first);
    assert_int_equal(gone.kind, JOB_FRAME_GONE);
    assert_int_equal(gone.rank, 1);
    rank_meeting_leave(meeting, 1);
    assert_int_equal(heard(first).kind, 0);
    rank_meeting_close(meeting);
    close(first);
}

static void strangers_have_few_places(void **state) {
    struct rank_meeting *meeting = open_meeting();
    int files[PLACES + 1];
    for (uint32_t i = 0; i <= PLACES; i++)
        files[i] = join(meeting, i < PLACES);
    assert_int_equal(heard(files[PLACES]).kind, UINT32_MAX);
    close(files[0]); /* it makes room */
    rank_meeting_tend(meeting);
    files[0] = join(meeting, true);
    rank_meeting_close(meeting);
    for (uint32_t i = 0; i <= PLACES; i++)
        close(files[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_say_themselves_which_they_are),
        cmocka_unit_test(a_second_rank_of_the_same_number_is_sent_away),
        cmocka_unit_test(who_leaves_is_told_of_once),
        cmocka_unit_test(strangers_have_few_places),
    };
    return cmocka_run_group_tests_name("rank_meeting", tests, NULL, NULL);
}
