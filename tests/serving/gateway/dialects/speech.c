/* SPDX-License-Identifier: Apache-2.0 */
#include "speech.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"

enum { CONTEXT = 1 << 18 };

static uint32_t said;    /* tokens told so far, of the request at hand */
static uint32_t speaker; /* the unit */

static void join_speaker(struct world *world) {
    world_join(world, ++speaker);
    struct record_unit_hello *hello =
        make(RECORD_UNIT_HELLO, &(struct record_unit_hello){.rank_count = 1});
    hello->vocab_count = VOCAB;
    hello->context_tokens_max = CONTEXT;
    hello->page_count = CONTEXT / KV_BLOCK_TOKENS;
    hello->page_tokens = KV_BLOCK_TOKENS;
    hello->requests_max = 40;
    *hello_ranks(hello) =
        (struct unit_rank){.pid = 7, .page_count = CONTEXT / KV_BLOCK_TOKENS, .requests_max = 40};
    strcpy(hello->numerics_id, "test.v1");
    report(world, speaker, hello);
}

struct world *speech_open(struct gateway_options gateway) {
    said = speaker = 0;
    struct world *world = world_open(&(struct world_options){.no_unit = true, .gateway = gateway});
    join_speaker(world);
    return world;
}

void speech_move(struct world *world) {
    join_speaker(world);
    lose(world, speaker - 1);
    assert_int_equal(world->last_unit.value, speaker);
    assert_int_equal(world->last_submit->resumed_count, said);
}

uint32_t speech_ask(struct world *world, const char *path, const char *body) {
    uint32_t client = world_post(world, path, body);
    world_settle(world);
    return client;
}

void speech_say(struct world *world, const char *text, bool at_once) {
    static uint32_t ids_of_text[4096];
    uint32_t count = world_encode(world, bytes_of(text), plain_text_nowhere, ids_of_text,
                                  ARRAY_COUNT(ids_of_text));
    uint32_t more = at_once ? count : 1;
    for (uint32_t i = 0; i < count; i += more) {
        struct record_tokens *record =
            make(RECORD_TOKENS, &(struct record_tokens){.token_count = more, .work_count = 1});
        record->request = world->last_submit->request;
        record->first_output_position = said;
        tokens_work(record)->prompt_miss_tokens = world->last_submit->prompt_count;
        memcpy(tokens_chosen(record), &ids_of_text[i], more * sizeof *ids_of_text);
        said += more;
        report(world, speaker, record);
    }
}

void speech_end(struct world *world, enum finish_reason reason) {
    struct record_finished *record = make_finished(world->last_submit->request, reason, said);
    record->work.prompt_miss_tokens = world->last_submit->prompt_count;
    report(world, speaker, record);
    said = 0;
}
