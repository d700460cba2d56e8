/* SPDX-License-Identifier: Apache-2.0 */
#include "base/pulse.h"

static struct pulse unwatched;
struct pulse *pulse_memory = &unwatched;
