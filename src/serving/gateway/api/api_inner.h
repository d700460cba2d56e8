/* SPDX-License-Identifier: Apache-2.0
 * The table of the members that the objects inside a body can have: one row for each place, as
 * api_field.h has the fields at its top. A member without a row is told to the client with its path;
 * but one that the model's chat template uses is the template's, where that gets it as it stands.
 */
#ifndef SERVING_GATEWAY_API_API_INNER_H
#define SERVING_GATEWAY_API_API_INNER_H

#include "serving/gateway/api/api_reader.h"

/* Takes one: the place of its object ("messages[2]"), and its name. False: it takes no more. */
typedef bool api_inner_sink(void *context, const char *place, struct bytes name);

/* Gives the first member without a row, of each place and name, to the sink. */
void api_inner_find_unknown(const struct api_reader *reader, api_inner_sink *sink, void *context);

#endif
