/* SPDX-License-Identifier: Apache-2.0
 * The memory that weights_load will need for a checkpoint, before it reads any weight: the packed
 * sizes of the layout's tensors, from the types in the shards' headers or, without shards, from
 * config.json.
 */
#pragma once

#include "compute/weights/checkpoint.h"
#include "contract/memory_need.h"

/* The sizes on the CPU, with the first MTP layer if `mtp`. The embedding is not included: it stays
 * in the mapped checkpoint. */
struct memory_weights weights_size_of(const struct checkpoint *checkpoint, bool mtp);
