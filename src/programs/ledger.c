/* SPDX-License-Identifier: Apache-2.0
 * fathom ledger: reports usage, cost and income from the files of `--database`, and checks that
 * they balance with the work of units and the payments of accounts. Gateways may use the files
 * meanwhile.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/number.h"
#include "host/ledger/ledger_verify.h"
#include "programs/ledger_page.h"
#include "programs/money.h"
#include "programs/outside_text.h"
#include "programs/programs.h"

struct ledger_values {
    struct option_texts databases;
    const char *day, *hour, *account, *html;
    bool csv, json;
};

#define AT(field) .offset = offsetof(struct ledger_values, field)

static const struct option ledger_rows[] = {
    {"database", OPTION_TEXTS, NULL, "a ledger's file, like a FILE argument; may be repeated",
     AT(databases)},
    {"day", OPTION_TEXT, NULL, "report: only this day, such as 2026-11-23 (UTC)", AT(day)},
    {"hour", OPTION_TEXT, NULL, "report: only this hour, such as 2026-11-23T07 (UTC)", AT(hour)},
    {"account", OPTION_TEXT, NULL, "report: only this account", AT(account)},
    {"csv", OPTION_FLAG, NULL, "report: CSV with a line for each hour and account", AT(csv)},
    {"html", OPTION_TEXT, NULL, "report: write a page with charts to this file", AT(html)},
    {"json", OPTION_FLAG, NULL, "print one JSON object", AT(json)},
};

const struct option_table ledger_options = {
    .command = "ledger",
    .arguments = "report|verify [FILE...]",
    .description =
        "What was used, what it cost and brought in (report), and whether all of it is conserved "
        "(verify: exit code 1 if not). Several files, one a host, are taken together.\n\n"
        "  fathom ledger report fathom.db\n"
        "  fathom ledger report --day 2026-11-23 --html day.html fathom.db\n"
        "  fathom ledger report --json one.db two.db\n"
        "  fathom ledger verify one.db two.db",
    .options = ledger_rows,
    .option_count = ARRAY_COUNT(ledger_rows),
    .positional_min = 1,
    .positional_max = OPTION_POSITIONAL_MAX,
};

/* ---- options ---- */

/* Parses "2026-11-23" or "2026-11-23T07" as hours since 1970. Returns false if it is neither. */
static bool ledger_read_time(const char *text, const char *format, int64_t *hour_out) {
    struct tm when = {0};
    const char *end = strptime(text, format, &when);
    if (!end || *end) return false;
    *hour_out = (int64_t)timegm(&when) / 3600;
    return true;
}

/* Reads the range of hours. Returns an exit code; EXIT_CODE_OK if the options are valid. */
static int ledger_read_range(const struct ledger_values *values, struct ledger_range *range_out) {
    *range_out = (struct ledger_range){INT64_MIN, INT64_MAX, values->account};
    if (values->day && values->hour)
        return command_misused("--day and --hour are mutually exclusive");
    if (values->day && !ledger_read_time(values->day, "%Y-%m-%d", &range_out->from_hour))
        return command_misused("--day: expected 2026-11-23, found '%.40s'", values->day);
    if (values->hour && !ledger_read_time(values->hour, "%Y-%m-%dT%H", &range_out->from_hour))
        return command_misused("--hour: expected 2026-11-23T07, found '%.40s'", values->hour);
    if (values->day) range_out->to_hour = range_out->from_hour + 24;
    if (values->hour) range_out->to_hour = range_out->from_hour + 1;
    return EXIT_CODE_OK;
}

/* ---- sums ---- */

/* Makes room for one more element. If memory runs out, the process ends. */
static void *ledger_grown(void *array, size_t count, size_t size) {
    if (count & (count - 1)) return array; /* there is room up to the next power of two */
    array = realloc(array, (count ? 2 * count : 1) * size);
    check(array);
    return array;
}

