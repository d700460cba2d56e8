/* SPDX-License-Identifier: Apache-2.0
 * Protects the launching of ranks: they meet, are told who is gone, and die with whoever launched
 * them; what makes no sense harms nobody. The ranks are this program again, without UCX: what they
 * do is their first argument.
 */
#include <poll.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "compute/exchange/job_rendezvous.h"
#include "host/process/ranks/rank_launch.h"

#define TEST_OWN_MAIN
#include "test_case.h"

#define RANKS_MAX 40

/* ---- a rank ---- */

static uint32_t reported(const char *name) {
    const char *text = getenv(name);
    check(text);
    return (uint32_t)strtoul(text, NULL, 10);
}

/* Of a rank: its number again and again, up to what is allowed where `large`. */
static struct bytes address_of(uint32_t rank, bool large) {
    static char address[JOB_ADDRESS_BYTES_MAX];
    memset(address, (int)rank + 1, sizeof address);
    return (struct bytes){address, large ? sizeof address - rank : 20 + rank};
}

/* Small ones byte by byte: the launcher puts pieces together. */
static void send_join(bool large) {
    static char frame[JOB_JOIN_BYTES_MAX];
    uint32_t rank = reported(JOB_RENDEZVOUS_RANK);
    size_t bytes = job_rendezvous_frame_join(frame, rank, 0, getenv(JOB_RENDEZVOUS_HOST),
                                             address_of(rank, large));
    size_t piece = large ? bytes : 1;
    for (size_t at = 0; at < bytes; at += piece)
        check(write((int)reported(JOB_RENDEZVOUS_FILE), frame + at, piece) == (ssize_t)piece);
}

static bool receive(char *frame, size_t bytes) {
    for (size_t at = 0; at < bytes;) {
        ssize_t got = read((int)reported(JOB_RENDEZVOUS_FILE), frame + at, bytes - at);
        if (got <= 0) return false;
        at += (size_t)got;
    }
    return true;
}

/* Everybody's places, as they were said. */
static void receive_members(bool large, const char *other_host) {
    static char frame[sizeof(struct job_frame) + RANKS_MAX * JOB_PLACE_BYTES_MAX];
    uint32_t ranks = reported(JOB_RENDEZVOUS_RANKS), own = reported(JOB_RENDEZVOUS_RANK);
    struct job_frame head;
    struct bytes address;
    const char *host;
    size_t bytes, at = 0;
    check(receive(frame, sizeof head));
    memcpy(&head, frame, sizeof head);
    check(head.kind == JOB_FRAME_MEMBERS);
    check(job_rendezvous_frame_measure((struct bytes){frame, sizeof head}, ranks, &bytes));
    check(receive(frame + sizeof head, bytes - sizeof head));
    for (uint32_t rank = 0; rank < ranks; rank++) {
        check(job_rendezvous_frame_address((struct bytes){frame, bytes}, &at, &host, &address));
        check(bytes_equal(address, address_of(rank, large)));
        const char *expected = other_host && rank < 2 ? other_host : getenv(JOB_RENDEZVOUS_HOST);
        check(strcmp(host, expected) == 0);
    }
    check(own < ranks);
}

static void receive_gone(uint32_t rank) {
    struct job_frame head;
    check(receive((char *)&head, sizeof head));
    check(head.magic == JOB_RENDEZVOUS_MAGIC && head.kind == JOB_FRAME_GONE && head.rank == rank);
}

static int rank_main(const char *does) {
    uint32_t rank = reported(JOB_RENDEZVOUS_RANK);
    char end;
    if (!strcmp(does, "crowd")) return reported(JOB_RENDEZVOUS_RANKS_HERE) == 9 ? 0 : 1;
    if (!strcmp(does, "place")) return (int)reported(JOB_RENDEZVOUS_PLACE);
    if (!strcmp(does, "nonsense")) {
        check(write((int)reported(JOB_RENDEZVOUS_FILE), "GET / HTTP/1.1\r\n\r\n", 18) == 18);
        return receive(&end, 1) ? 1 : 0; /* nothing but the end */
    }
    bool large = !strcmp(does, "large");
    send_join(large);
    if (large && rank % 8 == 3) usleep(100000); /* its socket is full meanwhile */
    receive_members(large, !strcmp(does, "part") ? "north" : NULL);
    if (!strcmp(does, "gone")) {
        if (rank == 1) return 7;
        receive_gone(1);
    }
    while (!strcmp(does, "stay") && receive(&end, 1))
        ;
    return 0;
}

