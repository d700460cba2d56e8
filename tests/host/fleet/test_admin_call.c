/* SPDX-License-Identifier: Apache-2.0
 * Protects questions to a gateway's operator's side: nobody who listens, a status that is no
 * success and a connection that breaks are errors with the gateway's name; a whole answer is one.
 */
#include <unistd.h>

#include <arpa/inet.h>
#include <signal.h>
#include <sys/wait.h>

#include "host/fleet/admin_call.h"

#define TEST_OWN_MAIN
#include "test_case.h"

static char url[64];

/* A process that gives these answers, one a connection. */
static pid_t listen_with(const char *const *answers, int count) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, bytes), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &bytes), 0);
    snprintf(url, sizeof url, "http://127.0.0.1:%u", ntohs(address.sin_port));
    if (answers) assert_int_equal(listen(listener, 8), 0);
    pid_t pid = answers ? fork() : 0;
    if (pid == 0 && answers) {
        for (int i = 0; i < count; i++) {
            char request[4096];
            int peer = accept(listener, NULL, NULL);
            if (read(peer, request, sizeof request) < 0) _exit(1);
            if (write(peer, answers[i], strlen(answers[i])) < 0) _exit(1);
            close(peer);
        }
        _exit(0);
    }
    close(listener);
    return pid;
}

TEST(answers_and_errors_are_reported_apart) {
    static const char *const answers[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
        "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno",
        "HTTP/1.1 200 OK\r\nContent-Length: 500\r\nConnection: close\r\n\r\nhalf"};
    struct admin_call *call;
    struct bytes answer;
    struct error error;
    pid_t pid = listen_with(answers, 3);
    assert_int_equal(admin_call_open(url, &call, &error), STATUS_OK);
    assert_int_equal(admin_call_ask(call, "/metrics", NULL, &answer, &error), STATUS_OK);
    assert_true(bytes_equal(answer, bytes_of("hello")));
    assert_int_equal(admin_call_ask(call, "/drain", "{}", &answer, &error), STATUS_INVALID);
    assert_non_null(strstr(error.text, "/drain: status 404"));
    assert_int_equal(admin_call_ask(call, "/metrics", NULL, &answer, &error), STATUS_IO);
    admin_call_close(call);
    waitpid(pid, NULL, 0);
}

TEST(nobody_who_listens_is_an_error) {
    struct admin_call *call;
    struct bytes answer;
    struct error error;
    listen_with(NULL, 0);
    assert_int_equal(admin_call_open(url, &call, &error), STATUS_OK);
    assert_int_equal(admin_call_ask(call, "/metrics", NULL, &answer, &error), STATUS_GONE);
    assert_non_null(strstr(error.text, "no gateway listens there"));
    admin_call_close(call);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    return test_cases_run();
}
