/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/clients/fleet_ledger.h"

#include "base/check.h"
#include "base/format.h"
#include "simulate/engine/fleet_engine.h"

#define STREAM 5       /* random stream */
#define STREAM_HOURS 8 /* random stream of the calendar */
#define LOST_OF 8      /* after 1 in LOST_OF writes, the process dies */
#define HICCUP_OF 4    /* in 1 in HICCUP_OF runs, writes may take very long */
#define OFF_NS_MAX (2 * FLEET_SECOND)

#define HOUR_S 3600
/* A run begins in the middle of a day, ten seconds before a full hour. */
#define LIFE_BEGINS_S ((int64_t)1764000000 - 1764000000 % 86400 + 12 * HOUR_S - 10)
#define PICOS_OF_MILLION 1e6 /* factor from a price per million tokens to picos per token */

/* ---- prices ---- */

/* A token costs as much here as a million tokens in the calendar. */
static const struct token_prices peak = {.input_hit = 0.0005, .input_miss = 0.01, .output = 0.02},
                                 off_peak = {
                                     .input_hit = 0.0002, .input_miss = 0.003, .output = 0.007};

/* Draws a calendar in which off-peak periods of seconds begin and end within the run. */
static void draw_prices(struct fleet_ledger *ledger, uint64_t seed) {
    struct fleet_dice dice = {.seed = seed, .stream = STREAM_HOURS};
    double hour = (double)(LIFE_BEGINS_S % 86400) / HOUR_S;
    ledger->prices = (struct prices){.currency = "USD", .calendar = {.tokens = peak}};
    if (fleet_dice_below(&dice, 4) == 0) return;
    ledger->prices.calendar.period_count = 2;
    for (uint32_t i = 0; i < 2; i++) {
        double from_s = 11 * i + fleet_dice_below(&dice, 8);
        ledger->prices.calendar.periods[i] = (struct prices_period){
            .from_hour = hour + from_s / HOUR_S,
            .to_hour = hour + (from_s + 1 + fleet_dice_below(&dice, 4)) / HOUR_S,
            .tokens = off_peak};
    }
}

int64_t fleet_ledger_unix_time(int64_t now_ns) {
    return LIFE_BEGINS_S + now_ns / FLEET_SECOND;
}

struct token_price fleet_ledger_price(const struct fleet_ledger *ledger, int64_t unix_time) {
    struct token_prices prices =
        prices_at(&ledger->prices.calendar, (double)(unix_time % 86400) / HOUR_S);
    return (struct token_price){.hit = (uint64_t)(prices.input_hit * PICOS_OF_MILLION + 0.5),
                                .miss = (uint64_t)(prices.input_miss * PICOS_OF_MILLION + 0.5),
                                .output = (uint64_t)(prices.output * PICOS_OF_MILLION + 0.5)};
}

static bool same_price(const struct token_price *a, const struct token_price *b) {
    return memcmp(a, b, sizeof *a) == 0;
}

int64_t fleet_ledger_next_price_ns(const struct fleet_ledger *ledger, int64_t now_ns) {
    int64_t now_s = fleet_ledger_unix_time(now_ns);
    struct token_price now = fleet_ledger_price(ledger, now_s);
    for (int64_t later_s = now_s + 1; later_s < LIFE_BEGINS_S + 60; later_s++) {
        struct token_price later = fleet_ledger_price(ledger, later_s);
        if (!same_price(&now, &later)) return (later_s - LIFE_BEGINS_S) * FLEET_SECOND;
    }
    return MACHINE_NEVER;
}

/* ---- runs ---- */

bool fleet_ledger_open(struct fleet_ledger *ledger, struct arena *arena, uint64_t seed,
                       bool faults) {
    *ledger = (struct fleet_ledger){.faults = faults, .dice = {.seed = seed, .stream = STREAM}};
    ledger->lines = arena_take_zeroed(arena, FLEET_CLIENTS_MAX * sizeof *ledger->lines);
    ledger->totals = arena_take(arena, FLEET_TALLIES_MAX * sizeof *ledger->totals);
    ledger->kept = fleet_dice_below(&ledger->dice, 3) > 0;
    bool hiccups = fleet_dice_below(&ledger->dice, HICCUP_OF) == 0;
    ledger->write_ns_max = hiccups ? 3 * FLEET_SECOND : 20 * FLEET_MS;
    draw_prices(ledger, seed);
    for (uint32_t i = 0; i < FLEET_GATEWAYS_MAX; i++)
        ledger->writers[i].done_ns = MACHINE_NEVER;
    return ledger->lines && ledger->totals;
}

