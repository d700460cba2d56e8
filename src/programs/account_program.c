/* SPDX-License-Identifier: Apache-2.0
 * fathom account: manages accounts, their API keys and their limits in the file of `--database`.
 * Gateways that use the file see a change within a second.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/json_writer.h"
#include "host/ledger/account_store.h"
#include "host/ledger/accounts_file.h"
#include "programs/money.h"
#include "programs/outside_text.h"
#include "programs/programs.h"

struct account_values {
    const char *database, *key, *models, *group, *priority, *budget;
    const char *requests, *requests_per_minute, *tokens_per_minute;
    uint64_t weight;
    bool prepaid, postpaid, operator, client, json;
};

#define AT(field) .offset = offsetof(struct account_values, field)
#define PRIORITIES "normal|low|high" /* in the order of enum account_priority */

static const struct option account_rows[] = {
    {"database", OPTION_TEXT, NULL,
     "the file of accounts and the ledger; `create` and `import` create it", AT(database)},
    {"key", OPTION_TEXT, NULL,
     "limit, revoke: the account's key, by the first digits of its SHA-256, instead of the account",
     AT(key)},
    {"requests", OPTION_TEXT, NULL, "concurrent answers: a number, or any", AT(requests)},
    {"requests-per-minute", OPTION_TEXT, NULL, "requests per minute: a number, or any",
     AT(requests_per_minute)},
    {"tokens-per-minute", OPTION_TEXT, NULL,
     "tokens of prompts and answers per minute: a number, or any", AT(tokens_per_minute)},
    {"models", OPTION_LIST, NULL,
     "allowed model names, DeepSeek's two included, separated by commas, or any", AT(models)},
    {"budget", OPTION_TEXT, NULL, "with --key, or for a new key: its total budget, or any",
     AT(budget)},
    {"priority", OPTION_CHOICE, NULL,
     "priority under overload: low is refused first, then normal, then high", AT(priority),
     .choices = PRIORITIES},
    {"weight", OPTION_COUNT, NULL,
     "share of the fleet, relative to other accounts (100 for a new one)", AT(weight),
     .maximum = ACCOUNT_WEIGHT_MAX},
    {"group", OPTION_TEXT, NULL,
     "accounts of one group share a cache; none removes it from its group", AT(group)},
    {"prepaid", OPTION_FLAG, NULL, "refuse its requests while its balance is not above zero",
     AT(prepaid)},
    {"postpaid", OPTION_FLAG, NULL, "allow a negative balance, as for a new account", AT(postpaid)},
    {"operator", OPTION_FLAG, NULL, "allow access to the operator's endpoints", AT(operator)},
    {"client", OPTION_FLAG, NULL, "deny access to the operator's endpoints, as for a new account",
     AT(client)},
    {"json", OPTION_FLAG, NULL, "print one JSON object", AT(json)},
};

static const char *account_program_order(uint32_t index);

const struct option_table account_options = {
    .command = "account",
    .arguments = "ORDER [NAME] [AMOUNT]",
    .word = account_program_order,
    .description =
        "Accounts and their API keys in a database (docs/accounts.md). Orders: create, key, list, "
        "show, revoke, limit, top-up, import, purge-cache.\n\n"
        "  fathom account create acme --database fathom.db   prints its first key, once\n"
        "  fathom account key acme --database fathom.db      another key\n"
        "  fathom account limit acme --prepaid --requests 8 --database fathom.db\n"
        "  fathom account top-up acme 25.00 --database fathom.db\n"
        "  fathom account revoke acme --key 5fe2c1a0 --database fathom.db\n"
        "  fathom account import accounts.yaml --database fathom.db   a file of --accounts\n"
        "  fathom account purge-cache acme --database fathom.db   its cached blocks are found no "
        "more",
    .options = account_rows,
    .option_count = ARRAY_COUNT(account_rows),
    .positional_min = 1,
    .positional_max = 3,
};

struct account_command {
    struct account_values values;
    struct database *database;
    const char *name;   /* or a path; NULL: none */
    const char *amount; /* NULL: none */
    struct account_terms terms;
    int64_t now;
    struct error error;
};

/* ---- reading ---- */

