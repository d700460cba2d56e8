/* SPDX-License-Identifier: Apache-2.0
 * Protects the start of a server: a wrong or taken address is told with the options that cure it,
 * and it is known whether other machines can reach the one that was bound.
 */
#include "host/http/listen_socket.h"

#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "test_case.h"

static struct error error;

static enum status open_at(const char *host, uint32_t port, struct listen_socket *bound) {
    return listen_socket_open(host, port, false, "--a-host", "--a-port", bound, &error);
}

TEST(it_knows_who_can_reach_it) {
    static const struct {
        const char *host;
        bool is_local;
    } cases[] = {{"127.0.0.1", true}, {"127.8.9.1", true}, {"localhost", true}, {"0.0.0.0", false}};
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct listen_socket bound;
        assert_int_equal(open_at(cases[i].host, 0, &bound), STATUS_OK);
        assert_int_equal(bound.is_local, cases[i].is_local);
        assert_memory_equal(bound.url, "http://", 7);
        assert_memory_equal(bound.url + 7, cases[i].host, strlen(cases[i].host));
        assert_true(atoi(strrchr(bound.url, ':') + 1) > 0);
        close(bound.file);
    }
    struct listen_socket bound; /* where the machine has IPv6 */
    if (open_at("::1", 0, &bound)) return;
    assert_true(bound.is_local);
    assert_memory_equal(bound.url, "http://[::1]:", 13);
    close(bound.file);
}

TEST(it_says_which_options_cure) {
    struct listen_socket bound, other = {.file = 7};
    assert_int_equal(open_at("192.0.2.1", 9, &other), STATUS_IO); /* never this machine's */
    assert_non_null(strstr(error.text, "192.0.2.1 port 9: "));
    assert_non_null(strstr(error.text, "--a-host and --a-port"));
    assert_int_equal(open_at("no such host", 9, &other), STATUS_INVALID);
    assert_non_null(strstr(error.text, "--a-host no such host is not an address of this machine"));
    assert_int_equal(open_at("127.0.0.1", 0, &bound), STATUS_OK);
    assert_int_equal(listen(bound.file, 1), 0);
    uint32_t taken = (uint32_t)atoi(strrchr(bound.url, ':') + 1);
    assert_int_equal(open_at("127.0.0.1", taken, &other), STATUS_IO);
    assert_int_equal(other.file, 7);
    close(bound.file);
}
