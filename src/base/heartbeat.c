/* SPDX-License-Identifier: Apache-2.0 */
#include "base/heartbeat.h"

static struct heartbeat unwatched;
struct heartbeat *heartbeat_memory = &unwatched;
