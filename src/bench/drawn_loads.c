/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/drawn_loads.h"

#include <math.h>

#include "base/random.h"

static const char *const kinds[DRAWN_KINDS] = {"lognormal 0.35", "lognormal 0.6", "lognormal 0.8",
                                               "lognormal 1.1",  "Zipf 0.6",      "Dirichlet 0.7",
                                               "hot groups"};

const char *drawn_loads_name(uint32_t kind) {
    return kinds[kind];
}

double drawn_loads_uniform(struct drawn_source *source) {
    return 1 - random_uniform(source->seed, source->at++, 17); /* in (0, 1] */
}

double drawn_loads_normal(struct drawn_source *source) {
    double radius = sqrt(-2 * log(drawn_loads_uniform(source)));
    return radius * cos(2 * 3.14159265358979323846 * drawn_loads_uniform(source));
}

/* Gamma of shape a < 1 (G. Marsaglia, W. W. Tsang 2000, with their boost). */
static double draw_gamma(struct drawn_source *source, double a) {
    double d = a + 1 - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        double x = drawn_loads_normal(source), v = 1 + c * x;
        if (v <= 0) continue;
        v = v * v * v;
        if (log(drawn_loads_uniform(source)) < 0.5 * x * x + d - d * v + d * log(v))
            return d * v * pow(drawn_loads_uniform(source), 1 / a);
    }
}

static void draw_zipf(struct drawn_source *source, double *loads) {
    for (uint32_t e = 0; e < DRAWN_EXPERTS; e++)
        loads[e] = pow(e + 1, -0.6);
    for (uint32_t e = DRAWN_EXPERTS - 1; e > 0; e--) { /* the hot ones live anywhere */
        uint32_t other = (uint32_t)((1 - drawn_loads_uniform(source)) * (e + 1));
        double load = loads[e];
        loads[e] = loads[other];
        loads[other] = load;
    }
}

void drawn_loads_layer(uint32_t kind, uint32_t layer, double *loads) {
    static const double sigmas[] = {0.35, 0.6, 0.8, 1.1};
    struct drawn_source source = {(uint64_t)(kind + 1) << 32 | layer, 0};
    double group = 1;
    if (kind == 4) {
        draw_zipf(&source, loads);
        return;
    }
    for (uint32_t e = 0; e < DRAWN_EXPERTS; e++) {
        if (kind == 6 && e % (DRAWN_EXPERTS / DRAWN_GROUPS) == 0)
            group = exp(0.7 * drawn_loads_normal(&source));
        loads[e] = kind < 4    ? exp(sigmas[kind] * drawn_loads_normal(&source))
                   : kind == 5 ? draw_gamma(&source, 0.7)
                               : group * exp(0.5 * drawn_loads_normal(&source));
    }
}
