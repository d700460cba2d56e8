/* SPDX-License-Identifier: Apache-2.0
 * The table of members of nested objects in a body: one row for each place, as api_field.h has the
 * fields at the top. A member without a row is reported to the client with its path. Exception: a
 * member of an object that the chat template gets unchanged, if the template uses it.
 */
#pragma once

#include "serving/gateway/api/api_reader.h"

/* Takes one member: the path of its object ("messages[2]") and its name. False: it takes no
 * more. */
typedef bool api_inner_sink(void *context, const char *place, struct bytes name);

/* Sends the first member without a row, for each place and name, to the sink. */
void api_inner_find_unknown(const struct api_reader *reader, api_inner_sink *sink, void *context);
