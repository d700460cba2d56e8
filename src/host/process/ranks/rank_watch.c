/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/ranks/rank_watch.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/limits.h"
#include "compute/exchange/job_rendezvous.h"
#include "host/process/log/log.h"
#include "host/process/ranks/rank_health.h"
#include "serving/supervision/supervise.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <linux/filter.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define SUBJECT "rank"
#define PATIENCE 5             /* times the timeout of a supervisor */
#define RENDEZVOUS_PATIENCE 12 /* times that, until all ranks have joined */
#define SIGNS_A_TIMEOUT 20
#define INTERVAL_NS_MAX ((int64_t)250000000)

enum watch_family { FAMILY_4, FAMILY_6, FAMILY_COUNT };

/* The watch of this process, rank 0's or another rank's, for its whole life. */
static struct {
    struct supervise_timeout timeout;
    int64_t interval_ns;
    int exit_code;
    int sockets[FAMILY_COUNT]; /* -1: the machine lacks that address family */
    uint32_t rank_count;
    atomic_bool met; /* set last, after all fields below */
    struct rank_watch_place place;
    struct rank_line *lines;       /* [rank_count] */
    struct supervise_signs *signs; /* [rank_count] */
    atomic_bool *lost;             /* [rank_count] */
    struct supervise_watch watch;
    uint32_t rank; /* of a rank that sends heartbeats */
} own = {.sockets = {-1, -1}};

bool rank_watch_sign_valid(const void *bytes, size_t count,
                           const uint8_t token[RANK_WATCH_TOKEN_BYTES], uint32_t rank_count) {
    struct rank_sign sign;
    if (count != sizeof sign) return false;
    memcpy(&sign, bytes, sizeof sign);
    if (memcmp(sign.token, token, sizeof sign.token) != 0 || sign.number == 0) return false;
    if (sign.rank == 0 || sign.rank >= rank_count || sign.state >= HEARTBEAT_STATE_COUNT)
        return false;
    for (size_t i = 0; i < sizeof sign.host; i++) {
        if (sign.host[i] == 0) return sign.pid > 0 && sign.cpu_ns >= 0;
        if (sign.host[i] < ' ' || sign.host[i] > '~') return false;
    }
    return false; /* the name is not terminated */
}

static void sleep_ns(int64_t ns) {
    nanosleep(&(struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000}, NULL);
}

static enum status start(void *(*run)(void *), struct error *error) {
    pthread_t thread;
    int failure = pthread_create(&thread, NULL, run, NULL);
    if (failure)
        return error_set(error, STATUS_NO_MEMORY, "cannot start the heartbeat thread: %s",
                         strerror(failure));
    pthread_detach(thread);
    return STATUS_OK;
}

static void rank_watch_read_boot(char boot[static 40]) {
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    memset(boot, 0, 40);
    if (!file) return;
    if (!fgets(boot, 40, file)) boot[0] = 0;
    fclose(file);
}

static void read_host(char host[static 64]) {
    memset(host, 0, 64);
    if (gethostname(host, 63)) memcpy(host, "?", 2);
    for (char *c = host; *c; c++)
        if (*c < ' ' || *c > '~') *c = '?';
}

/* ---- rank 0 ---- */

/* The number of the job's ranks on this machine. */
static uint32_t ranks_here(uint32_t rank_count) {
    const char *text = getenv(JOB_RENDEZVOUS_RANKS_HERE);
    uint64_t here = text ? strtoul(text, NULL, 10) : 0;
    return here && here < rank_count ? (uint32_t)here : rank_count;
}

/* The timeout, by all CPUs of the machine: other ranks may be bound to other CPUs than rank 0. */
static struct supervise_timeout patience(int64_t timeout_ns) {
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    return supervise_timeout(PATIENCE * timeout_ns, ranks_here(LIMIT_RANKS),
                             cpus > 0 ? (uint32_t)cpus : 1);
}

/* Exits. The rest of the job ends with this process. */
static void end(void) {
    fflush(NULL);
    log_finish();
    _exit(own.exit_code);
}

