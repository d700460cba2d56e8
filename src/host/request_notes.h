/* SPDX-License-Identifier: Apache-2.0
 * What a unit's log says of single requests, read off the records that pass between it and gateways: that
 * one has come, and how it ended. A gateway's log says of each what came of it, so these lines are of
 * the level debug; that a request failed here is a warning. Each has the name that its client gave the
 * request, kept here until its end.
 */
#pragma once

#include "contract/record_unit.h"
#include "host/wire/request_set.h"

struct request_notes {         /* zeros: no request is here */
    struct request_set places; /* of requests with a name: owner: its place in `names` */
    char **names;              /* [name_count]; of a free place NULL */
    uint32_t name_count;
    uint32_t *free; /* [free_count] places, with room for all */
    uint32_t free_count;
};

/* The unit is asked to do something for a request. */
void request_notes_come(struct request_notes *notes, const struct record_submit *submit);

void request_notes_end(struct request_notes *notes, const struct record_finished *finished);

void request_notes_close(struct request_notes *notes);
