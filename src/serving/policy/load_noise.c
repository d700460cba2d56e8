/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/load_noise.h"

#include <math.h>

#define FORGOTTEN_PERIODS (1.0 / 6)
#define DISTANCE_MAX 0.25
/* ratio of standard deviation to mean deviation in a normal distribution: sqrt(pi / 2) */
#define DEVIATION 1.25
#define JUMP_DEVIATIONS 3
#define MARGIN_DEVIATIONS 2.33
/* Factor on 1 / count, the relative variance of a number of requests, because lengths vary as much
 * as the number. */
#define COUNTING 2

static void load_noise_learn(double *mean, double value, double base, double kept) {
    double distance = base > 0 ? fmin(fabs(value / base - 1), DISTANCE_MAX) : 0;
    *mean = kept * *mean + (1 - kept) * distance;
}

static double kept_over(const struct load_noise *noise, int64_t passed_ns) {
    return exp(-(double)passed_ns / (FORGOTTEN_PERIODS * (double)noise->rule.period_ns));
}

/* Stores forecasts of future times, several of them within the time of a start. */
static void hope(struct load_noise *noise, const struct forecast_load *forecast, int64_t now_ns) {
    int64_t between_ns = noise->rule.ahead_ns / LOAD_NOISE_HOPES;
    uint32_t place = noise->hope_count % LOAD_NOISE_HOPES;
    uint32_t last = (noise->hope_count + LOAD_NOISE_HOPES - 1) % LOAD_NOISE_HOPES;
    int64_t at_ns = now_ns + noise->rule.ahead_ns;
    if (noise->hope_count && at_ns - noise->hopes[last].at_ns < between_ns) return;
    for (uint32_t i = 0; i < FORECAST_WAYS * FORECAST_STREAMS; i++) {
        uint32_t way = i / FORECAST_STREAMS, stream = i % FORECAST_STREAMS;
        double *hope = &noise->hopes[place].rates[way][stream];
        if (noise->hopes[place].at_ns)
            load_noise_learn(&noise->error[way][stream], noise->quick[stream], *hope,
                             kept_over(noise, between_ns));
        *hope = forecast_load_by(forecast, (enum forecast_way)way, stream, at_ns);
    }
    noise->hopes[place].at_ns = at_ns;
    noise->hope_count++;
}

void load_noise_add(struct load_noise *noise, const struct load_noise_window *window,
                    const struct forecast_load *forecast, int64_t now_ns) {
    if (noise->rule.quick_ns <= 0) return;
    double kept = exp(-(double)window->passed_ns / (double)noise->rule.quick_ns);
    double moments = 2 * (double)noise->rule.quick_ns / (double)window->passed_ns;
    if (!noise->windows++) kept = 0;
    noise->requests = kept * noise->requests + (1 - kept) * window->requests * moments;
    for (uint32_t i = 0; i < FORECAST_STREAMS; i++) {
        noise->quick[i] = kept * noise->quick[i] + (1 - kept) * window->rates[i];
        load_noise_learn(&noise->wander[i], noise->quick[i], window->fast[i],
                         kept_over(noise, window->passed_ns));
    }
    hope(noise, forecast, now_ns);
}

double load_noise_jump(const struct load_noise *noise, uint32_t stream) {
    double least = 1 - JUMP_DEVIATIONS * DEVIATION * noise->wander[stream];
    return noise->quick[stream] * fmax(least, 0);
}

enum forecast_way load_noise_way(const struct load_noise *noise, uint32_t stream) {
    enum forecast_way best = FORECAST_DEVIATES;
    for (uint32_t way = 0; way < FORECAST_WAYS; way++)
        if (noise->error[way][stream] < noise->error[best][stream]) best = (enum forecast_way)way;
    return best;
}

double load_noise_margin(const struct load_noise *noise, uint32_t stream) {
    double deviation = DEVIATION * noise->error[load_noise_way(noise, stream)][stream];
    double counted = COUNTING / fmax(noise->requests, 1);
    return MARGIN_DEVIATIONS * sqrt(fmax(deviation * deviation - counted, 0));
}
