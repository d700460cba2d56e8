/* SPDX-License-Identifier: Apache-2.0
 * The files `fathom eplb` reads: loads, a JSON array of layers, each an array of one number an
 * expert; and placements, what `fathom eplb --json` printed.
 */
#ifndef COMMAND_EPLB_LOAD_H
#define COMMAND_EPLB_LOAD_H

#include <stdint.h>

#include "base/bytes.h"
#include "base/status.h"

struct eplb_load {
    uint32_t layers, experts; /* 1..LIMIT_LAYERS, 1..LIMIT_EXPERTS */
    uint64_t *loads;          /* [layers][experts]; each layer has a unit of its own, such that its
                               * largest load has 53 bits and their ratios are the text's */
};

struct eplb_placement {
    uint32_t layers, slots;
    uint16_t *slot_to_expert; /* [layers][slots] below LIMIT_EXPERTS */
};

/* INVALID or NO_MEMORY; `name` stands for the text in messages. Free the array with free(). */
enum status eplb_load_parse(struct bytes text, const char *name, struct eplb_load *out,
                            struct error *error) MUST_USE;
enum status eplb_load_parse_placement(struct bytes text, const char *name,
                                      struct eplb_placement *out, struct error *error) MUST_USE;

#endif