static void ledger_take_account(void *context, const struct ledger_account *account) {
    struct ledger_found *found = context;
    found->accounts = ledger_grown(found->accounts, found->account_count, sizeof *found->accounts);
    struct ledger_account *kept = &found->accounts[found->account_count++];
    *kept = *account;
    kept->name = strdup(account->name);
    check(kept->name);
}

static void take_hour(void *context, const struct ledger_hour *hour) {
    struct ledger_found *found = context;
    struct ledger_totals *totals = &found->totals;
    found->hours = ledger_grown(found->hours, found->hour_count, sizeof *found->hours);
    found->hours[found->hour_count++] = *hour;
    totals->usage.requests = sum_i64(totals->usage.requests, hour->usage.requests);
    totals->usage.hit_tokens = sum_i64(totals->usage.hit_tokens, hour->usage.hit_tokens);
    totals->usage.miss_tokens = sum_i64(totals->usage.miss_tokens, hour->usage.miss_tokens);
    totals->usage.output_tokens = sum_i64(totals->usage.output_tokens, hour->usage.output_tokens);
    totals->usage.amount = sum_i64(totals->usage.amount, hour->usage.amount);
    totals->usage.list_amount = sum_i64(totals->usage.list_amount, hour->usage.list_amount);
    totals->cost = sum_i64(totals->cost, hour->cost);
    for (int role = 0; role < LEDGER_ROLES; role++)
        totals->node_hours[role] += hour->nodes[role];
}

static void ledger_forget(struct ledger_found *found) {
    for (size_t i = 0; i < found->account_count; i++)
        free((void *)(uintptr_t)found->accounts[i].name);
    free(found->accounts);
    free(found->hours);
}

/* ---- text ---- */

static void ledger_print_text(const struct ledger_found *found) {
    const struct ledger_totals *totals = &found->totals;
    const struct ledger_usage *all = &totals->usage;
    double node_hours = ledger_page_node_hours(totals);
    char amount[MONEY_BYTES], cost[MONEY_BYTES], list[MONEY_BYTES];
    printf("%-24s %10s %14s %14s %14s  %s\n", "account", "requests", "hit tokens", "miss tokens",
           "output tokens", found->currency[0] ? found->currency : "no prices");
    for (size_t i = 0; i < found->account_count; i++) {
        const struct ledger_account *one = &found->accounts[i];
        char *name = outside_text_visible(one->name[0] ? one->name : "(none)");
        money_write(one->usage.amount, amount);
        printf("%-24s %10lld %14lld %14lld %14lld  %s\n", name, (long long)one->usage.requests,
               (long long)one->usage.hit_tokens, (long long)one->usage.miss_tokens,
               (long long)one->usage.output_tokens, amount);
        free(name);
    }
    money_write(all->amount, amount);
    money_write(all->list_amount, list);
    money_write(totals->cost, cost);
    printf("income %s (%s at list prices), cost %s of %.2f node-hours, margin %.1f %%\n", amount,
           list, cost, node_hours, ledger_page_margin_percent(totals));
    printf("hits %.1f %% of prompts' tokens", 100 * ledger_page_hit_rate(all));
    if (node_hours > 0)
        printf("; a node's hour: %.0f prompt tokens, %.0f output tokens",
               (double)(all->hit_tokens + all->miss_tokens) / node_hours,
               (double)all->output_tokens / node_hours);
    printf("\n");
}

/* ---- JSON ---- */

static void print_usage_json(struct json_print *print, const struct ledger_usage *usage) {
    char amount[MONEY_BYTES], list[MONEY_BYTES];
    money_write(usage->amount, amount);
    money_write(usage->list_amount, list);
    json_print_values(print,
                      "\"requests\":%ld,\"hit_tokens\":%ld,\"miss_tokens\":%ld,"
                      "\"output_tokens\":%ld,\"amount\":%s,\"list_amount\":%s",
                      usage->requests, usage->hit_tokens, usage->miss_tokens, usage->output_tokens,
                      amount, list);
}