/* Reads a number, or "any", which is 0. NULL leaves *out unset. */
static bool read_limit(const char *text, int64_t most, int64_t *out) {
    char *end;
    if (!text) return true;
    *out = 0;
    if (!strcmp(text, "any")) return true;
    if (*text < '0' || *text > '9') return false;
    *out = strtoll(text, &end, 10);
    return *end == 0 && *out > 0 && *out <= most;
}

static int64_t read_priority(const char *text) {
    static const char *const names[] = {"normal", "low", "high"};
    for (int i = 0; i < 3 && text; i++)
        if (!strcmp(text, names[i])) return i;
    return -1;
}

static int64_t one_of(bool yes, bool no) {
    return yes ? 1 : no ? 0 : -1;
}

/* Returns the exit code; EXIT_CODE_OK if the options are valid. */
static int read_terms(struct account_command *command) {
    const struct account_values *values = &command->values;
    struct account_terms *terms = &command->terms;
    *terms = account_terms_unset;
    if (values->prepaid && values->postpaid)
        return command_misused("--prepaid and --postpaid are mutually exclusive");
    if (values->operator&& values->client)
        return command_misused("--operator and --client are mutually exclusive");
    if (!read_limit(values->requests, UINT32_MAX, &terms->requests_max) ||
        !read_limit(values->requests_per_minute, UINT32_MAX, &terms->requests_per_minute) ||
        !read_limit(values->tokens_per_minute, INT64_MAX, &terms->tokens_per_minute))
        return command_misused("--requests, --requests-per-minute and --tokens-per-minute want a "
                               "number from 1 on, or any");
    if (values->budget && !strcmp(values->budget, "any"))
        terms->budget = ACCOUNT_BUDGET_ANY;
    else if (values->budget && !money_read(values->budget, &terms->budget))
        return command_misused("--budget wants an amount as 12.50, or any");
    terms->priority = read_priority(values->priority);
    if (values->weight) terms->weight = (int64_t)values->weight;
    terms->is_prepaid = one_of(values->prepaid, values->postpaid);
    terms->is_operator = one_of(values->operator, values->client);
    if (values->models) terms->models = strcmp(values->models, "any") ? values->models : "";
    if (values->group) terms->group = strcmp(values->group, "none") ? values->group : "";
    return EXIT_CODE_OK;
}

/* ---- subjects ---- */

static void print_key(const struct account_command *command, const char *key) {
    struct json_print print = json_print_begin(command->values.json);
    outside_text_json(&print, "account", command->name);
    json_print_text(&print, "key", key);
    json_print_close(&print);
    json_print_say(&print, "%s\n", key);
}

static enum status account_program_create(struct account_command *command) {
    char key[ACCOUNT_KEY_TEXT];
    enum status status = account_store_create(command->database, command->name, &command->terms,
                                              command->now, key, &command->error);
    if (!status) print_key(command, key);
    return status;
}

static enum status add_key(struct account_command *command) {
    char key[ACCOUNT_KEY_TEXT];
    enum status status = account_store_add_key(command->database, command->name, &command->terms,
                                               command->now, key, &command->error);
    if (!status) print_key(command, key);
    return status;
}

static enum status limit(struct account_command *command) {
    return account_store_update(command->database, command->name, command->values.key,
                                &command->terms, &command->error);
}

static enum status revoke(struct account_command *command) {
    return account_store_revoke(command->database, command->name, command->values.key, command->now,
                                &command->error);
}

static enum status top_up(struct account_command *command) {
    int64_t amount;
    if (!money_read(command->amount, &amount) || amount == 0)
        return error_set(&command->error, STATUS_INVALID,
                         "top-up: expected an amount as 25 or 12.50 (-- -3 takes off), found "
                         "'%.40s'",
                         command->amount);
    return account_store_top_up(command->database, command->name, amount, command->now,
                                &command->error);
}

static enum status import(struct account_command *command) {
    uint32_t count = 0;
    enum status status = accounts_file_import(command->database, command->name, command->now,
                                              &count, &command->error);
    struct json_print print = {.off = !command->values.json};
    if (status) return status;
    json_print_open(&print, NULL, '{');
    json_print_count(&print, "accounts", count);
    json_print_close(&print);
    json_print_say(&print, "%u accounts\n", count);
    return STATUS_OK;
}

static enum status purge_cache(struct account_command *command) {
    return account_store_purge(command->database, command->name, &command->error);
}

/* ---- listing ---- */

