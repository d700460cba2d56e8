/* SPDX-License-Identifier: Apache-2.0
 * Is a record that a machine puts out in a replay the one that was recorded? Byte for byte, with one
 * exception: a unit's salts and tokens were replaced (host/process/recording/recording_mask.h), so the names
 * of its KV blocks, which are made of them, come out otherwise. They have to be the same up to
 * naming: each recorded name always stands for the same one, and no two for one.
 */
#ifndef HOST_PROCESS_RECORDING_RECORDING_COMPARE_H
#define HOST_PROCESS_RECORDING_RECORDING_COMPARE_H

#include "base/status.h"
#include "contract/record.h"

struct recording_names; /* recorded ones and those of the replay, by each other */

struct recording_names *recording_compare_names_open(void);
void recording_compare_names_close(struct recording_names *names);

/* True if they agree; else *difference says where, by the record's form. */
bool recording_compare(struct recording_names *names, const struct record *recorded,
                       const struct record *found, struct error *difference);

#endif
