/* SPDX-License-Identifier: Apache-2.0
 * Protects ranks that somebody else starts: which rank a process is, where they meet, and that a
 * rank which joined finds in its environment what a launcher would have put there.
 */
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "compute/exchange/job_rendezvous.h"
#include "host/process/ranks/rank_manual.h"

#include "test_case.h"

#define RANKS 3

static struct error error;

/* 127.0.0.1 and a port of which a socket is left that holds it, if asked for. */
static int find_place(char place[static 32], bool holds) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    int file = socket(AF_INET, SOCK_STREAM, 0);
    check(bind(file, (struct sockaddr *)&address, sizeof address) == 0 && listen(file, 1) == 0);
    check(getsockname(file, (struct sockaddr *)&address, &bytes) == 0);
    snprintf(place, 32, "127.0.0.1:%u", ntohs(address.sin_port));
    if (holds) return file;
    close(file);
    return -1;
}

static void forget_all(void) {
    unsetenv("OMPI_COMM_WORLD_RANK");
    unsetenv("OMPI_COMM_WORLD_SIZE");
    unsetenv("PMIX_RANK");
    unsetenv("PMI_RANK");
    unsetenv("PMI_SIZE");
    unsetenv("SLURM_PROCID");
}

static void assert_refused(const char *place, uint32_t ranks, const char *words) {
    assert_int_not_equal(rank_manual_join(place, ranks, &error), STATUS_OK);
    assert_non_null(strstr(error.text, words));
    assert_null(getenv(JOB_RENDEZVOUS_FILE));
}

TEST(a_rank_that_nobody_numbered_is_refused) {
    forget_all();
    assert_refused("127.0.0.1:1", RANKS, "no environment variable has the rank");
    setenv("SLURM_PROCID", "3", 1);
    assert_refused("127.0.0.1:1", RANKS, "no environment variable has the rank");
}

TEST(an_address_needs_host_and_port) {
    forget_all();
    setenv("PMI_RANK", "0", 1);
    assert_refused("5555", RANKS, "expected HOST:PORT");
    assert_refused(":5555", RANKS, "expected HOST:PORT");
    assert_refused("tcp://:5555", RANKS, "expected HOST:PORT");
    assert_refused("127.0.0.1:port", RANKS, "--rank-meeting 127.0.0.1:port");
}

TEST(a_port_that_is_taken_is_reported) {
    char place[32];
    int file = find_place(place, true);
    forget_all();
    setenv("PMI_RANK", "0", 1);
    assert_refused(place, RANKS, "rank 0 cannot listen at 127.0.0.1:");
    close(file);
}

TEST(an_mpirun_is_seen_by_its_environment) {
    forget_all();
    assert_false(rank_manual_is());
    setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
    assert_false(rank_manual_is());
    setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
    assert_true(rank_manual_is());
}

/* A process of its own: joins, and says and hears what a rank does. */
static int be_rank(const char *place, uint32_t rank) {
    static char frame[JOB_JOIN_BYTES_MAX];
    char number[16];
    struct job_frame head;
    snprintf(number, sizeof number, "%u", rank);
    setenv("PMI_RANK", number, 1);
    setenv("MPI_LOCALNRANKS", "2", 1);
    setenv("MPI_LOCALRANKID", rank == 2 ? "0" : number, 1); /* the third is alone on its host */
    if (rank == 0) usleep(50000);                           /* the others wait for it */
    if (rank_manual_join(place, RANKS, &error)) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    check(strcmp(getenv(JOB_RENDEZVOUS_RANK), number) == 0);
    check(strcmp(getenv(JOB_RENDEZVOUS_RANKS), "3") == 0);
    check(strcmp(getenv(JOB_RENDEZVOUS_RANKS_HERE), "2") == 0);
    check(strcmp(getenv(JOB_RENDEZVOUS_PLACE), rank == 2 ? "0" : number) == 0);
    int file = (int)strtol(getenv(JOB_RENDEZVOUS_FILE), NULL, 10);
    size_t bytes = job_rendezvous_frame_join(frame, rank, 0, getenv(JOB_RENDEZVOUS_HOST),
                                             BYTES_LITERAL("address"));
    check(write(file, frame, bytes) == (ssize_t)bytes);
    check(recv(file, &head, sizeof head, MSG_WAITALL) == sizeof head);
    check(head.kind == JOB_FRAME_MEMBERS && head.rank == RANKS);
    check(recv(file, frame, head.bytes, MSG_WAITALL) == (ssize_t)head.bytes);
    if (rank == 0) /* it keeps the meeting until the others have gone */
        for (uint32_t gone = 1; gone < RANKS; gone++)
            check(recv(file, &head, sizeof head, MSG_WAITALL) == sizeof head &&
                  head.kind == JOB_FRAME_GONE);
    return 0;
}

TEST(ranks_meet_at_an_address) {
    char place[40] = "tcp://";
    pid_t ranks[RANKS];
    int status;
    find_place(place + strlen("tcp://"), false);
    forget_all();
    fflush(NULL);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        ranks[rank] = fork();
        if (ranks[rank] == 0) _exit(be_rank(place, rank));
    }
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        assert_int_equal(waitpid(ranks[rank], &status, 0), ranks[rank]);
        assert_int_equal(status, 0);
    }
}
