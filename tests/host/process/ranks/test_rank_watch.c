/* SPDX-License-Identifier: Apache-2.0
 * Protects the signs of life among ranks: what is no sign of this job's ranks counts for nothing,
 * however much of it comes; a rank that stands still, and one that never comes, end rank 0 with a
 * line. Rank 0 is a process of its own each time, since it ends.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "host/process/ranks/rank_watch.h"
#include "test_case.h"

static const uint8_t token[RANK_WATCH_TOKEN_BYTES] = "0123456789abcdef";

static struct rank_sign good_sign(void) {
    struct rank_sign sign = {.number = 1, .tiles = 9, .pid = 77, .rank = 3, .host = "node"};
    memcpy(sign.token, token, sizeof token);
    return sign;
}

static bool is_valid(struct rank_sign sign) {
    return rank_watch_sign_valid(&sign, sizeof sign, token, 4);
}

TEST(what_is_no_sign_is_nothing) {
    struct rank_sign good = good_sign(), sign = good;
    assert_true(is_valid(good));
    for (size_t count = 0; count < sizeof good; count++)
        assert_false(rank_watch_sign_valid(&good, count, token, 4));
    assert_false(rank_watch_sign_valid(&good, sizeof good + 1, token, 4));
    for (size_t bit = 0; bit < 8 * sizeof token; bit++) {
        sign = good;
        sign.token[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_false(is_valid(sign));
    }
    const uint32_t ranks[] = {0, 4, UINT32_MAX};
    for (size_t i = 0; i < 3; i++) {
        sign = good;
        sign.rank = ranks[i];
        assert_false(is_valid(sign));
    }
    sign = good;
    sign.number = 0;
    assert_false(is_valid(sign));
    sign = good;
    sign.state = HEARTBEAT_STATE_COUNT;
    assert_false(is_valid(sign));
    sign = good;
    sign.pid = -1;
    assert_false(is_valid(sign));
    sign = good;
    sign.cpu_ns = -1;
    assert_false(is_valid(sign));
    sign = good;
    memset(sign.host, 'x', sizeof sign.host);
    assert_false(is_valid(sign));
    memcpy(sign.host, "\033[2J", 5); /* it stands in the log */
    assert_false(is_valid(sign));
}

/* ---- processes ---- */

struct job {
    pid_t rank_0, rank_1;
    struct rank_watch_place place;
    FILE *said;
};

static void wait_for_ever(void) {
    for (;;)
        pause();
}

/* As MPI would bring the place from one to the other. */
static void be_rank_0(int64_t timeout_ns, bool meets, int places, int places_back) {
    struct rank_watch_place place;
    struct error error;
    setenv("FATHOM_RANKS_HERE", "2", 1);
    check(rank_watch_await(timeout_ns, 3, false, &error) == STATUS_OK);
    if (!meets) wait_for_ever();
    check(rank_watch_begin(2, &place, &error) == STATUS_OK);
    check(write(places, &place, sizeof place) == sizeof place);
    check(write(places_back, &place, sizeof place) == sizeof place);
    wait_for_ever();
}

static void be_rank_1(int places) {
    struct rank_watch_place place;
    struct error error;
    check(read(places, &place, sizeof place) == sizeof place);
    check(rank_watch_follow(&place, 1, &error) == STATUS_OK);
    wait_for_ever();
}

static struct job start(int64_t timeout_ns, bool meets, bool speaks) {
    struct job job = {.said = tmpfile()};
    int places[2], places_back[2];
    assert_true(pipe(places) == 0 && pipe(places_back) == 0);
    job.rank_1 = fork();
    if (job.rank_1 == 0 && speaks) be_rank_1(places[0]);
    if (job.rank_1 == 0) wait_for_ever();
    job.rank_0 = fork();
    if (job.rank_0 == 0) {
        dup2(fileno(job.said), STDERR_FILENO);
        be_rank_0(timeout_ns, meets, places[1], places_back[1]);
    }
    if (meets)
        assert_int_equal(read(places_back[0], &job.place, sizeof job.place), sizeof job.place);
    for (int i = 0; i < 2; i++) {
        close(places[i]);
        close(places_back[i]);
    }
    return job;
}

/* Rank 0's exit code, when it has ended by itself, with one line that says `what`. */
static int end(struct job *job, const char *what) {
    char line[512] = "";
    int status = 0;
    assert_int_equal(waitpid(job->rank_0, &status, 0), job->rank_0);
    kill(job->rank_1, SIGKILL);
    assert_int_equal(waitpid(job->rank_1, NULL, 0), job->rank_1);
    rewind(job->said);
    assert_non_null(fgets(line, sizeof line, job->said));
    assert_non_null(strstr(line, what));
    assert_null(fgets(line, sizeof line, job->said));
    fclose(job->said);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* Datagrams by strangers, as fast as they go. */
static void flood(const struct rank_watch_place *place, int64_t ns) {
    struct rank_sign sign = good_sign();
    int file = socket(AF_INET, SOCK_DGRAM, 0);
    const struct sockaddr *to = (const struct sockaddr *)&place->addresses[0];
    assert_int_equal(place->count, 1); /* all ranks are here: nobody else need reach it */
    assert_int_equal(((const struct sockaddr_in *)to)->sin_addr.s_addr, htonl(INADDR_LOOPBACK));
    for (int64_t end_ns = clock_now_ns() + ns; clock_now_ns() < end_ns; usleep(100))
        for (int i = 0; i < 20; i++)
            sendto(file, &sign, sizeof sign, 0, to, sizeof(struct sockaddr_in));
    close(file);
}

TEST(a_rank_that_stands_still_ends_the_unit) {
    struct job job = start(600000000, true, true);
    flood(&job.place, 4000000000);
    assert_int_equal(waitpid(job.rank_0, NULL, WNOHANG), 0); /* the other has sent all the time */
    kill(job.rank_1, SIGSTOP);
    char text[64];
    snprintf(text, sizeof text, "pid %d, layer 0", (int)job.rank_1);
    assert_int_equal(end(&job, text), 3);
}

TEST(a_rank_that_is_never_received_ends_the_unit) {
    struct job job = start(100000000, true, false);
    assert_int_equal(end(&job, "a rank was never heard, the unit ends"), 3);
}

TEST(ranks_that_do_not_meet_end_the_unit) {
    struct job job = start(10000000, false, false);
    assert_int_equal(end(&job, "have not met"), 3);
}
