/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/fleet_ledger.h"

#include "base/check.h"
#include "base/format.h"
#include "simulate/fleet_engine.h"

#define STREAM 5    /* of chance */
#define LOST_OF 8   /* of so many writings its process is lost behind one */
#define HICCUP_OF 4 /* in one of so many lives a writing may take very long */
#define OFF_NS_MAX (2 * FLEET_SECOND)

size_t fleet_ledger_bytes(void) {
    return FLEET_CLIENTS_MAX * sizeof(struct fleet_line) + 64;
}

bool fleet_ledger_open(struct fleet_ledger *ledger, struct arena *arena, uint64_t seed,
                       bool faults) {
    *ledger = (struct fleet_ledger){
        .faults = faults, .dice = {.seed = seed, .stream = STREAM}, .done_ns = MACHINE_NEVER};
    ledger->lines = arena_take_zeroed(arena, FLEET_CLIENTS_MAX * sizeof *ledger->lines);
    ledger->kept = fleet_dice_below(&ledger->dice, 3) > 0;
    bool hiccups = fleet_dice_below(&ledger->dice, HICCUP_OF) == 0;
    ledger->write_ns_max = hiccups ? 3 * FLEET_SECOND : 20 * FLEET_MS;
    return ledger->lines != NULL;
}

static void breach(struct fleet_ledger *ledger, uint64_t client, const char *text) {
    if (ledger->breach[0]) return;
    format_text(ledger->breach, sizeof ledger->breach, "client %llu: %s",
                (unsigned long long)client, text);
}

/* ---- writing ---- */

/* All that has been said goes in one writing. */
static void begin(struct fleet_ledger *ledger, int64_t now_ns) {
    if (ledger->done_ns != MACHINE_NEVER || ledger->said == ledger->written) return;
    ledger->writing = ledger->said;
    ledger->done_ns = now_ns + fleet_dice_time(&ledger->dice, FLEET_MS / 10, ledger->write_ns_max);
}

void fleet_ledger_hear(struct fleet_ledger *ledger, const struct record_entry *entry,
                       int64_t now_ns) {
    uint64_t client = entry->request.low / 64;
    check(client < FLEET_CLIENTS_MAX);
    struct fleet_line *line = &ledger->lines[client];
    if (line->said) breach(ledger, client, "has two entries");
    if (entry->sequence != ledger->said + 1) breach(ledger, client, "its entry is not the next");
    *line = (struct fleet_line){
        .said = true,
        .is_charged = entry->is_charged,
        .life = ledger->life,
        .sequence = entry->sequence,
        .hit_tokens = entry->hit_tokens,
        .miss_tokens = entry->miss_tokens,
        .output_tokens = entry->output_tokens,
        .made_tokens = entry->made_tokens,
        .computed_tokens = entry->computed_tokens + entry->recomputed_tokens,
    };
    ledger->said = entry->sequence;
    ledger->entries++;
    begin(ledger, now_ns);
}

/* Those that are there already stay as they are. */
static void write_lines(struct fleet_ledger *ledger) {
    for (uint32_t i = 0; i < FLEET_CLIENTS_MAX; i++) {
        struct fleet_line *line = &ledger->lines[i];
        if (!line->said || line->life != ledger->life || line->sequence > ledger->writing ||
            line->sequence <= ledger->written)
            continue;
        ledger->again += line->written;
        line->written = true;
    }
}

bool fleet_ledger_run(struct fleet_ledger *ledger, int64_t now_ns,
                      struct record_settled *settled_out) {
    if (ledger->done_ns > now_ns) return false;
    write_lines(ledger);
    if (ledger->faults && fleet_dice_below(&ledger->dice, LOST_OF) == 0) {
        ledger->losses++;
        ledger->writing = ledger->said;
        ledger->done_ns = now_ns + fleet_dice_time(&ledger->dice, FLEET_MS, OFF_NS_MAX);
        return false;
    }
    ledger->written = ledger->writing;
    ledger->done_ns = MACHINE_NEVER;
    *settled_out =
        (struct record_settled){record_head(RECORD_SETTLED, sizeof *settled_out), ledger->written};
    begin(ledger, now_ns);
    return true;
}

/* What it was writing may be there or not. */
void fleet_ledger_forget(struct fleet_ledger *ledger) {
    if (ledger->done_ns != MACHINE_NEVER && fleet_dice_below(&ledger->dice, 2)) write_lines(ledger);
    ledger->said = ledger->writing = ledger->written = 0;
    ledger->done_ns = MACHINE_NEVER;
    ledger->life++;
}

/* ---- what must hold ---- */

static bool is_whole(const struct fleet_client *client) {
    for (uint32_t i = 0; i < client->choice_count; i++)
        if (!client->choices[i].finished) return false;
    return !client->refused;
}

void fleet_ledger_check(struct fleet_ledger *ledger, const struct fleet_client *client) {
    const struct fleet_line *line = &ledger->lines[client->number];
    if (client->ended && !line->said) breach(ledger, client->number, "ended without an entry");
    if (!is_whole(client) || !(ledger->kept || client->ended)) return;
    if (ledger->kept && !line->written)
        breach(ledger, client->number, "saw an end that is not written down");
    if (!line->is_charged) breach(ledger, client->number, "is not charged for its answer");
    if (!client->told_usage || client->cut) return;
    if (line->hit_tokens != client->told_hits || line->output_tokens != client->told_output ||
        line->hit_tokens + line->miss_tokens != client->told_prompt)
        breach(ledger, client->number, "its entry differs from its usage");
}

void fleet_ledger_judge(struct fleet_ledger *ledger, const struct fleet_clients *clients) {
    /* Who has left may have had its request still at units when the gateway died. */
    bool one_life = ledger->life == 0;
    for (uint32_t i = 0; i < clients->count; i++) {
        const struct fleet_line *line = &ledger->lines[i];
        const struct fleet_client *client = &clients->clients[i];
        if (!line->said && (one_life || !client->gone)) breach(ledger, i, "has no entry");
        if (client->ended && line->is_charged == client->refused)
            breach(ledger, i, "is charged for nothing, or not for an answer");
    }
}

struct unit_books fleet_ledger_books(const struct fleet_ledger *ledger) {
    struct unit_books sum = {0};
    for (uint32_t i = 0; i < FLEET_CLIENTS_MAX; i++) {
        sum.made_tokens += ledger->lines[i].made_tokens;
        sum.computed_tokens += ledger->lines[i].computed_tokens;
    }
    return sum;
}
