/* SPDX-License-Identifier: Apache-2.0
 * Says before weights are read that a model does not fit into this machine's memory, and what would
 * fit. The sum is contract/memory_need.h; the machine's side is host/process/machine_memory.h.
 */
#pragma once

#include "base/status.h"
#include "contract/memory_need.h"
#include "host/process/machine_memory.h"

struct memory_fit {
    const char *model;             /* its directory, for the message */
    bool has_kv_option;            /* the command has --kv-memory */
    bool force;                    /* --force: it is loaded even if it does not fit */
    const char *weights_directory; /* of packed weights; NULL: none */
};

/* Returns false if the need is more than the memory; the text then says by how much, and the
 * remedies. Pure. */
bool memory_fit_verify(const struct memory_fit *fit, const struct memory_need *need,
                       const struct machine_memory *memory, char text[static 512]);

/* memory_fit_verify for this machine, as a callback of struct model_options: `context` is a struct
 * memory_fit. With `force` the message goes to stderr. STATUS_NO_MEMORY: it does not fit. */
enum status memory_fit_check(void *context, const struct memory_need *need, struct error *error);