static void take_sign(const struct rank_sign *sign) {
    struct rank_line *line = &own.lines[sign->rank];
    struct supervise_signs *signs = &own.signs[sign->rank];
    if (sign->number < signs->ran) return; /* out of order, or a duplicate */
    signs->ran = sign->number + 1;
    signs->state = (enum heartbeat_state)sign->state;
    signs->tiles = sign->tiles;
    signs->moved = sign->moved;
    signs->peer = sign->peer;
    signs->cpu_ns = sign->cpu_ns;
    atomic_store(&line->pid, sign->pid);
    atomic_store(&line->heartbeat.place, sign->place);
    memcpy(line->host, sign->host, sizeof line->host);
}

/* Processes all heartbeats that arrive in one interval. */
static void rank_watch_take_signs(void) {
    struct pollfd files[FAMILY_COUNT];
    for (int i = 0; i < FAMILY_COUNT; i++)
        files[i] = (struct pollfd){.fd = own.sockets[i], .events = POLLIN};
    sleep_ns(own.interval_ns / 2);
    if (poll(files, FAMILY_COUNT, (int)(own.interval_ns / 2000000)) <= 0) return;
    for (int i = 0; i < FAMILY_COUNT; i++) {
        struct rank_sign sign;
        ssize_t count;
        for (uint32_t taken = 0; own.sockets[i] >= 0 && taken < 4 * own.rank_count; taken++) {
            count = recv(own.sockets[i], &sign, sizeof sign, MSG_DONTWAIT | MSG_TRUNC);
            if (count < 0) break;
            if (rank_watch_sign_valid(&sign, (size_t)count, own.place.token, own.rank_count))
                take_sign(&sign);
        }
    }
}

/* Rank 0 sends itself no datagrams, but reads its own state. */
static void sign_own(void) {
    struct supervise_signs *signs = &own.signs[0];
    signs->ran++;
    signs->state = (enum heartbeat_state)atomic_load(&heartbeat_memory->state);
    signs->tiles = atomic_load(&heartbeat_memory->tiles);
    signs->moved = atomic_load(&heartbeat_memory->moved);
    signs->peer = atomic_load(&heartbeat_memory->peer);
    signs->cpu_ns = rank_health_cpu_ns(getpid());
    atomic_store(&own.lines[0].heartbeat.place, atomic_load(&heartbeat_memory->place));
}

static void rank_watch_log(const struct supervise_finding *finding) {
    double silent = (double)finding->silent_ns * 1e-9;
    char text[RANK_HEALTH_TEXT];
    if (finding->verdict == SUPERVISE_DEADLOCK) {
        log_say(LOG_ERROR, SUBJECT, "all ranks wait for one another, the unit ends silent_s=%.1f",
                silent);
        return;
    }
    rank_health_describe(&own.lines[finding->rank], text);
    if (own.signs[finding->rank].ran == 1)
        log_say(LOG_ERROR, SUBJECT,
                "a rank was never heard, the unit ends: it stands still, or its datagrams do not "
                "come through (--rank-timeout 0 does without) rank=%u silent_s=%.1f",
                finding->rank, silent);
    else if (finding->verdict == SUPERVISE_FROZEN)
        log_say(LOG_ERROR, SUBJECT,
                "a rank was not heard, the unit ends rank=%u silent_s=%.1f where=%s", finding->rank,
                silent, text);
    else
        log_say(LOG_ERROR, SUBJECT,
                "a rank computed nothing, the unit ends rank=%u silent_s=%.1f where=%s",
                finding->rank, silent, text);
}

static bool rank_watch_is_over(void) {
    return own.place.only_start && atomic_load(&heartbeat_memory->state) != HEARTBEAT_STARTS;
}

static void rank_watch_close_sockets(void) {
    for (int i = 0; i < FAMILY_COUNT; i++)
        if (own.sockets[i] >= 0) close(own.sockets[i]);
}

static void *rank_watch_watch(void *unused) {
    const int64_t began_ns = clock_now_ns();
    const int64_t rendezvous_ns = RENDEZVOUS_PATIENCE * own.timeout.wall_ns;
    while (!atomic_load(&own.met)) {
        sleep_ns(own.interval_ns);
        if (atomic_load(&own.met) || clock_now_ns() - began_ns < rendezvous_ns) continue;
        log_say(LOG_ERROR, SUBJECT, "the ranks have not met, the unit ends silent_s=%.0f",
                (double)rendezvous_ns * 1e-9);
        end();
    }
    while (!rank_watch_is_over()) {
        rank_watch_take_signs();
        sign_own();
        for (uint32_t i = 0; i < own.rank_count; i++)
            own.signs[i].gone = atomic_load(&own.lost[i]);
        struct supervise_finding finding =
            supervise_look(&own.watch, own.signs, own.timeout, clock_now_ns());
        if (finding.verdict == SUPERVISE_FINE) continue;
        rank_watch_log(&finding);
        end();
    }
    rank_watch_close_sockets();
    return unused;
}