struct account_printer {
    struct json_print print;
    uint32_t accounts; /* so far */
    bool has_keys;     /* lists each account's keys, too */
    char currency[LEDGER_CURRENCY_BYTES];
};

/* Prints for example ", models a,b"; nothing if the text is empty. */
static void print_words(const char *before, const char *text) {
    char *visible = outside_text_visible(text);
    if (text[0]) printf("%s%s", before, visible);
    free(visible);
}

/* A file from elsewhere may have any number. */
static const char *priority_name(int64_t priority) {
    static const char *const names[] = {"normal", "low", "high"};
    return priority >= 0 && priority < (int64_t)ARRAY_COUNT(names) ? names[priority] : "unknown";
}

static void account_program_print_limits(int64_t requests, int64_t requests_per_minute,
                                         int64_t tokens_per_minute) {
    if (requests) printf(", %lld requests at a time", (long long)requests);
    if (requests_per_minute) printf(", %lld requests a minute", (long long)requests_per_minute);
    if (tokens_per_minute) printf(", %lld tokens a minute", (long long)tokens_per_minute);
}

static void print_json_limits(struct json_print *print, int64_t requests,
                              int64_t requests_per_minute, int64_t tokens_per_minute,
                              const char *models) {
    json_print_values(print,
                      "\"requests_max\":%ld,\"requests_per_minute\":%ld,\"tokens_per_minute\":%ld",
                      requests, requests_per_minute, tokens_per_minute);
    outside_text_json(print, "models", models);
}

/* Ends the JSON of an account and of the list of its keys, if one is open. */
static void end_account(struct account_printer *printer) {
    if (!printer->accounts) return;
    if (printer->has_keys) json_print_close(&printer->print);
    json_print_close(&printer->print);
}

static void print_account_json(struct account_printer *printer,
                               const struct account_view *account) {
    struct json_print *print = &printer->print;
    char balance[MONEY_BYTES];
    money_write(account->balance, balance);
    end_account(printer);
    json_print_open(print, NULL, '{');
    outside_text_json(print, "account", account->name);
    outside_text_json(print, "group", account->group);
    json_print_bool(print, "revoked", account->revoked);
    json_print_bool(print, "operator", account->is_operator);
    json_print_values(print, "\"billing\":\"%s\",\"priority\":\"%s\",\"weight\":%ld",
                      account->is_prepaid ? "prepaid" : "postpaid",
                      priority_name(account->priority), account->weight);
    print_json_limits(print, account->requests_max, account->requests_per_minute,
                      account->tokens_per_minute, account->models);
    json_print_values(print,
                      "\"balance\":%s,\"currency\":\"%s\",\"requests\":%ld,\"tokens\":%ld,"
                      "\"created\":%ld,\"live_keys\":%ld",
                      balance, printer->currency, account->requests, account->tokens,
                      account->created, account->keys);
    if (printer->has_keys) json_print_open(print, "keys", '[');
}

static void print_account_text(const struct account_printer *printer,
                               const struct account_view *account) {
    char balance[MONEY_BYTES];
    money_write(account->balance, balance);
    print_words("", account->name);
    printf(": %s%s%s, balance %s%s%s, %lld keys, priority %s, weight %lld",
           account->revoked ? "revoked, " : "", account->is_operator ? "operator, " : "",
           account->is_prepaid ? "prepaid" : "postpaid", balance, printer->currency[0] ? " " : "",
           printer->currency, (long long)account->keys, priority_name(account->priority),
           (long long)account->weight);
    print_words(", group ", account->group);
    account_program_print_limits(account->requests_max, account->requests_per_minute,
                                 account->tokens_per_minute);
    print_words(", models ", account->models);
    printf("; %lld requests, %lld tokens so far\n", (long long)account->requests,
           (long long)account->tokens);
}

static void print_account(void *context, const struct account_view *account) {
    struct account_printer *printer = context;
    if (printer->print.off)
        print_account_text(printer, account);
    else
        print_account_json(printer, account);
    printer->accounts++;
}

