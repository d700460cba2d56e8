/* SPDX-License-Identifier: Apache-2.0
 * Protects units from strangers at a wire's port: few of one address, few in all, none for long;
 * whoever has greeted stays, and so does whoever has the file of a connection that is closed. Where
 * files have run out, whoever waits is refused.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host/wire/wire_door.h"

#include "test_case.h"

#define OF_ADDRESS_MAX (LIMIT_WIRE_STRANGERS / 4)

static struct wire_door *door;
static int listener;
static struct sockaddr_in address;

struct pair {
    int here, there;
};

static struct pair connect_from(const char *from) {
    struct sockaddr_in source = {.sin_family = AF_INET, .sin_addr.s_addr = inet_addr(from)};
    struct pair pair = {-1, socket(AF_INET, SOCK_STREAM, 0)};
    assert_int_equal(bind(pair.there, (struct sockaddr *)&source, sizeof source), 0);
    assert_int_equal(connect(pair.there, (struct sockaddr *)&address, sizeof address), 0);
    pair.here = accept(listener, NULL, NULL);
    assert_true(pair.here >= 0);
    return pair;
}

static struct pair enter_from(const char *from) {
    struct pair pair = connect_from(from);
    wire_door_enter(door, pair.here);
    return pair;
}

/* The door has shut it down. */
static bool is_shut(struct pair pair) {
    char byte;
    ssize_t count = recv(pair.there, &byte, 1, MSG_DONTWAIT);
    return count == 0 || (count < 0 && errno != EAGAIN);
}

static int count_shut(const struct pair *pairs, int count) {
    int shut = 0;
    for (int i = 0; i < count; i++)
        shut += is_shut(pairs[i]);
    return shut;
}

static void close_pair(struct pair pair) {
    close(pair.here);
    close(pair.there);
}

static int set_up(void **state) {
    struct error error;
    socklen_t bytes = sizeof address;
    address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 8) ||
        getsockname(listener, (struct sockaddr *)&address, &bytes))
        return -1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (wire_door_open("tcp://here", &door, &error)) return -1;
    wire_door_listens(door, listener);
    return 0;
}

static int tear_down(void **state) {
    wire_door_close(door);
    return close(listener);
}

TEST_AROUND(an_address_has_a_quarter_of_the_places, set_up, tear_down) {
    struct pair first = enter_from("127.0.0.1"), many[OF_ADDRESS_MAX];
    wire_door_know(door, first.here);
    for (int i = 0; i < OF_ADDRESS_MAX; i++)
        many[i] = enter_from("127.0.0.1");
    struct pair last = enter_from("127.0.0.1"), other = enter_from("127.0.0.2");
    assert_int_equal(count_shut(many, OF_ADDRESS_MAX) + is_shut(last), 1);
    assert_false(is_shut(other));
    assert_false(is_shut(first));
    assert_true(wire_door_is_crowded(door));
    assert_int_equal(wire_door_strangers(door), OF_ADDRESS_MAX + 1);
    wire_door_leave(door, other.here);
    assert_int_equal(wire_door_strangers(door), OF_ADDRESS_MAX);
    for (int i = 0; i < OF_ADDRESS_MAX; i++)
        close_pair(many[i]);
    close_pair(first);
    close_pair(last);
    close_pair(other);
}

TEST_AROUND(all_addresses_together_have_so_many_places, set_up, tear_down) {
    struct pair all[LIMIT_WIRE_STRANGERS];
    for (int i = 0; i < LIMIT_WIRE_STRANGERS; i++) {
        char from[32];
        snprintf(from, sizeof from, "127.0.0.%d", 1 + i % 8);
        all[i] = enter_from(from);
    }
    assert_int_equal(count_shut(all, LIMIT_WIRE_STRANGERS), 0);
    struct pair last = enter_from("127.0.0.100");
    assert_int_equal(count_shut(all, LIMIT_WIRE_STRANGERS) + is_shut(last), 1);
    assert_int_equal(wire_door_strangers(door), LIMIT_WIRE_STRANGERS);
    for (int i = 0; i < LIMIT_WIRE_STRANGERS; i++)
        close_pair(all[i]);
    close_pair(last);
}

/* The number of a closed file is given to another connection, which the door does not know. */
TEST_AROUND(a_file_of_another_connection_is_left_alone, set_up, tear_down) {
    struct pair closed = enter_from("127.0.0.1");
    struct pair other = connect_from("127.0.0.2");
    assert_int_equal(dup2(other.here, closed.here), closed.here);
    wire_door_fail(door, EMFILE); /* ends with the oldest stranger */
    assert_int_equal(wire_door_strangers(door), 0);
    assert_false(is_shut(other));
    close_pair(closed);
    close_pair(other);
}

TEST_AROUND(whoever_waits_is_refused_where_files_have_run_out, set_up, tear_down) {
    struct pair known = enter_from("127.0.0.1");
    wire_door_know(door, known.here);
    struct pair waits = {-1, socket(AF_INET, SOCK_STREAM, 0)};
    assert_int_equal(connect(waits.there, (struct sockaddr *)&address, sizeof address), 0);
    wire_door_fail(door, EMFILE);
    assert_true(is_shut(waits));
    assert_false(is_shut(known));
    assert_int_equal(accept(listener, NULL, NULL), -1);
    assert_int_equal(errno, EAGAIN);
    close(waits.there);
    close_pair(known);
}
