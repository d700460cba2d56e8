/* SPDX-License-Identifier: Apache-2.0
 * Reading a body by the table of fields (api_field.h): what its rows read goes into the inner
 * request, what they refuse is refused, and names without a row are gathered in the warning.
 */
#ifndef SERVING_GATEWAY_API_API_BODY_H
#define SERVING_GATEWAY_API_API_BODY_H

#include "serving/gateway/api/api_reader.h"
#include "serving/gateway/api/api_request.h"

/* In the table's order. The fields that the dialect reads itself are left alone. */
bool api_body_read(struct api_reader *reader, struct api_request *out);

/* Adds "place what" to the warning, if that has room for it. Both are visible ASCII. */
bool api_body_warn(struct api_reader *reader, struct api_request *out, const char *place,
                   const char *what);

#endif
