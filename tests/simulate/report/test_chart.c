/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/report/chart.h"

#include <math.h>

#include "test_case.h"

static char text[1 << 16];

static const char *drawn(void (*draw)(struct json_writer *, const struct chart *),
                         const struct chart *chart) {
    struct json_writer writer = {.out = text, .room = sizeof text - 1};
    draw(&writer, chart);
    assert_true(writer.count < sizeof text);
    text[writer.count] = 0;
    return text;
}

TEST(lines_have_titles_units_and_round_ticks) {
    static const double x[] = {0, 1, 2, 3}, y[] = {0, 900, NAN, 1900};
    struct chart chart = {.title = "Load <of> all",
                          .x_label = "seconds",
                          .y_label = "tokens",
                          .count = 4,
                          .x = x,
                          .series = {{"a", y}},
                          .series_count = 1};
    const char *svg = drawn(chart_lines, &chart);
    assert_non_null(strstr(svg, "Load &lt;of&gt; all"));
    assert_non_null(strstr(svg, ">seconds<"));
    assert_non_null(strstr(svg, ">2000<"));
    assert_null(strstr(svg, "nan")); /* a gap is a gap */
    assert_non_null(strstr(svg, "</svg>"));
}

TEST(an_axis_begins_where_it_is_reported_to) {
    static const double x[] = {0, 1}, y[] = {1.01, 1.09};
    struct chart chart = {.title = "t",
                          .x_label = "x",
                          .y_label = "y",
                          .count = 2,
                          .x = x,
                          .series = {{"a", y}},
                          .series_count = 1,
                          .y_min = 1};
    const char *svg = drawn(chart_lines, &chart);
    assert_null(strstr(svg, ">0.5<"));
    assert_non_null(strstr(svg, ">1.1<"));
}

TEST(a_chart_without_points_says_so) {
    struct chart chart = {.title = "t", .x_label = "x", .y_label = "y", .series_count = 1};
    assert_non_null(strstr(drawn(chart_lines, &chart), "nothing was measured"));
}

TEST(bars_are_as_long_as_their_values) {
    static const char *const names[] = {"one", "two"};
    static const double a[] = {1, 2}, b[] = {0, 2};
    struct chart chart = {.title = "t",
                          .x_label = "%",
                          .count = 2,
                          .names = names,
                          .series = {{"a", a}, {"b", b}},
                          .series_count = 2};
    const char *svg = drawn(chart_bars, &chart);
    assert_non_null(strstr(svg, "width=\"129.0\"")); /* of 516: a quarter */
    assert_non_null(strstr(svg, "width=\"258.0\""));
    assert_null(strstr(svg, "width=\"0.0\""));
}
