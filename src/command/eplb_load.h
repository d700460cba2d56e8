/* SPDX-License-Identifier: Apache-2.0
 * Reads the input files of `fathom eplb`. A load file is a JSON array of layers, each an array with
 * one number per expert. A placement file is the output of `fathom eplb --json`.
 */
#pragma once

#include <stdint.h>

#include "base/bytes.h"
#include "base/status.h"

struct eplb_load {
    uint32_t layers, experts; /* 1..LIMIT_LAYERS, 1..LIMIT_EXPERTS */
    /* [layers][experts]; each layer is scaled by a power of 2 so that its largest load has 53
     * bits */
    uint64_t *loads;
};

struct eplb_placement {
    uint32_t layers, slots;
    uint16_t *slot_to_expert; /* [layers][slots] below LIMIT_EXPERTS */
};

/* Return INVALID or NO_MEMORY on error; messages use `name` for the text. The caller frees the
 * array. */
enum status eplb_load_parse(struct bytes text, const char *name, struct eplb_load *out,
                            struct error *error) MUST_USE;
enum status eplb_load_parse_placement(struct bytes text, const char *name,
                                      struct eplb_placement *out, struct error *error) MUST_USE;
