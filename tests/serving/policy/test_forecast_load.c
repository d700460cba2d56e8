/* SPDX-License-Identifier: Apache-2.0
 * Protects the forecast of a fleet's load: a day that was seen is expected again, deviations are
 * followed at once and believed for a while, and where nothing is known the last minutes are
 * carried on; whoever knows better chooses another way.
 */
#include <math.h>

#include "serving/policy/forecast_load.h"
#include "test_case.h"

#define S ((int64_t)1000000000)
#define DAY (86400 * S)
#define HOUR (3600 * S)

static struct forecast_load forecast;

/* A smooth day with its peak at noon. */
static double shape(int64_t at_ns) {
    return 100 - 60 * cos((double)(at_ns % DAY) / DAY * 2 * 3.14159265358979);
}

/* From the last time on, every ten seconds, `factor` times the day. */
static void live(int64_t from_ns, int64_t until_ns, double factor) {
    for (int64_t at_ns = from_ns; at_ns <= until_ns; at_ns += 10 * S) {
        double rate = factor * shape(at_ns);
        forecast_load_add(&forecast, (double[]){rate, 2 * rate}, at_ns);
    }
}

static void assert_near(double found, double expected, double share) {
    if (fabs(found - expected) > share * expected)
        fail_msg("found %g, expected %g", found, expected);
}

static int open_forecast(void **state) {
    (void)state;
    forecast_load_open(&forecast, DAY);
    return 0;
}

TEST_AROUND(a_day_that_was_seen_is_expected_again, open_forecast, NULL) {
    live(DAY, 3 * DAY, 1);
    for (int hour = 0; hour < 24; hour++) {
        int64_t at_ns = 3 * DAY + hour * HOUR;
        assert_near(forecast_load_at(&forecast, 0, at_ns), shape(at_ns), 0.02);
        assert_near(forecast_load_at(&forecast, 1, at_ns), 2 * shape(at_ns), 0.02);
    }
    assert_near(forecast_load_peak(&forecast, 0, 3 * DAY + 13 * HOUR), 160, 0.01);
    assert_near(forecast_load_peak(&forecast, 0, 3 * DAY + 3 * HOUR), shape(3 * HOUR), 0.02);
}

TEST_AROUND(a_crowd_is_followed_at_once_and_forgotten_far_ahead, open_forecast, NULL) {
    live(DAY, 3 * DAY + 10 * HOUR, 1);
    live(3 * DAY + 10 * HOUR, 3 * DAY + 11 * HOUR, 3);
    int64_t now_ns = forecast.last_ns;
    assert_near(forecast_load_at(&forecast, 0, now_ns), 3 * shape(now_ns), 0.05);
    assert_near(forecast_load_at(&forecast, 0, now_ns + HOUR / 2), 3 * shape(now_ns + HOUR / 2),
                0.15);
    assert_near(forecast_load_at(&forecast, 0, now_ns + 20 * HOUR), shape(now_ns + 20 * HOUR),
                0.15);
}

TEST_AROUND(a_morning_that_does_not_come_is_not_waited_for, open_forecast, NULL) {
    live(DAY, 3 * DAY + 5 * HOUR, 1);
    live(3 * DAY + 5 * HOUR, 3 * DAY + 9 * HOUR, 0.2);
    int64_t now_ns = forecast.last_ns;
    assert_near(forecast_load_at(&forecast, 0, now_ns + HOUR / 4), 0.2 * shape(now_ns), 0.4);
}

TEST_AROUND(without_a_day_the_trend_goes_on_for_a_while, open_forecast, NULL) {
    for (int64_t at_ns = DAY; at_ns <= DAY + HOUR; at_ns += 10 * S)
        forecast_load_add(&forecast, (double[]){100 + (double)(at_ns - DAY) / HOUR * 60, 1}, at_ns);
    double soon = forecast_load_at(&forecast, 0, DAY + HOUR + HOUR / 6);
    assert_true(soon > 155 && soon < 175);
    double far = forecast_load_at(&forecast, 0, DAY + 12 * HOUR);
    assert_true(far > 160 && far < 195); /* half an hour of the trend, and no more */
}

TEST_AROUND(a_clock_that_steps_back_and_a_gap_change_nothing_else, open_forecast, NULL) {
    live(DAY, 2 * DAY, 1);
    struct forecast_load before = forecast;
    forecast_load_add(&forecast, (double[]){1e9, 1e9}, 2 * DAY - HOUR);
    assert_memory_equal(&before, &forecast, sizeof before);
    live(2 * DAY + 6 * HOUR, 2 * DAY + 7 * HOUR, 1);
    assert_near(forecast_load_at(&forecast, 0, 2 * DAY + 12 * HOUR), 160, 0.03);
}

TEST_AROUND(a_curve_may_be_known_beforehand, open_forecast, NULL) {
    for (int part = 0; part < FORECAST_PARTS; part++)
        forecast_load_teach(&forecast, DAY / FORECAST_PARTS * part + 1,
                            (double[]){part < 144 ? 10 : 50, 1});
    assert_near(forecast_load_at(&forecast, 0, 18 * HOUR), 50, 0.01);
    assert_near(forecast_load_at(&forecast, 0, 6 * HOUR), 10, 0.01);
}

TEST_AROUND(a_load_goes_on_in_the_way_that_is_chosen, open_forecast, NULL) {
    live(DAY, 3 * DAY + 10 * HOUR, 1);
    live(3 * DAY + 10 * HOUR, 3 * DAY + 14 * HOUR, 0.5);
    int64_t now_ns = forecast.last_ns, at_ns = now_ns + 3 * HOUR;
    double ever = shape(at_ns), now = 0.5 * shape(now_ns);
    assert_near(forecast_load_by(&forecast, FORECAST_AS_EVER, 0, at_ns), ever, 0.02);
    assert_near(forecast_load_by(&forecast, FORECAST_AS_NOW, 0, at_ns), now, 0.1);
    double deviates = forecast_load_by(&forecast, FORECAST_DEVIATES, 0, at_ns);
    assert_true(deviates > 0.5 * ever && deviates < 0.9 * ever);
    assert_true(forecast_load_at(&forecast, 0, at_ns) == deviates);
    forecast.way[0] = FORECAST_AS_EVER;
    assert_near(forecast_load_at(&forecast, 0, at_ns), ever, 0.02);
}
