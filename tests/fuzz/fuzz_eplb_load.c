/* SPDX-License-Identifier: Apache-2.0
 * The bytes of a load file, and of a placement. What is accepted can be solved.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/limits.h"
#include "command/eplb_load.h"
#include "serving/policy/balance/balance_experts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void place(const struct eplb_load *load) {
    uint32_t experts = load->experts;
    struct balance_shape shape = {experts, 1, experts + experts % 2 + 2, 2, 1};
    struct balance_options options = {BALANCE_FREE};
    struct balance_outcome outcome;
    void *memory = malloc(balance_experts_bytes(&shape));
    uint16_t *slots = malloc(shape.slots * sizeof *slots);
    check(memory && slots && experts <= LIMIT_EXPERTS && load->layers <= LIMIT_LAYERS);
    balance_experts(&shape, &options, load->loads, memory, slots, &outcome);
    check(outcome.balance > 0 && outcome.balance <= outcome.bound * (1 + 1e-9));
    free(slots);
    free(memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct bytes text = {(const char *)data, size};
    struct eplb_load load;
    struct eplb_placement placement;
    struct error error = {""};
    enum status status = eplb_load_parse(text, "fuzz", &load, &error);
    check((status == STATUS_OK) == (error.text[0] == '\0') && !strchr(error.text, '\n'));
    if (status == STATUS_OK) {
        place(&load);
        free(load.loads);
    }
    if (eplb_load_parse_placement(text, "fuzz", &placement, &error) == STATUS_OK) {
        for (uint32_t i = 0; i < placement.layers * placement.slots; i++)
            check(placement.slot_to_expert[i] < LIMIT_EXPERTS);
        free(placement.slot_to_expert);
    }
    return 0;
}
