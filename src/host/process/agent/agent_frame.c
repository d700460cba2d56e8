/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/agent/agent_frame.h"

#include "base/check.h"
#include "base/heartbeat.h"
#include "base/limits.h"
#include "contract/record_unit.h"

#include <string.h>

static const struct kind_row {
    size_t body;
    bool from_agent, has_tail;
} kinds[AGENT_KINDS] = {
    [AGENT_CHECK] = {sizeof(struct agent_check), false, false},
    [AGENT_LAUNCH] = {sizeof(struct agent_launch), false, true},
    [AGENT_REPORT] = {0, false, true},
    [AGENT_SIGNAL] = {sizeof(struct agent_signal), false, false},
    [AGENT_PING] = {0, false, false},
    [AGENT_FACTS] = {sizeof(struct agent_facts), true, false},
    [AGENT_JOIN] = {0, true, true},
    [AGENT_SIGNS] = {sizeof(struct agent_signs), true, true},
    [AGENT_ENDED] = {sizeof(struct agent_ended), true, false},
    [AGENT_PONG] = {0, true, false},
    [AGENT_FILE] = {sizeof(struct agent_file), false, true},
    [AGENT_AGAIN] = {sizeof(struct agent_again), false, false},
    [AGENT_REACH] = {sizeof(struct agent_place), false, false},
    [AGENT_REACHED] = {sizeof(struct agent_reached), true, false},
};

struct agent_head agent_frame_head(enum agent_kind kind, size_t bytes) {
    check(bytes <= AGENT_FRAME_BYTES_MAX);
    return (struct agent_head){AGENT_MAGIC, kind, (uint32_t)bytes, 0};
}

size_t agent_frame_body_bytes(enum agent_kind kind) {
    check(kind < AGENT_KINDS);
    return kinds[kind].body;
}

/* True if the text is terminated and printable in a log line. */
static bool is_text(const char *text, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        if (!text[i]) return true;
        if ((unsigned char)text[i] < ' ' || text[i] == 127) return false;
    }
    return false;
}

#define IS_TEXT(array) is_text((array), sizeof(array))

static bool is_part(uint32_t first, uint32_t count, uint32_t total) {
    return total <= LIMIT_RANKS && count > 0 && first < total && count <= total - first;
}

static bool check_is_right(const void *body) {
    struct agent_check it;
    memcpy(&it, body, sizeof it);
    return it.timeout_ns >= 0 && is_part(0, it.count, it.total) && it.redundant <= LIMIT_EXPERTS &&
           IS_TEXT(it.unit) && !strchr(it.unit, '/') && IS_TEXT(it.interface) &&
           !strchr(it.interface, '/') && IS_TEXT(it.model) && IS_TEXT(it.folder);
}

static bool facts_are_right(const void *body) {
    struct agent_facts it;
    memcpy(&it, body, sizeof it);
    return IS_TEXT(it.version) && IS_TEXT(it.build) && IS_TEXT(it.lacks) && IS_TEXT(it.host) &&
           IS_TEXT(it.address) && IS_TEXT(it.room) && it.port <= UINT16_MAX &&
           it.reach_port <= UINT16_MAX;
}

static bool place_is_right(const void *body) {
    struct agent_place it;
    memcpy(&it, body, sizeof it);
    return IS_TEXT(it.address) && it.port <= UINT16_MAX;
}

static bool file_is_right(const void *body) {
    struct agent_file it;
    memcpy(&it, body, sizeof it);
    return IS_TEXT(it.name) && it.name[0] && it.name[0] != '.' && !strchr(it.name, '/');
}

static bool launch_is_right(const void *body, struct bytes tail) {
    struct agent_launch it;
    memcpy(&it, body, sizeof it);
    if (!is_part(it.first, it.count, it.total) || !it.arguments || !IS_TEXT(it.host) ||
        it.sharing < it.count || it.before > it.sharing - it.count)
        return false;
    if (it.arguments > AGENT_WORDS_MAX || it.settings > AGENT_WORDS_MAX) return false;
    uint32_t words = 0, named = 0;
    while (tail.count) {
        if (!memchr(tail.data, 0, tail.count)) return false;
        const char *word = agent_frame_next_word(&tail), *equals = strchr(word, '=');
        if (words++ >= it.arguments) named += equals && equals != word;
    }
    return words == it.arguments + it.settings && named == it.settings;
}