void fleet_ledger_begin(struct fleet_ledger *ledger, uint32_t gateway, uint32_t life) {
    ledger->writers[gateway] = (struct fleet_writer){.life = life, .done_ns = MACHINE_NEVER};
    memset(ledger->own[gateway], 0, sizeof ledger->own[gateway]);
}

static void fleet_ledger_breach(struct fleet_ledger *ledger, uint64_t client, const char *text) {
    if (ledger->breach[0]) return;
    format_text(ledger->breach, sizeof ledger->breach, "client %llu: %s",
                (unsigned long long)client, text);
}

/* ---- writing ---- */

/* Starts one write of all records that were reported so far. */
static void begin(struct fleet_ledger *ledger, struct fleet_writer *writer, int64_t now_ns) {
    if (writer->done_ns != MACHINE_NEVER || writer->said == writer->written) return;
    writer->writing = writer->said;
    writer->done_ns = now_ns + fleet_dice_time(&ledger->dice, FLEET_MS / 10, ledger->write_ns_max);
}

static void fleet_ledger_charge(const struct fleet_ledger *ledger, const struct token_price *known,
                                struct fleet_line *line) {
    struct token_price price = fleet_ledger_price(ledger, line->ended_s);
    line->amount = record_ledger_token_price_amount(&price, line->hit_tokens, line->miss_tokens,
                                                    line->output_tokens);
    line->charged = record_ledger_token_price_amount(known, line->hit_tokens, line->miss_tokens,
                                                     line->output_tokens);
}

void fleet_ledger_receive(struct fleet_ledger *ledger, uint32_t gateway,
                          const struct token_price *known, const struct record_usage *entry,
                          int64_t now_ns) {
    uint64_t client = entry->request.low / 64;
    check(client < FLEET_CLIENTS_MAX);
    struct fleet_writer *writer = &ledger->writers[gateway];
    struct fleet_line *line = &ledger->lines[client];
    if (line->said) fleet_ledger_breach(ledger, client, "has two entries");
    if (entry->sequence != writer->said + 1)
        fleet_ledger_breach(ledger, client, "its entry is not the next");
    *line = (struct fleet_line){
        .said = true,
        .is_charged = entry->is_charged,
        .gateway = gateway,
        .life = writer->life,
        .sequence = entry->sequence,
        .said_ns = now_ns,
        .ended_s = record_ledger_usage_ended(entry),
        .hit_tokens = entry->hit_tokens,
        .miss_tokens = entry->miss_tokens,
        .output_tokens = entry->output_tokens,
        .made_tokens = entry->made_tokens,
        .computed_tokens = entry->computed_tokens + entry->recomputed_tokens,
    };
    if (line->is_charged) fleet_ledger_charge(ledger, known, line);
    writer->said = entry->sequence;
    ledger->entries++;
    begin(ledger, writer, now_ns);
}

static void add(struct fleet_sum *sum, const struct fleet_line *line) {
    sum->amount += line->amount;
    sum->requests++;
    sum->tokens += line->hit_tokens + line->miss_tokens + line->output_tokens;
}

static uint64_t hour_of(int64_t unix_time) {
    return (uint64_t)(unix_time / HOUR_S - LIFE_BEGINS_S / HOUR_S);
}

static void fleet_ledger_write_line(struct fleet_ledger *ledger, struct fleet_line *line,
                                    uint64_t tenant) {
    uint64_t hour = hour_of(line->ended_s);
    check(tenant <= FLEET_TENANTS);
    ledger->again += line->written;
    if (line->written) return; /* written records do not change */
    line->written = true;
    if (!line->is_charged || hour >= FLEET_HOURS_MAX) return;
    add(&ledger->hours[hour][tenant], line);
    add(&ledger->accounts[tenant], line);
    add(&ledger->own[line->gateway][tenant], line);
}

static void fleet_ledger_write_lines(struct fleet_ledger *ledger, uint32_t gateway,
                                     const struct fleet_clients *clients) {
    const struct fleet_writer *writer = &ledger->writers[gateway];
    for (uint32_t i = 0; i < FLEET_CLIENTS_MAX; i++) {
        struct fleet_line *line = &ledger->lines[i];
        if (line->said && line->gateway == gateway && line->life == writer->life &&
            line->sequence > writer->written && line->sequence <= writer->writing)
            fleet_ledger_write_line(ledger, line, clients->clients[i].tenant);
    }
}

