/* SPDX-License-Identifier: Apache-2.0
 * Protects KV transfers among processes that die: a receiver or a sender killed in the middle of a
 * transfer costs that transfer and no other; on whatever address the rank comes back, the next
 * transfer works, and nobody keeps a page. The child is this program again.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "transport_ranks.h"

#define SLICES 8
#define PAGES 64
#define WIDTH 576

static const char *program;

/* Slices of an odd sender are fetched, of an even one copied. */
static void prepare(struct rank *rank, uint64_t number) {
    rank_prepare(rank, KV_ELEMENT_BF16, WIDTH, SLICES, PAGES);
    rank->options.fetch_bytes_min = number % 2 ? 1 : UINT64_MAX;
    memset(rank->pages.memory, 0xEE, rank->pages.mapped_bytes);
}

/* ---- the child ---- */

/* Expects ticket `number` on all pages, says its address, and how the ticket ended. */
static int receive_in_child(uint64_t number) {
    struct rank rank;
    struct prompt prompt = {number, 0, PAGES, 40};
    prepare(&rank, number);
    rank_start(&rank);
    check(prompt_expect(&rank, &prompt, PATIENCE) == STATUS_OK);
    printf("%s\n", kv_transport_address(rank.transport));
    fflush(stdout);
    struct transfer_ended ended = rank_wait(&rank);
    bool right = ended.end == TRANSFER_DONE;
    for (uint32_t block = 0; right && block < PAGES; block++)
        for (uint32_t slice = 0; slice < SLICES; slice++)
            right = right &&
                    slice_is(&rank, block, number, block, slice, rows_of(&prompt, block), 0xEE);
    printf("%s\n", right ? "right" : "wrong");
    fflush(stdout);
    check(getchar() == EOF); /* until the parent knows of it */
    rank_end(&rank);
    return 0;
}

/* Sends ticket `number` for ever slower than anyone would wait. */
static int send_in_child(uint64_t number, const char *address) {
    struct rank rank;
    struct prompt prompt = {number, 0, PAGES, 40};
    prepare(&rank, number);
    rank.options.bytes_per_second = 4 << 20;
    rank_start(&rank);
    check(prompt_offer(&rank, &prompt, address, PATIENCE) == STATUS_OK);
    check(prompt_send(&rank, &prompt) == STATUS_OK);
    rank_wait(&rank);
    return 1; /* it was to be killed */
}

/* ---- the parent ---- */

struct child {
    pid_t pid;
    FILE *says;
    int listens;
};

static struct child start(const char *role, uint64_t number, const char *address) {
    int out[2], in[2];
    char text[32];
    struct child child;
    snprintf(text, sizeof text, "%llu", (unsigned long long)number);
    assert_int_equal(pipe(out), 0);
    assert_int_equal(pipe(in), 0);
    child.pid = fork();
    if (child.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[0]);
        close(in[1]);
        close(out[0]);
        close(out[1]);
        execl("/proc/self/exe", program, role, text, address, NULL);
        _exit(127);
    }
    assert_true(child.pid > 0);
    close(out[1]);
    close(in[0]);
    child.says = fdopen(out[0], "r");
    child.listens = in[1];
    return child;
}

static void receive(struct child *child, char *line, int bytes) {
    assert_non_null(fgets(line, bytes, child->says));
    line[strcspn(line, "\n")] = 0;
}

