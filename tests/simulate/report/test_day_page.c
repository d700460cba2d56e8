/* SPDX-License-Identifier: Apache-2.0
 * A day's page: both published charts and those of what was not published, from nowhere else.
 */
#include "simulate/report/day_page.h"

#include "small_day.h"
#include "test_case.h"

TEST(a_days_page_has_its_charts_and_needs_nothing_else) {
    small_day_make();
    const char *text = small_day_text(day_page_write);
    const char *charts[] = {"Nodes",
                            "Cost and theoretical income",
                            "Speed of a user",
                            "Time to the first token (TTFT)",
                            "Time for each further token (TPOT)",
                            "KV pages held in decode",
                            "Experts: largest rank over mean",
                            "Experts by layer: largest rank over mean",
                            "Hits by where they were",
                            "Where each GPU-second went"};
    for (size_t i = 0; i < sizeof charts / sizeof *charts; i++)
        if (!strstr(text, charts[i])) fail_msg("no chart %s", charts[i]);
    assert_null(strstr(text, "<script"));
    assert_null(strstr(text, "http"));
    assert_non_null(strstr(text, "a &lt;day&gt;"));
    assert_non_null(strstr(text, "</html>"));
}
