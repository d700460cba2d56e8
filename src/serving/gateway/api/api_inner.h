/* SPDX-License-Identifier: Apache-2.0
 * The table of the members of nested objects in a body, with one row for each place. It complements
 * api_field.h, which has the top-level fields. A member without a row is reported to the client
 * with its path, unless the chat template gets its object unchanged and uses the member.
 */
#pragma once

#include "serving/gateway/api/api_reader.h"

/* Receives a member: the path of its object ("messages[2]") and its name. False: it takes no
 * more. */
typedef bool api_inner_sink(void *context, const char *place, struct bytes name);

/* Sends each place and name without a row to the sink once, for its first occurrence. */
void api_inner_find_unknown(const struct api_reader *reader, api_inner_sink *sink, void *context);
