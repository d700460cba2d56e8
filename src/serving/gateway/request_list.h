/* SPDX-License-Identifier: Apache-2.0
 * Lists of requests through their own links (struct request_life): a request stands in one at most.
 * For serving/gateway/request.c and request_lines.c alone.
 */
#ifndef SERVING_GATEWAY_REQUEST_LIST_H
#define SERVING_GATEWAY_REQUEST_LIST_H

#include "serving/gateway/request.h"

/* Behind all others, or in front of them. */
void request_list_add(struct request_list *list, struct request *request, bool in_front);

void request_list_take_out(struct request_list *list, struct request *request);

/* Into the order of arrival, if it is not. */
void request_list_sort(struct request_list *list);

#endif