/* ---- their launcher ---- */

struct seen {
    int status[RANKS_MAX];
    uint32_t ended;
    struct job_members *members; /* of a part */
};

static void on_end(void *context, uint32_t rank, int status) {
    struct seen *seen = context;
    seen->status[rank] = status;
    seen->ended++;
}

static void on_here(void *context, struct bytes frame) {
    struct seen *seen = context;
    assert_true(job_rendezvous_members_add(seen->members, frame));
}

static char self[RANK_LAUNCH_PATH_BYTES];

static struct rank_launch *launch_ranks(const char *does, uint32_t count, struct seen *seen,
                                        uint32_t sharing) {
    const char *const arguments[] = {self, does, NULL};
    const struct rank_launch_options options = {.arguments = arguments,
                                                .count = count,
                                                .total = count,
                                                .sharing = sharing,
                                                .before = 6,
                                                .speaks = true,
                                                .context = seen,
                                                .ended = on_end};
    struct rank_launch *launch;
    struct error error;
    if (rank_launch_open(&options, &launch, &error)) fail_msg("%s", error.text);
    return launch;
}

static void tend_once(struct rank_launch *launch) {
    struct pollfd file = {rank_launch_file(launch), POLLIN, 0};
    assert_true(poll(&file, 1, 60000) == 1);
    rank_launch_tend(launch);
}

static void run_to_the_end(const char *does, uint32_t count, struct seen *seen) {
    struct rank_launch *launch = launch_ranks(does, count, seen, 9);
    while (rank_launch_left(launch))
        tend_once(launch);
    assert_int_equal(seen->ended, count);
    assert_int_equal(rank_launch_pid(launch, 0), 0);
    rank_launch_close(launch);
}

static void all_end_well(const char *does, uint32_t count) {
    struct seen seen = {.ended = 0};
    run_to_the_end(does, count, &seen);
    for (uint32_t rank = 0; rank < count; rank++)
        assert_int_equal(seen.status[rank], 0);
}

TEST(ranks_that_come_are_reported_of_one_another) {
    all_end_well("meet", 1);
    all_end_well("meet", 5);
}

TEST(a_large_members_reaches_ranks_that_read_late) {
    all_end_well("large", RANKS_MAX);
}

TEST(ranks_are_reported_how_many_share_their_cpus) {
    all_end_well("crowd", 2);
}

/* Devices of a host are taken in this order, one by each rank of any job there. */
TEST(ranks_are_reported_how_many_of_the_host_stand_before_them) {
    struct seen seen = {.ended = 0};
    run_to_the_end("place", 3, &seen);
    for (uint32_t rank = 0; rank < 3; rank++)
        assert_true(WIFEXITED(seen.status[rank]) &&
                    WEXITSTATUS(seen.status[rank]) == (int)(6 + rank));
}

TEST(the_others_are_reported_who_is_gone) {
    struct seen seen = {.ended = 0};
    run_to_the_end("gone", 3, &seen);
    assert_true(WIFEXITED(seen.status[1]) && WEXITSTATUS(seen.status[1]) == 7);
    assert_true(seen.status[0] == 0 && seen.status[2] == 0);
}

TEST(nonsense_ends_the_talk_and_nothing_else) {
    all_end_well("nonsense", 2);
}

TEST(a_program_that_is_not_there_is_an_error) {
    const char *const arguments[] = {"/nowhere/fathom", NULL};
    const struct rank_launch_options options = {
        .arguments = arguments, .count = 2, .total = 2, .ended = on_end};
    struct rank_launch *launch;
    struct error error;
    assert_int_equal(rank_launch_open(&options, &launch, &error), STATUS_IO);
    assert_string_equal(error.text, "/nowhere/fathom: No such file or directory");
}

