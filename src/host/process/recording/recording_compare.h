/* SPDX-License-Identifier: Apache-2.0
 * Compares a record that a machine puts out in a replay with the recorded one. They must be equal
 * byte for byte, except for names of KV blocks in a unit: a name is a hash of salts and tokens,
 * which the recording masks (host/process/recording/recording_mask.h). Names must correspond one to
 * one: each recorded name to one name of the replay.
 */
#pragma once

#include "base/status.h"
#include "contract/record.h"

struct recording_names; /* pairs of a recorded name and that of the replay */

struct recording_names *recording_compare_names_open(void);
void recording_compare_names_close(struct recording_names *names);

/* Returns true if they are equal. If not, *difference names the place in the record. */
bool recording_compare(struct recording_names *names, const struct record *recorded,
                       const struct record *found, struct error *difference);
