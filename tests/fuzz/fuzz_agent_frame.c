/* SPDX-License-Identifier: Apache-2.0
 * What an agent's supervisor, and a supervisor's agents, take from a remote shell: a frame that is
 * taken can be used as it is. The first byte says which side reads.
 */
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "base/limits.h"
#include "host/process/agent/agent_frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use_launch(const struct agent_frame *frame) {
    struct agent_launch launch;
    struct bytes tail = frame->tail;
    memcpy(&launch, frame->body, sizeof launch);
    check(launch.count > 0 && launch.first + launch.count <= launch.total);
    for (uint32_t i = 0; i < launch.arguments; i++)
        check(strlen(agent_frame_next_word(&tail)) <= frame->tail.count);
    for (uint32_t i = 0; i < launch.settings; i++)
        check(strchr(agent_frame_next_word(&tail), '='));
    check(tail.count == 0);
}

static void use(const struct agent_frame *frame) {
    struct agent_facts facts;
    struct agent_signs signs;
    if (frame->kind == AGENT_LAUNCH) use_launch(frame);
    if (frame->kind == AGENT_FACTS) {
        memcpy(&facts, frame->body, sizeof facts);
        check(strlen(facts.lacks) < sizeof facts.lacks && strlen(facts.room) < sizeof facts.room);
    }
    if (frame->kind == AGENT_SIGNS) {
        memcpy(&signs, frame->body, sizeof signs);
        check(frame->tail.count == signs.count * sizeof(struct agent_sign));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct agent_frame frame;
    if (!size) return 0;
    struct bytes rest = {(const char *)data + 1, size - 1};
    while (agent_frame_read(rest, data[0] & 1, &frame) == AGENT_GOT_FRAME) {
        check(frame.bytes <= rest.count);
        use(&frame);
        rest = (struct bytes){rest.data + frame.bytes, rest.count - frame.bytes};
    }
    return 0;
}
