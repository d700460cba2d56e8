/* SPDX-License-Identifier: Apache-2.0
 * Protects a line of the log: both forms say the same, and no value, whoever chose it, ends the
 * line, begins a field of its own, reaches a terminal or makes the line too long.
 */
#include "host/process/log/log_line.h"

#include "test_case.h"

#include <math.h>

#define NOON ((int64_t)1795435200 * 1000000000 + 123456789) /* 2026-11-23T12:00:00.123 */

static struct log_line line;

static const char *make(enum log_form form, int64_t pid, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static const char *make(enum log_form form, int64_t pid, const char *format, ...) {
    static char text[LOG_LINE_BYTES + 1];
    const struct log_head head = {form, LOG_INFO, NOON, "unit", pid};
    va_list arguments;
    line = (struct log_line){.key = 0};
    va_start(arguments, format);
    log_line_make(&line, &head, format, arguments);
    va_end(arguments);
    assert_true(line.writer.count <= LOG_LINE_BYTES);
    memcpy(text, line.text, line.writer.count);
    text[line.writer.count] = 0;
    assert_ptr_equal(strchr(text, '\n'), text + line.writer.count - 1); /* one line */
    return text;
}

TEST(text_and_json_say_the_same) {
    assert_string_equal(
        make(LOG_TEXT, 0, "joined the fleet unit=%u role=%s", 3, "decode"),
        "2026-11-23T12:00:00.123Z info unit  joined the fleet unit=3 role=decode\n");
    assert_string_equal(
        make(LOG_JSON, 0, "joined the fleet unit=%u role=%s", 3, "decode"),
        "{\"ts\":\"2026-11-23T12:00:00.123Z\",\"level\":\"info\",\"subject\":\"unit\","
        "\"message\":\"joined the fleet\",\"unit\":3,\"role\":\"decode\"}\n");
    assert_string_equal(make(LOG_TEXT, 77, "ready"),
                        "2026-11-23T12:00:00.123Z info unit  ready pid=77\n");
    assert_non_null(strstr(make(LOG_JSON, 77, "ready"), "\"message\":\"ready\",\"pid\":77}\n"));
}

TEST(a_line_about_another_process_has_its_pid_alone) {
    assert_string_equal(
        make(LOG_TEXT, 77, "starts a unit job=%u pid=%d ranks=%u", 1, 4711, 2),
        "2026-11-23T12:00:00.123Z info unit  starts a unit job=1 pid=4711 ranks=2\n");
    assert_non_null(strstr(make(LOG_JSON, 77, "starts a unit pid=%d", 4711),
                           "\"message\":\"starts a unit\",\"pid\":4711}\n"));
    assert_non_null(strstr(make(LOG_TEXT, 77, "ready"), "ready pid=77\n")); /* the next one again */
}

TEST(times_are_right_at_the_ends_of_months_and_years) {
    static const struct {
        int64_t seconds;
        const char *text;
    } times[] = {{0, "1970-01-01T00:00:00.000Z"},          {951782399, "2000-02-28T23:59:59.000Z"},
                 {951782400, "2000-02-29T00:00:00.000Z"},  {951868800, "2000-03-01T00:00:00.000Z"},
                 {1798761599, "2026-12-31T23:59:59.000Z"}, {1798761600, "2027-01-01T00:00:00.000Z"},
                 {4107542400, "2100-03-01T00:00:00.000Z"}};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        const struct log_head head = {LOG_TEXT, LOG_INFO, times[i].seconds * 1000000000, "x", 0};
        log_line_make_more(&line, &head, BYTES_LITERAL("y"), (struct bytes){NULL, 0}, 1, 0);
        assert_memory_equal(line.text, times[i].text, 24);
    }
}

TEST(numbers_of_every_kind_come_as_they_are) {
    const char *text =
        make(LOG_TEXT, 0, "n a=%d b=%u c=%ld d=%llu e=%zu f=%.1f g=%.3f h=%.0f", -5, 4000000000u,
             INT64_MIN + 1, 18446744073709551615ULL, (size_t)7, -0.04, 12.3456, 1e9);
    assert_non_null(strstr(text, "n a=-5 b=4000000000 c=-9223372036854775807 "
                                 "d=18446744073709551615 e=7 f=0.0 g=12.346 h=1000000000\n"));
    text = make(LOG_TEXT, 0, "n a=%.1f b=%.1f c=%u", (double)NAN, (double)INFINITY, 1);
    assert_non_null(strstr(text, "  n c=1\n"));
}

