/* SPDX-License-Identifier: Apache-2.0
 * Protects what a unit's log says of single requests: each line has the name that the client gave
 * the request, to its end, and only a failure is graver than debug.
 */
#include "host/request_notes.h"

#include "base/check.h"
#include "contract/machine.h"

#include "heard.h"
#include "test_case.h"

static struct request_notes notes;

static int begin(void **state) {
    (void)state;
    notes = (struct request_notes){0};
    received_begin("debug");
    return 0;
}

static int end(void **state) {
    (void)state;
    request_notes_close(&notes);
    received_end();
    return 0;
}

static void come(uint64_t low, const char *name) {
    _Alignas(8) char memory[1024];
    struct outbox box = {.memory = memory, .capacity = sizeof memory};
    struct record_submit fixed = {.prompt_count = 2, .name_bytes = (uint32_t)strlen(name)};
    struct record_submit *record = machine_outbox_put(&box, RECORD_SUBMIT, &fixed);
    check(record);
    record->request = (struct request_id){.low = low};
    memcpy(submit_name(record), name, fixed.name_bytes);
    request_notes_come(&notes, record);
}

static void go(uint64_t low, enum finish_reason reason) {
    struct record_finished record = {.record = record_head(RECORD_FINISHED, sizeof record),
                                     .request = {.low = low},
                                     .reason = reason,
                                     .output_tokens = 9};
    request_notes_end(&notes, &record);
}

#define ONE "request=00000000000000000000000000000001"
#define TWO "request=00000000000000000000000000000002"

TEST_AROUND(a_request_has_its_clients_name_from_its_coming_to_its_end, begin, end) {
    come(1, "order-17");
    assert_string_equal(received_news(), "debug request  has come " ONE
                                         " x_request_id=order-17 task=answer prompt=2 resumed=0\n");
    come(2, "order-18");
    received_news();
    go(1, FINISH_STOP_TOKEN);
    assert_string_equal(received_news(), "debug request  has ended here " ONE
                                         " x_request_id=order-17 end=stop_token output=9 rank=0\n");
    go(2, FINISH_FAILED);
    assert_string_equal(received_news(), "warning request  has failed here " TWO
                                         " x_request_id=order-18 output=9 rank=0\n");
}

TEST_AROUND(a_request_that_its_client_did_not_name_has_one_name, begin, end) {
    come(1, "00000000000000000000000000000001");
    assert_null(strstr(received_news(), "x_request_id"));
    go(1, FINISH_LENGTH);
    assert_null(strstr(received_news(), "x_request_id"));
    come(1, "");
    assert_null(strstr(received_news(), "x_request_id"));
}

TEST_AROUND(names_of_requests_that_have_ended_are_not_kept, begin, end) {
    for (uint64_t i = 1; i <= 1000; i++) {
        come(i, "mine");
        go(i, FINISH_CANCELLED);
    }
    assert_int_equal(notes.name_count, 1);
    go(1, FINISH_FAILED); /* again: it is called by what is known */
    come(5, "mine");      /* and one is left when the process ends */
}
