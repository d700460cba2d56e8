/* SPDX-License-Identifier: Apache-2.0 */
#include "host/request_notes.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "host/process/log/log.h"
#include "host/process/log/log_request.h"

#define SUBJECT "request"

/* ---- names ---- */

static uint32_t request_notes_find_place(struct request_notes *notes) {
    if (notes->free_count) return notes->free[--notes->free_count];
    uint32_t place = notes->name_count++;
    notes->names = realloc(notes->names, notes->name_count * sizeof *notes->names);
    notes->free = realloc(notes->free, notes->name_count * sizeof *notes->free);
    check(notes->names && notes->free);
    return place;
}

static void keep_name(struct request_notes *notes, struct request_id request, const char *name,
                      size_t bytes) {
    if (request_set_owner(&notes->places, request) != REQUEST_SET_NOBODY) return;
    char *copy = strndup(name, bytes);
    check(copy);
    uint32_t place = request_notes_find_place(notes);
    notes->names[place] = copy;
    request_set_add(&notes->places, request, place);
}

/* Removes the name of a request. The caller frees it; NULL: it has none. */
static char *request_notes_take_name(struct request_notes *notes, struct request_id request) {
    uint32_t place = request_set_remove(&notes->places, request);
    if (place == REQUEST_SET_NOBODY) return NULL;
    char *name = notes->names[place];
    notes->names[place] = NULL;
    notes->free[notes->free_count++] = place;
    return name;
}

void request_notes_close(struct request_notes *notes) {
    for (uint32_t i = 0; i < notes->name_count; i++)
        free(notes->names[i]);
    free(notes->names);
    free(notes->free);
    request_set_close(&notes->places);
}

/* ---- lines ---- */

void request_notes_come(struct request_notes *notes, const struct record_submit *submit) {
    static const char *const tasks[SUBMIT_TASK_COUNT] = {"answer", "prefill", "reserve"};
    char text[LOG_REQUEST_BYTES];
    const char *name = submit_name(submit);
    int bytes = log_request_given(submit->request, (struct bytes){name, submit->name_bytes});
    if (bytes) keep_name(notes, submit->request, name, (size_t)bytes);
    log_say(LOG_DEBUG, SUBJECT,
            "has come request=%s x_request_id=%.*s task=%s prompt=%u resumed=%u",
            log_request_name(submit->request, text), bytes, name, tasks[submit->task],
            submit->prompt_count, submit->resumed_count);
}

void request_notes_end(struct request_notes *notes, const struct record_finished *finished) {
    char text[LOG_REQUEST_BYTES];
    char *name = request_notes_take_name(notes, finished->request);
    log_request_name(finished->request, text);
    if (finished->reason == FINISH_FAILED)
        log_say(LOG_WARNING, SUBJECT,
                "has failed here request=%s x_request_id=%s output=%u rank=%u", text, name,
                finished->output_tokens, finished->work.rank);
    else
        log_say(LOG_DEBUG, SUBJECT,
                "has ended here request=%s x_request_id=%s end=%s output=%u rank=%u", text, name,
                record_unit_finish_reason_name(finished->reason), finished->output_tokens,
                finished->work.rank);
    free(name);
}