void rank_watch_remove(uint32_t rank) {
    if (own.lost) atomic_store(&own.lost[rank], true);
}

enum status rank_watch_await(int64_t timeout_ns, int exit_code, bool only_start,
                             struct error *error) {
    own.exit_code = exit_code;
    own.place.only_start = only_start;
    own.timeout = patience(timeout_ns);
    own.interval_ns = own.timeout.wall_ns / SIGNS_A_TIMEOUT;
    if (own.interval_ns > INTERVAL_NS_MAX) own.interval_ns = INTERVAL_NS_MAX;
    return start(rank_watch_watch, error);
}

/* The kernel drops datagrams without the token, so a flood of them cannot fill a queue. */
static void filter(int file, const uint8_t token[RANK_WATCH_TOKEN_BYTES]) {
    enum { WORDS = RANK_WATCH_TOKEN_BYTES / 4, TOKEN_AT = 8 /* after the UDP header */ };
    struct sock_filter code[2 * WORDS + 2];
    for (uint32_t i = 0; i < WORDS; i++) {
        uint32_t word;
        memcpy(&word, token + 4 * i, sizeof word);
        code[2 * i] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, TOKEN_AT + 4 * i);
        code[2 * i + 1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ntohl(word), 0,
                                                       2 * (WORDS - 1 - i) + 1);
    }
    code[2 * WORDS] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, UINT32_MAX);
    code[2 * WORDS + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0);
    const struct sock_fprog program = {2 * WORDS + 2, code};
    setsockopt(file, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}

/* Opens a socket and returns its port; 0: the machine lacks that address family. */
static in_port_t rank_watch_listen_at(enum watch_family family, bool here_alone) {
    struct sockaddr_in any_4 = {.sin_family = AF_INET};
    struct sockaddr_in6 any_6 = {.sin6_family = AF_INET6};
    socklen_t bytes = family == FAMILY_4 ? sizeof any_4 : sizeof any_6;
    struct sockaddr *any =
        family == FAMILY_4 ? (struct sockaddr *)&any_4 : (struct sockaddr *)&any_6;
    if (here_alone) any_4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (here_alone) any_6.sin6_addr = in6addr_loopback;
    int yes = 1, file = socket(any->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (file < 0) return 0;
    if (family == FAMILY_6) setsockopt(file, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
    filter(file, own.place.token);
    if (bind(file, any, bytes) || getsockname(file, any, &bytes)) {
        close(file);
        return 0;
    }
    own.sockets[family] = file;
    return family == FAMILY_4 ? any_4.sin_port : any_6.sin6_port;
}

static void add_address(struct rank_watch_place *place, const struct sockaddr *address,
                        const in_port_t *ports) {
    struct sockaddr_storage *at = &place->addresses[place->count];
    struct sockaddr_in *v4 = (struct sockaddr_in *)at;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)at;
    if (place->count == RANK_WATCH_ADDRESSES) return;
    if (address->sa_family == AF_INET && ports[FAMILY_4]) {
        memcpy(v4, address, sizeof *v4);
        v4->sin_port = ports[FAMILY_4];
    } else if (address->sa_family == AF_INET6 && ports[FAMILY_6]) {
        memcpy(v6, address, sizeof *v6);
        if (IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)) return;
        v6->sin6_port = ports[FAMILY_6];
    } else {
        return;
    }
    place->count++;
}

