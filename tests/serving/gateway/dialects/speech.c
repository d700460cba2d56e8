/* SPDX-License-Identifier: Apache-2.0 */
#include "speech.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"

enum { CONTEXT = 1 << 18 };

uint32_t speech_said;
static uint32_t speaker; /* the last unit that came */

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
    speech_said = speaker = 0;
    struct world *world = world_open(&(struct world_options){.no_unit = true, .gateway = gateway});
    join_speaker(world);
    return world;
}

void speech_move(struct world *world) {
    join_speaker(world);
    lose(world, speaker - 1);
    assert_int_equal(world->last_unit.value, speaker);
    assert_int_equal(world->last_submit->resumed_count, speech_said);
}

struct world *speech_open_small(struct gateway_options gateway) {
    struct world *world = world_open(&(struct world_options){.no_unit = true, .gateway = gateway});
    speech_said = 0;
    join(world, 1);
    return world;
}

uint32_t speech_ask(struct world *world, const char *path, const char *body) {
    uint32_t client = world_post(world, path, body);
    world_settle(world);
    return client;
}

uint32_t speech_encode(const struct world *world, const char *text, uint32_t *ids_out) {
    return world_encode(world, bytes_of(text), plain_text_nowhere, ids_out, SPEECH_IDS_MAX);
}

void speech_say_ids(struct world *world, const uint32_t *said_ids, uint32_t count) {
    struct record_tokens *record =
        make(RECORD_TOKENS, &(struct record_tokens){.token_count = count, .work_count = 1});
    record->request = world->last_submit->request;
    record->first_output_position = speech_said;
    tokens_work(record)->prompt_miss_tokens = world->last_submit->prompt_count;
    memcpy(tokens_chosen(record), said_ids, count * sizeof *said_ids);
    speech_said += count;
    report(world, world->last_unit.value, record);
}

void speech_say(struct world *world, const char *text, bool at_once) {
    static uint32_t ids_of_text[SPEECH_IDS_MAX];
    uint32_t count = speech_encode(world, text, ids_of_text), more = at_once ? count : 1;
    for (uint32_t i = 0; i < count; i += more)
        speech_say_ids(world, &ids_of_text[i], more);
}

void speech_end(struct world *world, enum finish_reason reason) {
    struct record_finished *record =
        make_finished(world->last_submit->request, reason, speech_said);
    record->work.prompt_miss_tokens = world->last_submit->prompt_count;
    record->work.drafts_made = speech_said / 2;
    record->work.drafts_right = speech_said / 2 ? speech_said / 2 - 1 : 0;
    speech_said = 0;
    report(world, world->last_unit.value, record);
}
