/* SPDX-License-Identifier: Apache-2.0
 * Doubly linked lists of requests. The links are in struct request_life, so a request is in one
 * list at most. Only for serving/gateway/request.c and request_lines.c.
 */
#pragma once

#include "serving/gateway/request.h"

void request_list_add(struct request_list *list, struct request *request, bool in_front);

void request_list_take_out(struct request_list *list, struct request *request);

/* Sorts by arrival if list->unsorted is set. */
void request_list_sort(struct request_list *list);
