/* SPDX-License-Identifier: Apache-2.0
 * Protects the launcher's side of a meeting, with both ends of every socket in this process: who
 * says which rank it is, says it twice or leaves. How ranks of a launch meet is
 * test_rank_launch.c's.
 */
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "compute/exchange/job_rendezvous.h"
#include "host/process/ranks/rank_rendezvous.h"

#include "test_case.h"

#define RANKS 2
#define PLACES 3

static struct rank_rendezvous *open_rendezvous(void) {
    const struct rank_rendezvous_options options = {.ranks = RANKS, .places = PLACES};
    struct rank_rendezvous *rendezvous;
    struct error error;
    if (rank_rendezvous_open(&options, &rendezvous, &error)) fail_msg("%s", error.text);
    return rendezvous;
}

/* The other end of a socket that the meeting took. */
static int join(struct rank_rendezvous *rendezvous, bool fits) {
    int ends[2];
    check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
    assert_int_equal(rank_rendezvous_add(rendezvous, ends[0], RANK_RENDEZVOUS_ANYONE), fits);
    return ends[1];
}

static void send_join(struct rank_rendezvous *rendezvous, int file, uint32_t rank) {
    static char frame[JOB_JOIN_BYTES_MAX];
    size_t bytes = job_rendezvous_frame_join(frame, rank, 0, "", BYTES_LITERAL("address"));
    check(write(file, frame, bytes) == (ssize_t)bytes);
    rank_rendezvous_tend(rendezvous);
}

/* The next frame's kind and rank; kind 0: nothing was said; and UINT32_MAX: the socket has
 * ended. */
static struct job_frame received(int file) {
    char rest[1024];
    struct job_frame head;
    ssize_t got = read(file, &head, sizeof head);
    if (got == 0) return (struct job_frame){.kind = UINT32_MAX};
    if (got < 0) return (struct job_frame){.kind = 0};
    check(got == sizeof head && head.bytes <= sizeof rest);
    check(read(file, rest, head.bytes) == (ssize_t)head.bytes);
    return head;
}

TEST(ranks_say_themselves_which_they_are) {
    struct rank_rendezvous *rendezvous = open_rendezvous();
    int first = join(rendezvous, true), second = join(rendezvous, true);
    send_join(rendezvous, first, 1);
    assert_int_equal(received(first).kind, 0);
    send_join(rendezvous, second, 0);
    assert_int_equal(received(first).kind, JOB_FRAME_MEMBERS);
    assert_int_equal(received(second).kind, JOB_FRAME_MEMBERS);
    rank_rendezvous_close(rendezvous);
    assert_int_equal(received(first).kind, UINT32_MAX);
    close(first);
    close(second);
}

TEST(a_second_rank_of_the_same_number_is_sent_away) {
    struct rank_rendezvous *rendezvous = open_rendezvous();
    int first = join(rendezvous, true), second = join(rendezvous, true),
        third = join(rendezvous, true);
    send_join(rendezvous, first, 1);
    send_join(rendezvous, second, 1);
    assert_int_equal(received(second).kind, UINT32_MAX);
    send_join(rendezvous, third, 0);
    assert_int_equal(received(first).kind, JOB_FRAME_MEMBERS);
    assert_int_equal(received(third).kind, JOB_FRAME_MEMBERS);
    rank_rendezvous_close(rendezvous);
    close(first);
    close(second);
    close(third);
}

TEST(who_leaves_is_reported_of_once) {
    struct rank_rendezvous *rendezvous = open_rendezvous();
    int first = join(rendezvous, true), second = join(rendezvous, true);
    send_join(rendezvous, first, 0);
    send_join(rendezvous, second, 1);
    assert_int_equal(received(first).kind, JOB_FRAME_MEMBERS);
    close(second);
    rank_rendezvous_tend(rendezvous);
    const struct job_frame gone = received(first);
    assert_int_equal(gone.kind, JOB_FRAME_GONE);
    assert_int_equal(gone.rank, 1);
    rank_rendezvous_leave(rendezvous, 1);
    assert_int_equal(received(first).kind, 0);
    rank_rendezvous_close(rendezvous);
    close(first);
}

TEST(strangers_have_few_places) {
    struct rank_rendezvous *rendezvous = open_rendezvous();
    int files[PLACES + 1];
    for (uint32_t i = 0; i <= PLACES; i++)
        files[i] = join(rendezvous, i < PLACES);
    assert_int_equal(received(files[PLACES]).kind, UINT32_MAX);
    close(files[0]); /* it makes room */
    rank_rendezvous_tend(rendezvous);
    files[0] = join(rendezvous, true);
    rank_rendezvous_close(rendezvous);
    for (uint32_t i = 0; i <= PLACES; i++)
        close(files[i]);
}