static void print_key_json(struct json_print *print, const struct account_key_view *key) {
    char spent[MONEY_BYTES], budget[MONEY_BYTES] = "null";
    money_write(key->spent, spent);
    if (key->budget != ACCOUNT_BUDGET_ANY) money_write(key->budget, budget);
    json_print_open(print, NULL, '{');
    json_print_values(print,
                      "\"sha256\":\"%s\",\"revoked\":%s,\"spent\":%s,\"budget\":%s,\"created\":%ld",
                      key->sha256, key->revoked ? "true" : "false", spent, budget, key->created);
    print_json_limits(print, key->requests_max, key->requests_per_minute, key->tokens_per_minute,
                      key->models);
    json_print_close(print);
}

static void print_key_view(void *context, const struct account_key_view *key) {
    struct account_printer *printer = context;
    char spent[MONEY_BYTES], budget[MONEY_BYTES];
    if (!printer->print.off) {
        print_key_json(&printer->print, key);
        return;
    }
    money_write(key->spent, spent);
    printf("  key %.12s: %sspent %s", key->sha256, key->revoked ? "revoked, " : "", spent);
    if (key->budget != ACCOUNT_BUDGET_ANY) {
        money_write(key->budget, budget);
        printf(" of %s", budget);
    }
    account_program_print_limits(key->requests_max, key->requests_per_minute,
                                 key->tokens_per_minute);
    print_words(", models ", key->models);
    printf("\n");
}

static enum status account_program_look(struct account_command *command) {
    struct account_printer printer = {.print.off = !command->values.json,
                                      .has_keys = command->name != NULL};
    struct account_listener listener = {print_account, command->name ? print_key_view : NULL,
                                        &printer};
    enum status status =
        account_store_currency(command->database, printer.currency, &command->error);
    if (status) return status;
    json_print_open(&printer.print, NULL, '{');
    json_print_open(&printer.print, "accounts", '[');
    status = account_store_list(command->database, command->name, &listener, &command->error);
    end_account(&printer);
    json_print_close(&printer.print);
    json_print_close(&printer.print);
    if (!status && !printer.accounts) json_print_say(&printer.print, "no accounts\n");
    return status;
}

/* ---- the command ---- */

static const struct account_subject {
    const char *name;
    enum status (*run)(struct account_command *command);
    size_t words; /* arguments after its name */
    enum database_missing missing;
} subjects[] = {
    {"create", account_program_create, 1, DATABASE_MAKE},
    {"key", add_key, 1, DATABASE_REFUSE},
    {"list", account_program_look, 0, DATABASE_REFUSE},
    {"show", account_program_look, 1, DATABASE_REFUSE},
    {"revoke", revoke, 1, DATABASE_REFUSE},
    {"limit", limit, 1, DATABASE_REFUSE},
    {"top-up", top_up, 2, DATABASE_REFUSE},
    {"import", import, 1, DATABASE_MAKE},
    {"purge-cache", purge_cache, 1, DATABASE_REFUSE},
};

static const char *account_program_order(uint32_t index) {
    return index < ARRAY_COUNT(subjects) ? subjects[index].name : NULL;
}

static const struct account_subject *find_subject(const char *name) {
    for (size_t i = 0; i < ARRAY_COUNT(subjects); i++)
        if (!strcmp(subjects[i].name, name)) return &subjects[i];
    return NULL;
}

static int run(struct account_command *command, const struct account_subject *subject) {
    command->now = (int64_t)time(NULL);
    enum status status = database_open(command->values.database, subject->missing,
                                       &command->database, &command->error);
    if (!status) status = subject->run(command);
    database_close(command->database);
    return command_end(status, &command->error);
}

int program_account(void *given, const struct option_result *result) {
    struct account_command command = {.database = NULL};
    int exit_code;
    command.values = *(const struct account_values *)given;
    const struct account_subject *subject = find_subject(result->positional[0]);
    if (!subject)
        return command_misused("no subject named '%.40s'; there are: create, key, "
                               "list, show, revoke, limit, top-up, import, "
                               "purge-cache",
                               result->positional[0]);
    if (result->positional_count != 1 + subject->words)
        return command_misused("%s wants %s", subject->name,
                               subject->words == 0   ? "no name"
                               : subject->words == 2 ? "a name and an amount"
                                                     : "one name");
    if (!command.values.database)
        return command_misused("--database FILE is missing: where accounts lie");
    if (subject->words > 0) command.name = result->positional[1];
    if (subject->words > 1) command.amount = result->positional[2];
    exit_code = read_terms(&command);
    return exit_code ? exit_code : run(&command, subject);
}
