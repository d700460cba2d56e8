/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/ranks/rank_manual.h"

#include "base/bytes.h"
#include "base/check.h"
#include "base/clock.h"
#include "compute/exchange/job_rendezvous.h"
#include "host/process/ranks/rank_rendezvous.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define STRANGERS 16 /* connections without a JOIN frame, in addition to all ranks */
#define CONNECT_NS_MAX ((int64_t)60000000000) /* until rank 0 listens */
#define RETRY_NS 20000000

/* The value of the first of these variables that has a number, or `missing`. */
static uint32_t rank_manual_reported(const char *const *names, uint32_t missing) {
    for (; *names; names++) {
        const char *text = getenv(*names);
        if (text && *text >= '0' && *text <= '9') return (uint32_t)strtoul(text, NULL, 10);
    }
    return missing;
}

bool rank_manual_is(void) {
    static const char *const counts[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", NULL};
    return rank_manual_reported(counts, 1) > 1;
}

static void rank_manual_set(const char *name, uint64_t value) {
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    setenv(name, text, 1);
}

static void set_environment(uint32_t rank, uint32_t ranks, int rendezvous) {
    static const char *const here[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS",
                                       "SLURM_TASKS_PER_NODE", NULL};
    static const char *const places[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                                         "SLURM_LOCALID", NULL};
    char host[JOB_HOST_BYTES] = ""; /* all ranks are on one host: none opens a port */
    bool is_spread = rank_manual_reported(here, 0) != ranks;
    if (is_spread && gethostname(host, sizeof host - 1))
        snprintf(host, sizeof host, "rank%u", rank);
    rank_manual_set(JOB_RENDEZVOUS_RANK, rank);
    rank_manual_set(JOB_RENDEZVOUS_RANKS, ranks);
    rank_manual_set(JOB_RENDEZVOUS_RANKS_HERE, rank_manual_reported(here, ranks));
    rank_manual_set(JOB_RENDEZVOUS_PLACE, rank_manual_reported(places, rank));
    setenv(JOB_RENDEZVOUS_HOST, host, 1);
    rank_manual_set(JOB_RENDEZVOUS_FILE, (uint64_t)rendezvous);
}

static enum status rank_manual_find_place(const char *place, struct addrinfo **found_out,
                                          struct error *error) {
    struct bytes text = bytes_of(place), scheme = BYTES_LITERAL("tcp://");
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    char host[NI_MAXHOST];
    if (bytes_start_with(text, scheme)) place += scheme.count;
    const char *port = strrchr(place, ':');
    size_t length = port ? (size_t)(port - place) : 0;
    if (length == 0 || length >= sizeof host)
        return error_set(error, STATUS_INVALID,
                         "--rank-meeting: expected HOST:PORT of rank 0's machine, found '%.100s'",
                         place);
    bool bracketed = place[0] == '[' && place[length - 1] == ']' && length > 2;
    memcpy(host, place + bracketed, length - 2 * bracketed);
    host[length - 2 * bracketed] = 0;
    int failure = getaddrinfo(host, port + 1, &hints, found_out);
    if (failure == 0) return STATUS_OK;
    return error_set(error, STATUS_INVALID, "--rank-meeting %.100s: %s", place,
                     gai_strerror(failure));
}

/* ---- rank 0 ---- */

struct manual_rendezvous {
    struct rank_rendezvous *rendezvous;
    int listener;
};

static void *rank_manual_keep(void *argument) {
    const struct manual_rendezvous *hand = argument;
    struct pollfd files[2] = {{rank_rendezvous_file(hand->rendezvous), POLLIN, 0},
                              {hand->listener, POLLIN, 0}};
    for (;;) {
        if (poll(files, 2, -1) < 0) continue;
        if (files[0].revents) rank_rendezvous_tend(hand->rendezvous);
        int socket = files[1].revents ? accept4(hand->listener, NULL, NULL, SOCK_CLOEXEC) : -1;
        if (socket >= 0) rank_rendezvous_add(hand->rendezvous, socket, RANK_RENDEZVOUS_ANYONE);
    }
    return NULL;
}

static enum status rank_manual_listen_at(const struct addrinfo *place, const char *name,
                                         int *listener_out, struct error *error) {
    int on = 1, file = socket(place->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (file >= 0 && setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        bind(file, place->ai_addr, place->ai_addrlen) == 0 && listen(file, SOMAXCONN) == 0) {
        *listener_out = file;
        return STATUS_OK;
    }
    if (file >= 0) close(file);
    return error_set(error, STATUS_IO, "--rank-meeting: rank 0 cannot listen at %.100s: %s", name,
                     strerror(errno));
}

static enum status keep_rendezvous(const struct addrinfo *place, const char *name, uint32_t ranks,
                                   int *own_out, struct error *error) {
    static struct manual_rendezvous hand; /* for the life of the process */
    const struct rank_rendezvous_options options = {.ranks = ranks, .places = ranks + STRANGERS};
    pthread_t thread;
    int own[2];
    enum status status = rank_rendezvous_open(&options, &hand.rendezvous, error);
    if (!status) status = rank_manual_listen_at(place, name, &hand.listener, error);
    if (status) return status;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, own) ||
        !rank_rendezvous_add(hand.rendezvous, own[0], 0) ||
        pthread_create(&thread, NULL, rank_manual_keep, &hand))
        return error_set(error, STATUS_IO, "rank 0 cannot open the ranks' meeting: %s",
                         strerror(errno));
    pthread_detach(thread);
    *own_out = own[1];
    return STATUS_OK;
}

/* ---- the others ---- */

static enum status rank_manual_connect_to(const struct addrinfo *place, const char *name,
                                          int *file_out, struct error *error) {
    int64_t until_ns = clock_now_ns() + CONNECT_NS_MAX;
    do {
        int file = socket(place->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (file >= 0 && connect(file, place->ai_addr, place->ai_addrlen) == 0) {
            *file_out = file;
            return STATUS_OK;
        }
        int failure = errno;
        if (file >= 0) close(file);
        nanosleep(&(struct timespec){.tv_nsec = RETRY_NS}, NULL); /* it may not listen yet */
        errno = failure;
    } while (clock_now_ns() < until_ns);
    return error_set(error, STATUS_IO, "--rank-meeting: rank 0 cannot be reached at %.100s: %s",
                     name, strerror(errno));
}

enum status rank_manual_join(const char *place, uint32_t ranks, struct error *error) {
    static const char *const numbers[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                          "SLURM_PROCID", NULL};
    uint32_t rank = rank_manual_reported(numbers, UINT32_MAX);
    struct addrinfo *found;
    int rendezvous;
    if (rank >= ranks)
        return error_set(error, STATUS_INVALID,
                         "--rank-meeting is for ranks that mpirun or srun starts, as many as "
                         "--ranks (%u): no environment variable has the rank of this process",
                         ranks);
    enum status status = rank_manual_find_place(place, &found, error);
    if (status) return status;
    status = rank == 0 ? keep_rendezvous(found, place, ranks, &rendezvous, error)
                       : rank_manual_connect_to(found, place, &rendezvous, error);
    freeaddrinfo(found);
    if (!status) set_environment(rank, ranks, rendezvous);
    return status;
}
