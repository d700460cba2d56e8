/* SPDX-License-Identifier: Apache-2.0
 * Protects an agent: it looks at its host, launches ranks with what they were given, tells how they
 * ended, and ends with them when its supervisor is gone or silent. The ranks are this program.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "host/process/agent/agent.h"
#include "host/process/agent/agent_frame.h"

#define TEST_OWN_MAIN
#include "test_case.h"

#define TIMEOUT_NS 500000000
#define PATIENT_NS 60000000000 /* for what has nothing to do with silence */

static int supervisor; /* the file that an agent hears */
static pid_t agent;
static char room[256];

static void say(enum agent_kind kind, const void *body, const void *tail, size_t tail_bytes) {
    size_t body_bytes = agent_frame_body_bytes(kind);
    struct agent_head head = agent_frame_head(kind, body_bytes + tail_bytes);
    assert_int_equal(write(supervisor, &head, sizeof head), sizeof head);
    if (body) assert_int_equal(write(supervisor, body, body_bytes), body_bytes);
    if (tail) assert_int_equal(write(supervisor, tail, tail_bytes), tail_bytes);
}

/* Waits for a frame of the kind, whose body is kept; signs of life come in between. */
static void receive(enum agent_kind kind, void *body) {
    static char memory[1 << 16];
    struct agent_frame frame;
    for (;;) {
        size_t count = 0;
        while (agent_frame_read((struct bytes){memory, count}, true, &frame) != AGENT_GOT_FRAME) {
            assert_int_equal(read(supervisor, memory + count, 1), 1);
            assert_true(++count < sizeof memory);
        }
        if (frame.kind == kind) break;
    }
    if (body) memcpy(body, frame.body, agent_frame_body_bytes(kind));
}

static int start_with(int64_t timeout_ns) {
    int files[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, files), 0);
    agent = fork();
    if (agent == 0) {
        struct error error;
        close(files[0]);
        _exit(agent_run(files[1], dup(files[1]), &error) != STATUS_OK);
    }
    close(files[1]);
    supervisor = files[0];
    struct agent_check check = {
        .timeout_ns = timeout_ns, .count = 2, .total = 4, .interface = "lo"};
    struct agent_facts facts;
    snprintf(check.unit, sizeof check.unit, "test-%d", (int)getpid()); /* no other's */
    snprintf(check.model, sizeof check.model, "%s/models/tiny-r1", getenv("FATHOM_SOURCE"));
    say(AGENT_CHECK, &check, NULL, 0);
    receive(AGENT_FACTS, &facts);
    assert_string_equal(facts.lacks, "");
    assert_string_equal(facts.address, "127.0.0.1");
    snprintf(room, sizeof room, "%s", facts.room);
    return 0;
}

static int start_agent(void **state) {
    return start_with(PATIENT_NS);
}

/* It ends by itself, and nothing is left. */
static void agent_ends(void) {
    int status;
    assert_int_equal(waitpid(agent, &status, 0), agent);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_not_equal(access(room, F_OK), 0);
}

static void launch(const char *what) {
    char words[512];
    size_t count = 0;
    const char *const list[] = {"rank", what, room, "UCX_TEST=given"};
    for (size_t i = 0; i < 4; i++)
        count += (size_t)sprintf(words + count, "%s", list[i]) + 1;
    struct agent_launch it = {.first = 1,
                              .count = 2,
                              .total = 4,
                              .arguments = 3,
                              .settings = 1,
                              .sharing = 4,
                              .before = 2,
                              .number = 1,
                              .host = "b"};
    say(AGENT_LAUNCH, &it, words, count);
}

/* ---- ranks ---- */

static int be_rank(const char *what, const char *folder) {
    char path[512];
    struct stat info;
    const char *given = getenv("UCX_TEST"), *rank = getenv("FATHOM_RANK");
    if (strcmp(what, "waits") == 0)
        for (;;)
            pause();
    snprintf(path, sizeof path, "%s/key", folder);
    if (stat(path, &info) || (info.st_mode & 0777) != 0600 || info.st_size != 6) return 90;
    snprintf(path, sizeof path, "%s/1/board", folder);
    if (access(path, R_OK | W_OK) || !given || strcmp(given, "given") != 0 || !rank) return 91;
    const char *place = getenv("FATHOM_PLACE"); /* two of another unit stand before rank 1 */
    if (!place || atoi(place) != 2 + atoi(rank) - 1) return 92;
    return 40 + atoi(rank);
}

TEST_AROUND(ranks_have_what_they_were_given, start_agent, NULL) {
    const struct agent_file key = {"key"};
    struct agent_ended first, second;
    say(AGENT_FILE, &key, "secret", 6);
    launch("looks");
    receive(AGENT_ENDED, &first);
    receive(AGENT_ENDED, &second);
    assert_int_equal(first.rank + second.rank, 1 + 2);
    assert_true(WIFEXITED(first.status) && WIFEXITED(second.status));
    assert_int_equal(WEXITSTATUS(first.status), 40 + first.rank);
    assert_int_equal(WEXITSTATUS(second.status), 40 + second.rank);
    close(supervisor);
    agent_ends();
}

TEST_AROUND(a_signal_goes_to_the_rank_that_it_names, start_agent, NULL) {
    const struct agent_signal signal = {2, SIGKILL}, stranger = {0, SIGKILL};
    struct agent_ended ended;
    launch("waits");
    say(AGENT_SIGNAL, &stranger, NULL, 0);
    say(AGENT_SIGNAL, &signal, NULL, 0);
    receive(AGENT_ENDED, &ended);
    assert_int_equal(ended.rank, 2);
    assert_true(WIFSIGNALED(ended.status) && WTERMSIG(ended.status) == SIGKILL);
    say(AGENT_PING, NULL, NULL, 0);
    receive(AGENT_PONG, NULL);
    close(supervisor);
    agent_ends();
}

/* Signs of life for longer than the agent's patience; false: a pause of this machine was in
 * them. */
static bool speak(void) {
    const int64_t began_ns = clock_now_ns();
    int64_t now_ns = began_ns, longest_ns = 0;
    while (now_ns - began_ns < 3 * (int64_t)TIMEOUT_NS && longest_ns < TIMEOUT_NS) {
        const struct agent_head ping = agent_frame_head(AGENT_PING, 0);
        if (send(supervisor, &ping, sizeof ping, MSG_NOSIGNAL) != sizeof ping) break;
        usleep(TIMEOUT_NS / 4000);
        int64_t next_ns = clock_now_ns();
        if (next_ns - now_ns > longest_ns) longest_ns = next_ns - now_ns;
        now_ns = next_ns;
    }
    return longest_ns < TIMEOUT_NS;
}

TEST(a_silent_supervisor_is_gone) {
    char byte;
    start_with(TIMEOUT_NS);
    while (launch("waits"), !speak()) {
        close(supervisor);
        agent_ends();
        start_with(TIMEOUT_NS);
    }
    assert_int_equal(waitpid(agent, NULL, WNOHANG), 0);
    agent_ends();
    while (read(supervisor, &byte, 1) == 1) /* signs of life */
        ;
    close(supervisor);
}

TEST_AROUND(nonsense_ends_it, start_agent, NULL) {
    launch("waits");
    assert_int_equal(write(supervisor, "GET / HTTP/1.1", 14), 14);
    agent_ends();
    close(supervisor);
}

int main(int argc, char **argv) {
    if (argc == 4) return be_rank(argv[2], argv[3]);
    return test_cases_run();
}
