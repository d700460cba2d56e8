/* SPDX-License-Identifier: Apache-2.0
 * Reads a body by the table of fields (api_field.h). Stores fields in the inner request, refuses
 * unsupported ones, and lists unknown ones in the warning.
 */
#pragma once

#include "serving/gateway/api/api_reader.h"
#include "serving/gateway/api/api_request.h"

/* Reads in the table's order. Skips the fields that the dialect reads itself. */
bool api_body_read(struct api_reader *reader, struct api_request *out);

/* Appends "place what" to the warning if it has space. Both are visible ASCII. False: no memory. */
bool api_body_warn(struct api_reader *reader, struct api_request *out, const char *place,
                   const char *what);
