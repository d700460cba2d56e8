/* SPDX-License-Identifier: Apache-2.0
 * Protects what a service manager is told: the state arrives at the socket that the environment
 * names, a file's or an abstract one, and nothing happens where there is none.
 */
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "host/process/service_notify.h"

#include "test_case.h"

static char received[64];

/* What a manager that listens at `path` hears of the state. */
static const char *receive(const char *path, const char *state) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t bytes = strlen(path);
    memcpy(address.sun_path, path, bytes);
    if (*path == '@') address.sun_path[0] = 0;
    int manager = socket(AF_UNIX, SOCK_DGRAM, 0);
    socklen_t address_bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + bytes);
    assert_int_equal(bind(manager, (const struct sockaddr *)&address, address_bytes), 0);
    assert_int_equal(setenv("NOTIFY_SOCKET", path, 1), 0);
    service_notify(state);
    memset(received, 0, sizeof received);
    assert_true(recv(manager, received, sizeof received - 1, MSG_DONTWAIT) >= 0);
    close(manager);
    return received;
}

TEST(the_manager_hears_of_the_state) {
    char folder[] = "/tmp/service.XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/socket", folder);
    assert_string_equal(receive(path, "READY=1"), "READY=1");
    unlink(path);
    rmdir(folder);
    snprintf(path, sizeof path, "@fathom-test-%d", (int)getpid());
    assert_string_equal(receive(path, "STOPPING=1"), "STOPPING=1");
}

TEST(without_a_manager_nothing_happens) {
    static const char *const paths[] = {"", "@", "relative", "/nonexistent/socket"};
    char longest[200];
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        assert_int_equal(setenv("NOTIFY_SOCKET", paths[i], 1), 0);
        service_notify("READY=1");
    }
    memset(longest, 'a', sizeof longest);
    longest[0] = '/';
    longest[sizeof longest - 1] = 0;
    assert_int_equal(setenv("NOTIFY_SOCKET", longest, 1), 0);
    service_notify("READY=1");
    assert_int_equal(unsetenv("NOTIFY_SOCKET"), 0);
    service_notify("READY=1");
}