/* Ranks 2 and 3 of 4; the others are elsewhere. */
TEST(a_part_leaves_the_members_to_its_owner) {
    static char frame[JOB_JOIN_BYTES_MAX];
    const char *const arguments[] = {self, "part", NULL};
    struct seen seen = {.ended = 0};
    const struct rank_launch_options options = {.arguments = arguments,
                                                .first = 2,
                                                .count = 2,
                                                .total = 4,
                                                .host = "south",
                                                .speaks = true,
                                                .context = &seen,
                                                .here = on_here,
                                                .ended = on_end};
    struct rank_launch *launch;
    struct error error;
    assert_int_equal(job_rendezvous_members_open(4, &seen.members, &error), STATUS_OK);
    for (uint32_t rank = 0; rank < 2; rank++) {
        size_t bytes = job_rendezvous_frame_join(frame, rank, 0, "north", address_of(rank, false));
        assert_true(job_rendezvous_members_add(seen.members, (struct bytes){frame, bytes}));
    }
    if (rank_launch_open(&options, &launch, &error)) fail_msg("%s", error.text);
    struct bytes members;
    while (!(members = job_rendezvous_members_next(seen.members)).count)
        tend_once(launch);
    rank_launch_report(launch, members);
    while (rank_launch_left(launch))
        tend_once(launch);
    assert_int_equal(seen.status[2], 0);
    assert_int_equal(seen.status[3], 0);
    rank_launch_close(launch);
    job_rendezvous_members_close(seen.members);
}

TEST(a_signal_goes_to_one_rank) {
    struct seen seen = {.ended = 0};
    struct rank_launch *launch = launch_ranks("stay", 2, &seen, 0);
    rank_launch_signal(launch, 1, SIGUSR1);
    while (!seen.ended)
        tend_once(launch);
    assert_true(WIFSIGNALED(seen.status[1]) && WTERMSIG(seen.status[1]) == SIGUSR1);
    assert_int_equal(rank_launch_left(launch), 1);
    rank_launch_signal_all(launch, SIGKILL);
    while (rank_launch_left(launch))
        tend_once(launch);
    assert_true(WIFSIGNALED(seen.status[0]) && WTERMSIG(seen.status[0]) == SIGKILL);
    rank_launch_close(launch);
}

/* A process launches ranks, tells their pids, and is killed. */
TEST(ranks_die_with_who_launched_them) {
    int pipes[2];
    pid_t ranks[3];
    assert_int_equal(pipe(pipes), 0);
    pid_t launcher = fork();
    if (launcher == 0) {
        struct seen seen = {.ended = 0};
        struct rank_launch *launch = launch_ranks("stay", 3, &seen, 0);
        for (uint32_t rank = 0; rank < 3; rank++)
            ranks[rank] = rank_launch_pid(launch, rank);
        check(write(pipes[1], ranks, sizeof ranks) == sizeof ranks);
        for (;;)
            pause();
    }
    assert_int_equal(read(pipes[0], ranks, sizeof ranks), sizeof ranks);
    struct pollfd files[3];
    for (uint32_t rank = 0; rank < 3; rank++) {
        files[rank] = (struct pollfd){pidfd_open(ranks[rank], 0), POLLIN, 0};
        assert_true(files[rank].fd >= 0);
    }
    assert_int_equal(poll(files, 3, 0), 0);
    kill(launcher, SIGKILL);
    waitpid(launcher, NULL, 0);
    for (uint32_t rank = 0; rank < 3; rank++) {
        assert_int_equal(poll(&files[rank], 1, 60000), 1);
        close(files[rank].fd);
    }
    close(pipes[0]);
    close(pipes[1]);
}

int main(int argc, char **argv) {
    if (argc > 1) return rank_main(argv[1]);
    check(rank_launch_self(self));
    return test_cases_run();
}