TEST(texts_that_are_empty_are_left_out) {
    const char *volatile none = NULL;
    assert_non_null(
        strstr(make(LOG_TEXT, 0, "x a=%s b=%s c=%.*s d=%u", none, "", 0, "no", 4), "  x d=4\n"));
    assert_non_null(strstr(make(LOG_TEXT, 0, "x a=%.*s b=%s", 2, "abc", "d"), "  x a=ab b=d\n"));
}

TEST(a_value_cannot_end_a_line_or_begin_a_field) {
    const char *evil = "a\n2026-11-23T12:00:00.123Z error gateway  burns \x1b[2J\r\t\"\\ b=c\x7f";
    const char *text = make(LOG_TEXT, 0, "x name=%s unit=%u", evil, 1);
    assert_non_null(strstr(text, "name=\"a\\n2026-11-23T12:00:00.123Z error gateway  burns "
                                 "\\u001b[2J\\r\\t\\\"\\\\ b=c\\u007f\" unit=1\n"));
    text = make(LOG_JSON, 0, "x name=%s unit=%u", evil, 1);
    assert_non_null(strstr(text, "\"name\":\"a\\n2026"));
    assert_non_null(strstr(make(LOG_TEXT, 0, "x name=%s", "b=c"), "name=\"b=c\"\n"));
    for (int byte = 1; byte < 256; byte++) {
        const char one[] = {(char)byte, 0};
        for (const char *at = make(LOG_TEXT, 0, "x name=%s", one); *at != '\n'; at++)
            assert_true(*at >= ' ' && *at <= '~');
    }
}

TEST(long_values_are_cut_and_lines_end) {
    static char text[20000];
    memset(text, 'x', sizeof text - 1);
    const char *cut = make(LOG_TEXT, 0, "x name=%s unit=%u", text, 1);
    assert_int_equal(strlen(cut), 37 + 6 + LOG_VALUE_BYTES + 7 + 1);
    assert_non_null(strstr(cut, "xxx... unit=1\n"));
    memset(text, '\x01', sizeof text - 1); /* six bytes each */
    cut = make(LOG_JSON, 12345, "x a=%s b=%s c=%s d=%s unit=%u", text, text, text, text, 1);
    assert_non_null(strstr(cut, ",\"unit\":1,\"pid\":12345}\n")); /* what still has room */
    assert_null(strstr(cut, "\"b\""));
}

static uint64_t key_of(const char *subject_and_name, uint32_t unit, uint32_t bytes) {
    make(LOG_TEXT, 0, "lost unit=%u bytes=%u account=%s", unit, bytes, subject_and_name);
    return line.key;
}

TEST(lines_about_the_same_thing_are_of_one_kind) {
    assert_true(key_of("a", 1, 2) == key_of("a", 1, 3));
    assert_true(key_of("a", 1, 2) != key_of("a", 2, 2));
    assert_true(key_of("a", 1, 2) != key_of("b", 1, 2));
    assert_int_equal(line.named_count, strlen(" unit=1 account=b"));
    assert_memory_equal(line.named, " unit=1 account=b", line.named_count);
    make(LOG_TEXT, 0, "joined unit=%u", 1);
    uint64_t joined = line.key;
    make(LOG_TEXT, 0, "lost unit=%u", 1);
    assert_true(line.key != joined);
}

TEST(what_was_left_out_names_what_it_was) {
    const struct log_head head = {LOG_JSON, LOG_WARNING, NOON, "http", 0};
    log_line_make_more(&line, &head, BYTES_LITERAL("refused"), BYTES_LITERAL(",\"status\":401"),
                       512, 10.04);
    line.text[line.writer.count] = 0;
    assert_non_null(strstr(line.text,
                           "\"level\":\"warning\",\"subject\":\"http\",\"message\":"
                           "\"refused\",\"status\":401,\"more\":512,\"seconds\":10.0}\n"));
}