bool fleet_ledger_run(struct fleet_ledger *ledger, uint32_t gateway, int64_t now_ns,
                      const struct fleet_clients *clients, struct record_committed *settled_out) {
    struct fleet_writer *writer = &ledger->writers[gateway];
    if (writer->done_ns > now_ns) return false;
    fleet_ledger_write_lines(ledger, gateway, clients);
    if (ledger->faults && fleet_dice_below(&ledger->dice, LOST_OF) == 0) {
        ledger->losses++;
        writer->writing = writer->said;
        writer->done_ns = now_ns + fleet_dice_time(&ledger->dice, FLEET_MS, OFF_NS_MAX);
        return false;
    }
    writer->written = writer->writing;
    writer->done_ns = MACHINE_NEVER;
    *settled_out = (struct record_committed){record_head(RECORD_COMMITTED, sizeof *settled_out),
                                             writer->written};
    begin(ledger, writer, now_ns);
    return true;
}

/* Records that are being written when the process dies may or may not be stored. */
void fleet_ledger_forget(struct fleet_ledger *ledger, uint32_t gateway,
                         const struct fleet_clients *clients) {
    struct fleet_writer *writer = &ledger->writers[gateway];
    if (writer->done_ns != MACHINE_NEVER && fleet_dice_below(&ledger->dice, 2))
        fleet_ledger_write_lines(ledger, gateway, clients);
    writer->done_ns = MACHINE_NEVER;
}

/* ---- units ---- */

static struct fleet_reported_totals *find_totals(struct fleet_ledger *ledger, uint64_t instance,
                                                 uint32_t life) {
    for (uint32_t i = 0; i < ledger->totals_count; i++) {
        struct fleet_reported_totals *reported = &ledger->totals[i];
        if (reported->life == life && reported->totals.instance == instance) return reported;
    }
    return NULL;
}

/* Replaces the last totals of a unit. The mark of a loss stays. */
void fleet_ledger_totals(struct fleet_ledger *ledger, uint32_t gateway,
                         const struct record_unit_totals *totals) {
    uint32_t life = ledger->writers[gateway].life;
    struct fleet_reported_totals *reported = find_totals(ledger, totals->instance, life);
    if (!reported) {
        check(ledger->totals_count < FLEET_TALLIES_MAX);
        reported = &ledger->totals[ledger->totals_count++];
        *reported = (struct fleet_reported_totals){.life = life};
    }
    reported->totals = *totals;
    reported->is_lost |= totals->is_lost;
}

static void add_books(struct unit_books *sum, const struct unit_books *books) {
    sum->made_tokens += books->made_tokens;
    sum->computed_tokens += books->computed_tokens;
}

bool fleet_ledger_verify_unit(struct fleet_ledger *ledger, uint64_t instance,
                              const struct unit_books *counted, uint32_t gateway_lives) {
    struct unit_books entered = {0}, open = {0};
    uint32_t all = 0, whole = 0;
    for (uint32_t i = 0; i < ledger->totals_count; i++) {
        const struct fleet_reported_totals *reported = &ledger->totals[i];
        const struct unit_counters *known = &reported->totals.counted;
        if (reported->totals.instance != instance) continue;
        add_books(&entered, &reported->totals.entered);
        add_books(&open, &reported->totals.open);
        all++;
        whole += !reported->is_lost && known->output_tokens == counted->made_tokens &&
                 known->prompt_tokens + known->recomputed_tokens == counted->computed_tokens;
    }
    if (entered.made_tokens > counted->made_tokens ||
        entered.computed_tokens > counted->computed_tokens)
        fleet_ledger_breach(ledger, instance,
                            "this unit's gateways have entered more than it has counted");
    if (whole < all || all < gateway_lives || open.made_tokens + open.computed_tokens) return false;
    if (entered.made_tokens == counted->made_tokens &&
        entered.computed_tokens == counted->computed_tokens)
        return true;
    fleet_ledger_breach(ledger, instance,
                        "this unit has counted more than its gateways have entered");
    return false;
}

struct unit_books fleet_ledger_books(const struct fleet_ledger *ledger) {
    struct unit_books sum = {0};
    for (uint32_t i = 0; i < FLEET_CLIENTS_MAX; i++) {
        sum.made_tokens += ledger->lines[i].made_tokens;
        sum.computed_tokens += ledger->lines[i].computed_tokens;
    }
    return sum;
}

