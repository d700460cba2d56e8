/* SPDX-License-Identifier: Apache-2.0 */
#include "host/transfer/kv_asked.h"

#include <stdlib.h>

#include "base/check.h"

/* Makes the negative answer to a request. Returns false if the record gets no answer itself. */
static bool refuse(const struct record *record, union kv_answer *answer_out) {
    const struct record_kv_push *push = (const void *)record;
    const struct record_kv_load *load = (const void *)record;
    const struct record_kv_put *keep = (const void *)record;
    union kv_answer *answer = answer_out;
    *answer = (union kv_answer){.kept = {.last_page = 0}};
    switch ((enum record_kind)record->kind) {
    case RECORD_KV_EXPECT:
        record_set_head(answer, RECORD_KV_DONE);
        break;
    case RECORD_KV_PUSH:
        record_set_head(answer, RECORD_KV_DONE);
        if (!push->first) return false;
        break;
    case RECORD_KV_FIND:
        record_set_head(answer, RECORD_KV_FOUND);
        break;
    case RECORD_KV_LOAD:
        record_set_head(answer, RECORD_KV_LOADED);
        if (load->in_step) return false; /* STEP_DONE will report it, or a PARK follows */
        break;
    case RECORD_KV_PARK:
        record_set_head(answer, RECORD_KV_LOADED);
        break;
    case RECORD_KV_PUT:
        record_set_head(answer, RECORD_KV_STORED);
        answer->kept.last_page = keep->last_page;
        answer->kept.dropped = keep->block_count;
        answer->kept.writable = 1;
        break;
    default:
        return false;
    }
    struct record_kv *head = (void *)answer;
    head->request = record_request(record);
    head->rank = record_kv_rank(record);
    return true;
}

void kv_asked_note(struct kv_asked *asked, const struct record *record) {
    union kv_answer answer;
    if (!refuse(record, &answer)) return;
    if (asked->count == asked->capacity) {
        asked->capacity = asked->capacity ? 2 * asked->capacity : 16;
        asked->answers = realloc(asked->answers, asked->capacity * sizeof *asked->answers);
        check(asked->answers); /* limited by the unit's requests and pages */
    }
    asked->answers[asked->count++] = answer;
}

static bool kv_asked_is_same(const union kv_answer *open, const struct record *answer) {
    const struct record_kv_stored *kept = (const void *)answer;
    if (open->record.kind != answer->kind) return false;
    if (answer->kind == RECORD_KV_STORED) return open->kept.last_page == kept->last_page;
    return request_id_equal(record_request(&open->record), record_request(answer));
}

void kv_asked_end(struct kv_asked *asked, const struct record *answer) {
    for (uint32_t i = 0; i < asked->count; i++) {
        if (!kv_asked_is_same(&asked->answers[i], answer)) continue;
        asked->answers[i] = asked->answers[--asked->count];
        return;
    }
}

bool kv_asked_deny(struct kv_asked *asked, union kv_answer *answer_out) {
    if (asked->count == 0) return false;
    *answer_out = asked->answers[--asked->count];
    return true;
}

void kv_asked_free(struct kv_asked *asked) {
    free(asked->answers);
    *asked = (struct kv_asked){.count = 0};
}
