/* SPDX-License-Identifier: Apache-2.0 */
#include "programs/priced_tokens.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "programs/sim_files.h"
#include "simulate/scenario/prices.h"

#define ARENA_BYTES ((size_t)4 << 20)
#define PICOS_OF_MILLION 1e6 /* price of a token if a million cost 1 */
#define NANOS 1e9
#define PRICE_MAX ((double)LEDGER_PRICE_MAX / PICOS_OF_MILLION) /* of a million tokens */
#define NODE_HOUR_MAX 1e6

_Static_assert(PRICES_MODELS_MAX <= LEDGER_MODELS_MAX && TREE_TEXT_BYTES <= LEDGER_MODEL_BYTES,
               "the ledger has room for all models of a file");

struct priced_tokens {
    struct prices prices;
};

static struct token_price in_picos(const struct token_prices *prices) {
    return (struct token_price){.hit = (uint64_t)llround(prices->input_hit * PICOS_OF_MILLION),
                                .miss = (uint64_t)llround(prices->input_miss * PICOS_OF_MILLION),
                                .output = (uint64_t)llround(prices->output * PICOS_OF_MILLION)};
}

static struct ledger_price price_at(const void *context, struct bytes model, int64_t unix_time) {
    const struct priced_tokens *priced = context;
    const struct prices_calendar *calendar = prices_of_model(&priced->prices, model);
    struct token_prices now = prices_at(calendar, (double)(unix_time % 86400) / 3600);
    return (struct ledger_price){.now = in_picos(&now), .list = in_picos(&calendar->tokens)};
}

static bool calendar_fits(const struct prices_calendar *calendar) {
    bool fits = true;
    for (uint32_t i = 0; i <= calendar->period_count; i++) {
        const struct token_prices *tokens =
            i < calendar->period_count ? &calendar->periods[i].tokens : &calendar->tokens;
        fits &= tokens->input_hit <= PRICE_MAX && tokens->input_miss <= PRICE_MAX &&
                tokens->output <= PRICE_MAX;
    }
    return fits;
}

static enum status check_prices(const char *name, const struct prices *prices,
                                struct error *error) {
    bool fits = calendar_fits(&prices->calendar);
    for (uint32_t i = 0; i < prices->model_count; i++)
        fits &= calendar_fits(&prices->models[i].calendar);
    if (!fits)
        return error_set(error, STATUS_INVALID,
                         "%.200s: a price is above %.0f for a million tokens", name, PRICE_MAX);
    if (prices->node_hour > NODE_HOUR_MAX)
        return error_set(error, STATUS_INVALID, "%.200s: node_hour: a price is above %.0f", name,
                         NODE_HOUR_MAX);
    bool is_short = strlen(prices->currency) < LEDGER_CURRENCY_BYTES;
    if (is_short && record_ledger_currency_valid(prices->currency)) return STATUS_OK;
    return error_set(error, STATUS_INVALID,
                     "%.200s: currency: expected a code as USD, found '%.80s'", name,
                     prices->currency);
}

enum status priced_tokens_read(const char *name, struct priced_tokens **priced_out,
                               struct error *error) {
    struct priced_tokens *priced = calloc(1, sizeof *priced);
    void *memory = malloc(ARENA_BYTES);
    struct arena arena;
    struct sim_files files = {.scenario = "--prices"};
    struct scenario_library library = sim_files_library(&files);
    struct tree_place place = {.file = name, .error = error};
    const struct tree *tree = NULL;
    enum status status = STATUS_OK;
    arena_over(&arena, memory, memory ? ARENA_BYTES : 0);
    if (!priced || !memory) status = error_set(error, STATUS_NO_MEMORY, "no memory for prices");
    if (!status)
        status = library.find(library.context, &arena, "prices", bytes_of(name), &tree, error);
    if (!status) status = prices_read(&place, tree, &priced->prices);
    if (!status) status = check_prices(name, &priced->prices, error);
    free(memory);
    if (status)
        free(priced);
    else
        *priced_out = priced;
    return status;
}

struct ledger_prices priced_tokens_reported(const struct priced_tokens *priced) {
    struct ledger_prices reported = {.node_hour = llround(priced->prices.node_hour * NANOS),
                                     .model_count = priced->prices.model_count,
                                     .at = price_at,
                                     .context = priced};
    for (uint32_t i = 0; i < reported.model_count; i++)
        reported.models[i] = priced->prices.models[i].name;
    snprintf(reported.currency, sizeof reported.currency, "%.7s", priced->prices.currency);
    return reported;
}
