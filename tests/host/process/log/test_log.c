/* SPDX-License-Identifier: Apache-2.0
 * Protects the log as it is written: whole lines in order, of many threads; no level that was not
 * asked for; floods as counts; and a reader who does not read stops nobody, and learns how many
 * lines he missed.
 */
#include "host/process/log/log.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "base/check.h"
#include "test_case.h"

#define TEXT_BYTES ((size_t)8 << 20)

static int ends[2];
static char *text;
static size_t count;

static int begin(void **state) {
    check(pipe2(ends, O_NONBLOCK) == 0);
    text = malloc(TEXT_BYTES);
    check(text);
    count = 0;
    log_start("text", "info", false);
    log_write_to(ends[1]);
    return 0;
}

static int end(void **state) {
    log_finish();
    log_write_to(STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    free(text);
    return 0;
}

/* All that can be read by now, behind what was read before. */
static const char *said(void) {
    ssize_t got;
    while ((got = read(ends[0], text + count, TEXT_BYTES - 1 - count)) > 0)
        count += (size_t)got;
    text[count] = 0;
    return text;
}

static uint32_t count_lines(const char *part) {
    uint32_t lines = 0;
    for (const char *at = said(); (at = strstr(at, part)); at++)
        lines++;
    return lines;
}

TEST_AROUND(lines_below_the_level_are_not_written, begin, end) {
    log_say(LOG_DEBUG, "test", "whispers");
    log_say(LOG_INFO, "test", "speaks");
    assert_null(strstr(said(), "whispers"));
    assert_non_null(strstr(said(), "info test  speaks\n"));
    log_start("text", "error", false);
    log_say(LOG_WARNING, "test", "warns");
    log_say(LOG_ERROR, "test", "cries n=%d", 3);
    assert_null(strstr(said(), "warns"));
    assert_non_null(strstr(said(), "error test  cries n=3\n"));
    log_start("json", "debug", true);
    log_say(LOG_DEBUG, "test", "whispers");
    assert_non_null(strstr(said(), "\"message\":\"whispers\",\"pid\":"));
}

TEST_AROUND(a_flood_comes_as_some_lines_and_a_count, begin, end) {
    for (int i = 0; i < 5000; i++)
        log_say(LOG_INFO, "test", "floods account=%s i=%d", "bob", i);
    assert_true(count_lines("floods account=bob i=") < 60);
    for (int i = 0; i < 50; i++)
        log_say_all(LOG_INFO, "test", "is wanted account=%s i=%d", "bob", i);
    assert_int_equal(count_lines("is wanted account=bob i="), 50);
    uint32_t lines = count_lines("floods account=bob i=");
    log_finish();
    char expected[100];
    snprintf(expected, sizeof expected, "info test  floods account=bob more=%u\n", 5000 - lines);
    assert_non_null(strstr(said(), expected));
}

TEST_AROUND(lines_of_the_loop_wait_for_its_turn_but_for_grave_ones, begin, end) {
    log_gather();
    log_say(LOG_INFO, "test", "first");
    assert_null(strstr(said(), "first"));
    assert_true(log_next_ns() < INT64_MAX);
    log_turn();
    assert_non_null(strstr(said(), "first"));
    assert_true(log_next_ns() == INT64_MAX);
    log_say(LOG_INFO, "test", "second");
    log_say(LOG_WARNING, "test", "third");
    const char *second = strstr(said(), "second"), *third = strstr(said(), "third");
    assert_true(second && third && second < third);
}

static void *say_much(void *argument) {
    const char *name = argument;
    for (int i = 0; i < 2000; i++) {
        log_say_all(LOG_INFO, "test", "counts thread=%s i=%d tail=%s", name, i, "0123456789abcdef");
        while (log_next_ns() < INT64_MAX) /* the reader is slower */
            log_turn();
    }
    return NULL;
}

static void *read_on(void *argument) {
    while (count_lines("counts thread=") < 4 * 2000)
        usleep(1000);
    return NULL;
}

TEST_AROUND(many_threads_lines_come_whole, begin, end) {
    pthread_t threads[4], reader;
    check(pthread_create(&reader, NULL, read_on, NULL) == 0);
    for (int i = 0; i < 4; i++)
        check(pthread_create(&threads[i], NULL, say_much, "abcd" + i) == 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    while (log_next_ns() < INT64_MAX)
        log_turn();
    pthread_join(reader, NULL);
    assert_int_equal(count_lines(" tail=0123456789abcdef\n"), 4 * 2000);
}

TEST_AROUND(a_reader_who_stands_still_stops_nobody_and_learns_what_he_missed, begin, end) {
    enum { LINES = 4000 };
    int flags = fcntl(ends[1], F_GETFL);
    check(fcntl(ends[1], F_SETFL, flags & ~O_NONBLOCK) == 0); /* as stderr is */
    for (int i = 0; i < LINES; i++)
        log_say_all(LOG_INFO, "test", "says i=%d tail=%s", i, "0123456789abcdef0123456789abcdef");
    uint32_t lines = 0, before;
    do { /* he reads again */
        before = lines;
        lines = count_lines("says i=");
        log_turn();
    } while (lines > before);
    assert_true(lines > 100 && lines < LINES);
    char expected[100];
    snprintf(expected, sizeof expected, "warning log  stderr took no more lines more=%u\n",
             LINES - lines);
    assert_non_null(strstr(said(), expected));
    log_say(LOG_INFO, "test", "goes on");
    assert_non_null(strstr(said(), "goes on"));
}

TEST_AROUND(a_reader_who_is_gone_costs_nothing, begin, end) {
    close(ends[0]);
    signal(SIGPIPE, SIG_IGN);
    for (int i = 0; i < 4000; i++)
        log_say_all(LOG_INFO, "test", "says i=%d", i);
    assert_true(log_next_ns() == INT64_MAX);
    check(pipe2(ends, O_NONBLOCK) == 0);
}