/* ---- invariants ---- */

static bool fleet_ledger_is_whole(const struct fleet_client *client) {
    for (uint32_t i = 0; i < client->choice_count; i++)
        if (!client->choices[i].finished) return false;
    return !client->refused;
}

void fleet_ledger_check(struct fleet_ledger *ledger, const struct fleet_client *client) {
    const struct fleet_line *line = &ledger->lines[client->number];
    if (client->ended && !line->said)
        fleet_ledger_breach(ledger, client->number, "ended without an entry");
    if (!fleet_ledger_is_whole(client) || !(ledger->kept || client->ended)) return;
    if (ledger->kept && !line->written)
        fleet_ledger_breach(ledger, client->number, "saw an end that is not written down");
    if (!line->is_charged)
        fleet_ledger_breach(ledger, client->number, "is not charged for its answer");
    if (!client->reported_usage || client->cut) return;
    if (line->hit_tokens != client->reported_hits ||
        line->output_tokens != client->reported_output ||
        line->hit_tokens + line->miss_tokens != client->reported_prompt)
        fleet_ledger_breach(ledger, client->number, "its entry differs from its usage");
}

/* The price of the usage that the client received. The two terms of a record's time are rounded to
 * seconds, so the time may be one second early. */
static int64_t receipt_amount(struct fleet_ledger *ledger, const struct fleet_client *client,
                              const struct fleet_line *line) {
    int64_t ended_s = fleet_ledger_unix_time(line->said_ns);
    if (line->ended_s != ended_s && line->ended_s != ended_s - 1)
        fleet_ledger_breach(ledger, client->number,
                            "its entry says another time than that of its end");
    struct token_price own = fleet_ledger_price(ledger, line->ended_s);
    /* no other figure is available */
    if (!client->reported_usage || client->cut) return line->amount;
    return record_ledger_token_price_amount(
        &own, (uint64_t)client->reported_hits,
        (uint64_t)(client->reported_prompt - client->reported_hits),
        (uint64_t)client->reported_output);
}

/* Checks that the sums by hour and by account equal those of the receipts. */
static void verify_money(struct fleet_ledger *ledger, const struct fleet_clients *clients) {
    int64_t hours[FLEET_HOURS_MAX][1 + FLEET_TENANTS] = {{0}}, accounts[1 + FLEET_TENANTS] = {0};
    for (uint32_t i = 0; i < clients->count; i++) {
        const struct fleet_client *client = &clients->clients[i];
        const struct fleet_line *line = &ledger->lines[i];
        if (!line->written || !line->is_charged) continue;
        int64_t amount = receipt_amount(ledger, client, line);
        uint64_t hour = hour_of(line->ended_s);
        if (hour >= FLEET_HOURS_MAX) {
            fleet_ledger_breach(ledger, i, "its entry stands in no hour of this life");
            continue;
        }
        hours[hour][client->tenant] += amount;
        accounts[client->tenant] += amount;
    }
    for (uint32_t tenant = 0; tenant <= FLEET_TENANTS; tenant++) {
        bool is_same = ledger->accounts[tenant].amount == accounts[tenant];
        for (uint32_t hour = 0; hour < FLEET_HOURS_MAX; hour++)
            is_same &= ledger->hours[hour][tenant].amount == hours[hour][tenant];
        if (!is_same)
            fleet_ledger_breach(ledger, tenant,
                                "this account's sums are not those of its receipts");
    }
}

void fleet_ledger_verify(struct fleet_ledger *ledger, const struct fleet_clients *clients) {
    for (uint32_t i = 0; i < clients->count; i++) {
        const struct fleet_line *line = &ledger->lines[i];
        const struct fleet_client *client = &clients->clients[i];
        /* the request of a client that left may still have been at a unit when the gateway died */
        bool lives = ledger->writers[client->gateway].life == client->gateway_life;
        if (!line->said && (lives || !client->gone)) fleet_ledger_breach(ledger, i, "has no entry");
        if (line->said && line->life != client->gateway_life)
            fleet_ledger_breach(ledger, i, "has its entry from another gateway");
        if (client->ended && line->is_charged == client->refused)
            fleet_ledger_breach(ledger, i, "is charged for nothing, or not for an answer");
    }
    verify_money(ledger, clients);
}