/* Lists all addresses; another host tries all of them, because some may not be reachable. */
static void list_addresses(struct rank_watch_place *place, const in_port_t *ports,
                           bool here_alone) {
    const struct sockaddr_in here_4 = {.sin_family = AF_INET,
                                       .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct sockaddr_in6 here_6 = {.sin6_family = AF_INET6,
                                        .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct ifaddrs *all = NULL;
    const void *here = ports[FAMILY_4] ? (const void *)&here_4 : &here_6;
    add_address(place, here, ports);
    if (here_alone || getifaddrs(&all)) return;
    for (const struct ifaddrs *at = all; at; at = at->ifa_next)
        if (at->ifa_addr && (at->ifa_flags & IFF_UP) && !(at->ifa_flags & IFF_LOOPBACK))
            add_address(place, at->ifa_addr, ports);
    freeifaddrs(all);
}

enum status rank_watch_begin(uint32_t rank_count, struct rank_watch_place *place_out,
                             struct error *error) {
    bool here_alone = ranks_here(rank_count) == rank_count;
    check(getrandom(own.place.token, sizeof own.place.token, 0) == sizeof own.place.token);
    in_port_t ports[FAMILY_COUNT] = {rank_watch_listen_at(FAMILY_4, here_alone),
                                     rank_watch_listen_at(FAMILY_6, here_alone)};
    if (!ports[FAMILY_4] && !ports[FAMILY_6])
        return error_set(error, STATUS_IO,
                         "cannot listen for the ranks' heartbeats: %s; --rank-timeout 0 needs none",
                         strerror(errno));
    rank_watch_read_boot(own.place.boot);
    own.place.interval_ns = own.interval_ns;
    list_addresses(&own.place, ports, here_alone);
    own.rank_count = own.watch.rank_count = rank_count;
    own.lines = aligned_alloc(_Alignof(struct rank_line), rank_count * sizeof *own.lines);
    own.signs = calloc(rank_count, sizeof *own.signs);
    own.lost = calloc(rank_count, sizeof *own.lost);
    own.watch.ranks = calloc(rank_count, sizeof *own.watch.ranks);
    if (!own.lines || !own.signs || !own.lost || !own.watch.ranks)
        return error_set(error, STATUS_NO_MEMORY, "no memory for the ranks' signs of life");
    memset(own.lines, 0, rank_count * sizeof *own.lines);
    own.watch.from_start = true;
    for (uint32_t i = 0; i < rank_count; i++)
        own.signs[i].ran = 1; /* it has joined the rendezvous */
    read_host(own.lines[0].host);
    atomic_store(&own.lines[0].pid, getpid());
    *place_out = own.place;
    atomic_store(&own.met, true);
    return STATUS_OK;
}

/* ---- another rank ---- */

static void send_sign(const struct rank_sign *sign, bool same_machine) {
    for (uint32_t i = same_machine ? 0 : 1; i < own.place.count; i++) {
        const struct sockaddr *to = (const struct sockaddr *)&own.place.addresses[i];
        bool is_4 = to->sa_family == AF_INET;
        (void)sendto(own.sockets[is_4 ? FAMILY_4 : FAMILY_6], sign, sizeof *sign, MSG_DONTWAIT, to,
                     is_4 ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
    }
}

static void *rank_watch_follow_each(void *unused) {
    struct rank_sign sign = {.pid = getpid(), .rank = own.rank};
    char boot[40];
    rank_watch_read_boot(boot);
    bool same_machine = memcmp(boot, own.place.boot, sizeof boot) == 0;
    memcpy(sign.token, own.place.token, sizeof sign.token);
    read_host(sign.host);
    do { /* the unit is ready at its first step */
        sign.number++;
        sign.tiles = atomic_load(&heartbeat_memory->tiles);
        sign.moved = atomic_load(&heartbeat_memory->moved);
        sign.peer = atomic_load(&heartbeat_memory->peer);
        sign.state = atomic_load(&heartbeat_memory->state);
        sign.place = atomic_load(&heartbeat_memory->place);
        sign.cpu_ns = rank_health_cpu_ns(sign.pid);
        send_sign(&sign, same_machine);
        sleep_ns(own.place.interval_ns);
    } while (!own.place.only_start || !sign.tiles);
    rank_watch_close_sockets();
    return unused;
}

enum status rank_watch_follow(const struct rank_watch_place *place, uint32_t rank,
                              struct error *error) {
    own.place = *place;
    own.rank = rank;
    own.sockets[FAMILY_4] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    own.sockets[FAMILY_6] = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (own.sockets[FAMILY_4] < 0 && own.sockets[FAMILY_6] < 0)
        return error_set(error, STATUS_IO, "rank %u cannot send heartbeats: %s", rank,
                         strerror(errno));
    return start(rank_watch_follow_each, error);
}