static bool signs_are_right(const void *body, struct bytes tail) {
    struct agent_signs it;
    memcpy(&it, body, sizeof it);
    if (it.count > LIMIT_RANKS || tail.count != it.count * sizeof(struct agent_sign)) return false;
    for (uint32_t i = 0; i < it.count; i++) {
        struct agent_sign sign;
        memcpy(&sign, tail.data + i * sizeof sign, sizeof sign);
        if (sign.state >= HEARTBEAT_STATE_COUNT || sign.role > UNIT_ROLE_COUNT) return false;
        if (sign.pid < 0 || sign.cpu_ns < 0) return false;
    }
    return true;
}

static bool agent_frame_is_right(const struct agent_frame *frame) {
    struct agent_signal signal;
    struct agent_ended ended;
    struct agent_again again;
    struct agent_reached reached;
    switch (frame->kind) {
    case AGENT_CHECK:
        return check_is_right(frame->body);
    case AGENT_FACTS:
        return facts_are_right(frame->body);
    case AGENT_REACH:
        return place_is_right(frame->body);
    case AGENT_REACHED:
        memcpy(&reached, frame->body, sizeof reached);
        return reached.error >= 0;
    case AGENT_FILE:
        return file_is_right(frame->body);
    case AGENT_LAUNCH:
        return launch_is_right(frame->body, frame->tail);
    case AGENT_SIGNS:
        return signs_are_right(frame->body, frame->tail);
    case AGENT_SIGNAL:
        memcpy(&signal, frame->body, sizeof signal);
        return (signal.rank < LIMIT_RANKS || signal.rank == AGENT_ALL_RANKS) && signal.number > 0 &&
               signal.number < 65;
    case AGENT_JOIN:
        return frame->tail.count > 0;
    case AGENT_ENDED:
        memcpy(&ended, frame->body, sizeof ended);
        return ended.rank < LIMIT_RANKS;
    case AGENT_AGAIN:
        memcpy(&again, frame->body, sizeof again);
        return again.rank < LIMIT_RANKS;
    default:
        return true;
    }
}

enum agent_got agent_frame_read(struct bytes got, bool from_agent, struct agent_frame *frame_out) {
    struct agent_head head;
    size_t known = got.count < sizeof head ? got.count : sizeof head;
    memset(&head, 0, sizeof head);
    if (known) memcpy(&head, got.data, known);
    const uint32_t magic = AGENT_MAGIC; /* invalid data is detected at its first bytes */
    if (memcmp(&head, &magic, known < sizeof magic ? known : sizeof magic) != 0)
        return AGENT_GOT_NONSENSE;
    if (known < sizeof head) return AGENT_GOT_TOO_LITTLE;
    if (!head.kind || head.kind >= AGENT_KINDS || head.reserved) return AGENT_GOT_NONSENSE;
    const struct kind_row *row = &kinds[head.kind];
    if (row->from_agent != from_agent || head.bytes > AGENT_FRAME_BYTES_MAX ||
        head.bytes < row->body || (!row->has_tail && head.bytes != row->body))
        return AGENT_GOT_NONSENSE;
    if (got.count - sizeof head < head.bytes) return AGENT_GOT_TOO_LITTLE;
    const char *body = got.data + sizeof head;
    struct agent_frame frame = {.kind = (enum agent_kind)head.kind,
                                .bytes = sizeof head + head.bytes,
                                .body = body,
                                .tail = {body + row->body, head.bytes - row->body}};
    if (!agent_frame_is_right(&frame)) return AGENT_GOT_NONSENSE;
    *frame_out = frame;
    return AGENT_GOT_FRAME;
}

const char *agent_frame_next_word(struct bytes *tail) {
    const char *word = tail->data;
    size_t bytes = strlen(word) + 1;
    *tail = (struct bytes){tail->data + bytes, tail->count - bytes};
    return word;
}
