/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/balance/balance_traffic.h"

#include <math.h>

#include "base/check.h"
#include "base/limits.h"

/* The elementary symmetric polynomial of degree k. */
static double symmetric(const double *values, uint32_t count, uint32_t k) {
    double sums[BALANCE_TRAFFIC_GROUPS_MAX + 1] = {1}; /* of each degree, over the values so far */
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t degree = k < i + 1 ? k : i + 1; degree > 0; degree--)
            sums[degree] += sums[degree - 1] * values[i];
    return sums[k];
}

struct traffic_view {
    const struct balance_shape *shape;
    const uint64_t *loads;
    const uint16_t *slot_to_expert;
    uint16_t counts[LIMIT_EXPERTS];
};

/* The share of all load that one node serves, for each group. */
static void serve_node(const struct traffic_view *view, uint32_t node, double total,
                       double *served) {
    const struct balance_shape *shape = view->shape;
    uint32_t node_slots = shape->slots / shape->nodes;
    for (uint32_t g = 0; g < shape->groups; g++)
        served[g] = 0;
    for (uint32_t slot = node * node_slots; slot < (node + 1) * node_slots; slot++) {
        uint32_t expert = view->slot_to_expert[slot];
        if (expert == BALANCE_TRAFFIC_EMPTY) continue;
        served[expert / (shape->experts / shape->groups)] +=
            (double)view->loads[expert] / view->counts[expert] / total;
    }
}

void balance_traffic(const struct balance_shape *shape, const struct balance_choice *choice,
                     const uint64_t *loads, const uint16_t *slot_to_expert,
                     struct balance_traffic *traffic_out) {
    struct traffic_view view = {shape, loads, slot_to_expert, {0}};
    double weights[BALANCE_TRAFFIC_GROUPS_MAX] = {0}, most[BALANCE_TRAFFIC_GROUPS_MAX] = {0};
    double served[BALANCE_TRAFFIC_GROUPS_MAX], kept[BALANCE_TRAFFIC_GROUPS_MAX];
    double total = 0, home = 0, picks = (double)choice->experts / choice->groups;
    check(shape->groups <= BALANCE_TRAFFIC_GROUPS_MAX && choice->groups > 0);
    check(choice->groups <= shape->groups);
    *traffic_out = (struct balance_traffic){0, 0};
    for (uint32_t slot = 0; slot < shape->slots; slot++)
        if (slot_to_expert[slot] != BALANCE_TRAFFIC_EMPTY) view.counts[slot_to_expert[slot]]++;
    for (uint32_t e = 0; e < shape->experts; e++)
        total += (double)loads[e];
    if (!(total > 0)) return;
    for (uint32_t e = 0; e < shape->experts; e++)
        weights[e / (shape->experts / shape->groups)] += (double)loads[e] / total;
    double sets = symmetric(weights, shape->groups, choice->groups);
    for (uint32_t node = 0; node < shape->nodes; node++) {
        serve_node(&view, node, total, served);
        for (uint32_t g = 0; g < shape->groups; g++) {
            double elsewhere = weights[g] > 0 ? 1 - served[g] / weights[g] : 1;
            kept[g] = weights[g] * pow(elsewhere > 0 ? elsewhere : 0, picks);
            if (served[g] > most[g]) most[g] = served[g];
        }
        double spared = symmetric(kept, shape->groups, choice->groups);
        traffic_out->copies += sets > 0 ? 1 - spared / sets : 0;
    }
    for (uint32_t g = 0; g < shape->groups; g++)
        home += most[g];
    traffic_out->away = 1 - home > 1e-12 ? 1 - home : 0; /* a rounding error counts as 0 */
}
