/* SPDX-License-Identifier: Apache-2.0
 * A unit's log lines about single requests: one when a request arrives, and one with its outcome.
 * They are derived from the records between the unit and its gateways. Their level is debug,
 * because the gateway logs every outcome, too; a request that failed here is a warning. Each line
 * has the name that the client gave the request; it is stored here until the request ends.
 */
#pragma once

#include "contract/record_unit.h"
#include "host/wire/request_set.h"

struct request_notes {         /* zeros: no requests */
    struct request_set places; /* requests with a name; owner: the index in `names` */
    char **names;              /* [name_count]; NULL: a free place */
    uint32_t name_count;
    uint32_t *free; /* [free_count] free places, with room for all */
    uint32_t free_count;
};

/* A record for a request has arrived from a gateway. */
void request_notes_come(struct request_notes *notes, const struct record_submit *submit);

void request_notes_end(struct request_notes *notes, const struct record_finished *finished);

void request_notes_close(struct request_notes *notes);