/* Kills it, or lets it end by itself. */
static void bury(struct child *child, bool kill_it) {
    int status;
    if (kill_it) kill(child->pid, SIGKILL);
    close(child->listens);
    assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
    fclose(child->says);
    if (!kill_it) assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void assert_arrives_in_new_child(struct rank *rank, uint64_t number) {
    char line[KV_ADDRESS_BYTES];
    struct child child = start("receive", number, "");
    struct prompt prompt = {number, 0, PAGES, 40};
    receive(&child, line, sizeof line);
    assert_int_equal(prompt_offer(rank, &prompt, line, PATIENCE), STATUS_OK);
    assert_int_equal(prompt_send(rank, &prompt), STATUS_OK);
    struct transfer_ended ended = rank_wait(rank);
    if (ended.end != TRANSFER_DONE) print_message("# %s\n", ended.reason);
    assert_int_equal(ended.end, TRANSFER_DONE);
    receive(&child, line, sizeof line);
    assert_string_equal(line, "right");
    bury(&child, false);
}

static void wait_for_sent_bytes(struct rank *rank, uint64_t bytes) {
    int64_t until_ns = clock_now_ns() + PATIENCE;
    while (rank_state(rank).slice_bytes[TRANSFER_OUT] < bytes && clock_now_ns() < until_ns)
        poll(NULL, 0, 1);
}

static void a_receiver_is_killed_and_comes_back_elsewhere(void **state) {
    struct rank rank;
    char address[KV_ADDRESS_BYTES];
    prepare(&rank, *(const uint64_t *)*state);
    rank.options.bytes_per_second = 64 << 20; /* 37 MB take longer than it lives */
    rank_start(&rank);
    for (uint64_t number = 1; number <= 6; number += 2) {
        struct child child = start("receive", number, "");
        struct prompt prompt = {number, 0, PAGES, 40};
        receive(&child, address, sizeof address);
        assert_int_equal(prompt_offer(&rank, &prompt, address, PATIENCE), STATUS_OK);
        for (uint32_t slice = 0; slice < SLICES; slice++)
            if (prompt_push(&rank, &prompt, slice) != STATUS_OK) break;
        wait_for_sent_bytes(&rank, (number + 1) * (1 << 20));
        bury(&child, true);
        struct transfer_ended ended = rank_wait(&rank);
        assert_int_equal(ended.grant.high, number);
        assert_int_equal(ended.end, TRANSFER_PEER_LOST);
        assert_arrives_in_new_child(&rank, number + 1);
    }
    assert_true(rank_idle(&rank));
    rank_end(&rank);
}

static void a_sender_is_killed_and_its_pages_come_back(void **state) {
    struct rank rank;
    prepare(&rank, 0);
    rank_start(&rank);
    for (uint64_t number = 1; number <= 3; number++) {
        struct prompt prompt = {number, 0, PAGES, 40};
        assert_int_equal(prompt_expect(&rank, &prompt, PATIENCE), STATUS_OK);
        struct child child = start("send", number, kv_transport_address(rank.transport));
        int64_t until_ns = clock_now_ns() + PATIENCE;
        uint64_t before = rank_state(&rank).slice_bytes[TRANSFER_IN];
        while (rank_state(&rank).slice_bytes[TRANSFER_IN] < before + 300000 &&
               clock_now_ns() < until_ns)
            poll(NULL, 0, 1);
        bury(&child, true);
        struct transfer_ended ended = rank_wait(&rank);
        assert_int_equal(ended.grant.high, number);
        assert_int_equal(ended.end, TRANSFER_PEER_LOST);
        assert_true(rank_idle(&rank));
    }
    rank_end(&rank);
}

/* A receiver that stands still (it is stopped, not dead) holds nobody beyond the deadline. */
static void a_receiver_that_stands_still_costs_one_deadline(void **state) {
    struct rank rank;
    char address[KV_ADDRESS_BYTES];
    struct child child = start("receive", 1, "");
    struct prompt prompt = {1, 0, PAGES, 40};
    prepare(&rank, *(const uint64_t *)*state);
    rank.options.drain_ns_max = SECOND / 10;
    rank_start(&rank);
    receive(&child, address, sizeof address);
    kill(child.pid, SIGSTOP);
    assert_int_equal(prompt_offer(&rank, &prompt, address, SECOND / 2), STATUS_OK);
    enum status sent = prompt_send(&rank, &prompt);
    assert_true(sent == STATUS_OK || sent == STATUS_GONE);
    struct transfer_ended ended = rank_wait(&rank);
    assert_true(ended.end == TRANSFER_DEADLINE || ended.end == TRANSFER_PEER_LOST);
    assert_arrives_in_new_child(&rank, 2);
    bury(&child, true);
    assert_true(rank_idle(&rank));
    rank_end(&rank);
}

int main(int argc, char **argv) {
    static uint64_t copied = 2, fetched = 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(a_receiver_is_killed_and_comes_back_elsewhere, &copied),
        cmocka_unit_test_prestate(a_receiver_is_killed_and_comes_back_elsewhere, &fetched),
        cmocka_unit_test(a_sender_is_killed_and_its_pages_come_back),
        cmocka_unit_test_prestate(a_receiver_that_stands_still_costs_one_deadline, &copied),
        cmocka_unit_test_prestate(a_receiver_that_stands_still_costs_one_deadline, &fetched),
    };
    if (argc > 2 && !strcmp(argv[1], "receive"))
        return receive_in_child(strtoull(argv[2], NULL, 10));
    if (argc > 3 && !strcmp(argv[1], "send"))
        return send_in_child(strtoull(argv[2], NULL, 10), argv[3]);
    program = argv[0];
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