static void print_hour_json(struct json_print *print, const struct ledger_hour *hour) {
    char name[LEDGER_HOUR_BYTES], cost[MONEY_BYTES];
    ledger_page_hour(hour->hour, name);
    money_write(hour->cost, cost);
    json_print_open(print, NULL, '{');
    json_print_text(print, "hour", name);
    print_usage_json(print, &hour->usage);
    json_print_values(
        print, "\"nodes\":%.6g,\"prefill_nodes\":%.6g,\"decode_nodes\":%.6g,\"cost\":%s",
        hour->nodes[0] + hour->nodes[1] + hour->nodes[2], hour->nodes[1], hour->nodes[2], cost);
    json_print_close(print);
}

static void print_total_json(struct json_print *print, const struct ledger_totals *totals) {
    const struct ledger_usage *usage = &totals->usage;
    const double prompt_tokens = (double)(usage->hit_tokens + usage->miss_tokens);
    const double node_hours = ledger_page_node_hours(totals);
    const double share = node_hours > 0 ? 1 / node_hours : 0;
    char cost[MONEY_BYTES];
    money_write(totals->cost, cost);
    json_print_open(print, "total", '{');
    print_usage_json(print, usage);
    json_print_values(print,
                      "\"node_hours\":%.9g,\"cost\":%s,\"margin_percent\":%.6g,\"hit_rate\":%.6g,"
                      "\"prompt_tokens_per_node_hour\":%.9g,\"output_tokens_per_node_hour\":%.9g",
                      node_hours, cost, ledger_page_margin_percent(totals),
                      ledger_page_hit_rate(usage), prompt_tokens * share,
                      (double)usage->output_tokens * share);
    json_print_close(print);
}

static void ledger_print_json(const struct ledger_found *found) {
    struct json_print print = json_print_begin(true);
    json_print_text(&print, "currency", found->currency);
    json_print_open(&print, "accounts", '[');
    for (size_t i = 0; i < found->account_count; i++) {
        json_print_open(&print, NULL, '{');
        outside_text_json(&print, "account", found->accounts[i].name);
        print_usage_json(&print, &found->accounts[i].usage);
        json_print_text(&print, "currency", found->currency);
        json_print_close(&print);
    }
    json_print_close(&print);
    json_print_open(&print, "hours", '[');
    for (size_t i = 0; i < found->hour_count; i++)
        print_hour_json(&print, &found->hours[i]);
    json_print_close(&print);
    print_total_json(&print, &found->totals);
    json_print_close(&print);
}

/* ---- CSV ---- */

static void ledger_print_row(void *context, int64_t hour, const struct ledger_account *account) {
    char name[LEDGER_HOUR_BYTES], amount[MONEY_BYTES];
    char *cell = outside_text_cell(account->name);
    ledger_page_hour(hour, name);
    money_write(account->usage.amount, amount);
    printf("%s,%s,%lld,%lld,%lld,%lld,%s,%s\n", name, cell, (long long)account->usage.requests,
           (long long)account->usage.hit_tokens, (long long)account->usage.miss_tokens,
           (long long)account->usage.output_tokens, amount, (const char *)context);
    free(cell);
}

static enum status print_csv(struct ledger_sums *sums, struct error *error) {
    printf("hour,account,requests,hit_tokens,miss_tokens,output_tokens,amount,currency\n");
    return ledger_sums_rows(sums, ledger_print_row, (void *)(uintptr_t)ledger_sums_currency(sums),
                            error);
}

/* ---- the page ---- */

static void ledger_form_page(struct json_writer *writer, const void *found) {
    ledger_page_write(writer, found);
}

static enum status ledger_write_page(const struct ledger_found *found, const char *path,
                                     struct error *error) {
    int64_t hours = 0;
    if (found->hour_count > 0)
        hours = found->hours[found->hour_count - 1].hour - found->hours[0].hour + 1;
    if (hours > LEDGER_PAGE_HOURS_MAX)
        return error_set(error, STATUS_TOO_LARGE,
                         "--html: a page shows %d hours at most, and these are %lld; choose fewer "
                         "(--day, --hour)",
                         LEDGER_PAGE_HOURS_MAX, (long long)hours);
    return command_write("--html", path, ledger_form_page, found, error);
}

