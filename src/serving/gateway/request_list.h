/* SPDX-License-Identifier: Apache-2.0
 * Lists of requests that use the links in struct request_life: a request is in at most one. Only
 * for serving/gateway/request.c and request_lines.c.
 */
#pragma once

#include "serving/gateway/request.h"

/* Adds at the end, or at the front. */
void request_list_add(struct request_list *list, struct request *request, bool in_front);

void request_list_take_out(struct request_list *list, struct request *request);

/* Sorts by arrival, if needed. */
void request_list_sort(struct request_list *list);
