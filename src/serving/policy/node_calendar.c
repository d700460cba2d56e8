/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/node_calendar.h"

#include "base/number.h"

#define MEAN_SAMPLES 288

static int64_t within_period(const struct node_calendar *calendar, int64_t at_ns) {
    int64_t within = at_ns % calendar->period_ns;
    return within < 0 ? within + calendar->period_ns : within;
}

static bool node_calendar_holds(const struct node_calendar *calendar,
                                const struct node_calendar_line *line, int64_t at_ns) {
    int64_t within = within_period(calendar, at_ns);
    if (line->from_ns == line->until_ns) return true;
    if (line->from_ns < line->until_ns) return within >= line->from_ns && within < line->until_ns;
    return within >= line->from_ns || within < line->until_ns;
}

static uint32_t promised_at(const struct node_calendar *calendar, int64_t at_ns) {
    uint32_t promised = 0;
    for (uint32_t i = 0; i < calendar->count; i++)
        if (node_calendar_holds(calendar, &calendar->lines[i], at_ns))
            promised += calendar->lines[i].promised;
    return promised;
}

/* Checks the beginning and each start of a line, because the total rises only there. */
uint32_t node_calendar_promised(const struct node_calendar *calendar, int64_t from_ns,
                                int64_t until_ns) {
    uint32_t most = promised_at(calendar, from_ns);
    for (uint32_t i = 0; i < calendar->count; i++) {
        int64_t begins_ns = calendar->lines[i].from_ns - within_period(calendar, from_ns);
        if (begins_ns < 0) begins_ns += calendar->period_ns;
        if (from_ns + begins_ns <= until_ns)
            most = max_u32(most, promised_at(calendar, from_ns + begins_ns));
    }
    return most;
}

double node_calendar_price(const struct node_calendar *calendar, int64_t at_ns) {
    double price = calendar->price;
    for (uint32_t i = 0; i < calendar->count; i++)
        if (calendar->lines[i].price >= 0 &&
            node_calendar_holds(calendar, &calendar->lines[i], at_ns))
            price = calendar->lines[i].price;
    return price;
}

double node_calendar_price_mean(const struct node_calendar *calendar) {
    double sum = 0;
    for (int i = 0; i < MEAN_SAMPLES; i++)
        sum += node_calendar_price(calendar, calendar->period_ns / MEAN_SAMPLES * i);
    return sum / MEAN_SAMPLES;
}