/* ---- subjects ---- */

struct ledger_paths {
    const char *paths[OPTION_TEXTS_MAX + OPTION_POSITIONAL_MAX];
    size_t count;
};

static enum status report_found(const struct ledger_values *values, struct ledger_sums *sums,
                                struct error *error) {
    struct ledger_found found = {.title = "fathom ledger", .currency = ledger_sums_currency(sums)};
    enum status status = ledger_sums_accounts(sums, ledger_take_account, &found, error);
    if (!status) status = ledger_sums_hours(sums, take_hour, &found, error);
    if (!status && values->html) status = ledger_write_page(&found, values->html, error);
    if (!status && values->csv)
        status = print_csv(sums, error);
    else if (!status && values->json)
        ledger_print_json(&found);
    else if (!status && !values->html)
        ledger_print_text(&found);
    ledger_forget(&found);
    return status;
}

static int ledger_report(const struct ledger_values *values, const struct ledger_paths *paths) {
    struct ledger_range range;
    struct ledger_sums *sums = NULL;
    struct error error = {""};
    int exit_code = ledger_read_range(values, &range);
    if (exit_code) return exit_code;
    enum status status = ledger_sums_open(paths->paths, paths->count, &range, &sums, &error);
    if (!status) status = report_found(values, sums, &error);
    ledger_sums_close(sums);
    return command_end(status, &error);
}

static void print_breach(void *context, const char *line) {
    char *visible = outside_text_visible(line);
    fprintf(stderr, "%s\n", visible);
    free(visible);
}

static int ledger_verify_each(const struct ledger_values *values,
                              const struct ledger_paths *paths) {
    struct ledger_verdict verdict = {0};
    struct error error = {""};
    enum status status =
        ledger_verify(paths->paths, paths->count, print_breach, NULL, &verdict, &error);
    if (status) return command_failed(status, &error);
    struct json_print print = json_print_begin(values->json);
    json_print_values(&print,
                      "\"files\":%ld,\"entries\":%ld,\"accounts\":%ld,\"hours\":%ld,"
                      "\"units_judged\":%ld,\"units_open\":%ld,\"breaches\":%ld",
                      verdict.files, verdict.entries, verdict.accounts, verdict.hours,
                      verdict.units_judged, verdict.units_open, verdict.breaches);
    json_print_close(&print);
    json_print_say(&print,
                   "%lld entries against their prices, prompts, %lld hours and %lld accounts; %lld "
                   "units at rest against their counters, %lld not at rest; %lld breaches\n",
                   (long long)verdict.entries, (long long)verdict.hours,
                   (long long)verdict.accounts, (long long)verdict.units_judged,
                   (long long)verdict.units_open, (long long)verdict.breaches);
    int exit_code = command_end(STATUS_OK, NULL);
    return exit_code == EXIT_CODE_OK && verdict.breaches ? EXIT_CODE_FAILED : exit_code;
}

int program_ledger(void *given, const struct option_result *result) {
    struct ledger_values *values = given;
    struct ledger_paths paths = {.count = 0};
    for (size_t i = 0; i < values->databases.count; i++)
        paths.paths[paths.count++] = values->databases.texts[i];
    for (size_t i = 1; i < result->positional_count; i++)
        paths.paths[paths.count++] = result->positional[i];
    if (!paths.count) return command_misused("a file is missing: what --database named");
    if (!strcmp(result->positional[0], "report")) return ledger_report(values, &paths);
    if (!strcmp(result->positional[0], "verify")) return ledger_verify_each(values, &paths);
    return command_misused("no subject named '%.40s'; there are: report, verify",
                           result->positional[0]);
}
