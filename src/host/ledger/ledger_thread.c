/* SPDX-License-Identifier: Apache-2.0 */
#include "host/ledger/ledger_thread.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/number.h"
#include "host/ledger/group_commit.h"
#include "host/process/log/log.h"

#define LOOK_NS ((int64_t)200000000) /* interval of checks of the database */

struct ledger {
    struct database *database;
    struct ledger_prices prices;
    const char *models;
    struct account_own own;
    struct usage_store store;
    struct record_accounts *accounts; /* last record sent */
    int64_t version;                  /* version of the database at that time */
    int64_t look_ns;                  /* time of the next check */
    bool is_unread;                   /* the last check failed */
    struct group_commit commits;
    uint64_t committed;
    struct record **waiting; /* [waiting_count] copies in order */
    uint32_t waiting_count, waiting_room;
};

static int64_t unix_now(void) {
    return (int64_t)time(NULL);
}

/* ---- accounts ---- */

static struct model_prices prices_now(const struct ledger *ledger) {
    struct model_prices none = {.named_count = 0};
    return ledger->prices.currency[0]
               ? usage_store_ledger_prices_reported(&ledger->prices, unix_now())
               : none;
}

/* Reads the accounts with the current prices. */
static enum status ledger_thread_read_accounts(struct ledger *ledger,
                                               struct record_accounts **accounts_out,
                                               struct error *error) {
    enum status status = database_version(ledger->database, &ledger->version, error);
    if (!status)
        status = account_notify_read(ledger->database, &ledger->own, ledger->models, accounts_out,
                                     error);
    if (status) return status;
    (*accounts_out)->committed = ledger->committed;
    (*accounts_out)->prices = prices_now(ledger);
    return STATUS_OK;
}

/* True if the records differ only in what the gateway has itself written. */
static bool says_the_same(const struct record_accounts *a, const struct record_accounts *b) {
    size_t from = offsetof(struct record_accounts, prices);
    return a->record.bytes == b->record.bytes && a->account_count == b->account_count &&
           a->key_count == b->key_count &&
           memcmp((const char *)a + from, (const char *)b + from, a->record.bytes - from) == 0;
}

static bool is_changed(struct ledger *ledger) {
    struct model_prices prices = prices_now(ledger);
    int64_t version = ledger->version;
    struct error error;
    if (memcmp(&prices, &ledger->accounts->prices, sizeof prices) != 0) return true;
    return !database_version(ledger->database, &version, &error) && version != ledger->version;
}

/* Checks for changes. If the database cannot be read now, nothing changes, and it is checked
 * again. */
static void ledger_thread_check_changes(struct ledger *ledger, struct worker *worker) {
    struct record_accounts *accounts = NULL;
    struct error error;
    int64_t version = ledger->version;
    if (!is_changed(ledger)) return;
    enum status status = ledger_thread_read_accounts(ledger, &accounts, &error);
    if (status) ledger->version = version;
    if (status && !ledger->is_unread)
        log_say(LOG_ERROR, "accounts", "cannot be read, changes wait why=%s", error.text);
    ledger->is_unread = status != STATUS_OK;
    if (status) return;
    bool same = says_the_same(accounts, ledger->accounts);
    if (accounts->account_count != ledger->accounts->account_count ||
        accounts->key_count != ledger->accounts->key_count)
        log_say(LOG_INFO, "accounts", "have changed accounts=%u keys=%u", accounts->account_count,
                accounts->key_count);
    free(ledger->accounts);
    ledger->accounts = accounts;
    if (!same) worker_answer(worker, &accounts->record);
}

/* ---- usage records ---- */

static void ledger_thread_take(struct ledger *ledger, const struct record *record) {
    if (ledger->waiting_count == ledger->waiting_room) {
        ledger->waiting_room = ledger->waiting_room ? 2 * ledger->waiting_room : 256;
        ledger->waiting = realloc(ledger->waiting, ledger->waiting_room * sizeof *ledger->waiting);
        check(ledger->waiting);
    }
    struct record *copy = malloc(record->bytes);
    check(copy);
    memcpy(copy, record, record->bytes);
    ledger->waiting[ledger->waiting_count++] = copy;
}

static void ledger_thread_forget(struct ledger *ledger, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const struct record *record = ledger->waiting[i];
        if (record->kind == RECORD_USAGE)
            ledger->committed = ((const struct record_usage *)record)->sequence;
        free(ledger->waiting[i]);
    }
    ledger->waiting_count -= count;
    memmove(ledger->waiting, ledger->waiting + count,
            ledger->waiting_count * sizeof *ledger->waiting);
}

/* Writes one transaction. Returns false if it failed. */
static bool write_some(struct ledger *ledger) {
    struct error error;
    uint32_t written = 0, count = min_u32(ledger->waiting_count, GROUP_COMMIT_MAX);
    enum status status = database_check_place(ledger->database, &error);
    if (!status)
        status =
            usage_store_write(&ledger->store, ledger->waiting, count, unix_now(), &written, &error);
    bool failed = status != STATUS_OK;
    if (failed && !ledger->commits.failed_ns)
        log_say(LOG_ERROR, "ledger", "cannot be written, answers wait why=%s", error.text);
    if (!failed && ledger->commits.failed_ns) log_say(LOG_INFO, "ledger", "is written again");
    ledger->commits.failed_ns = failed ? clock_now_ns() : 0;
    if (!failed) ledger_thread_forget(ledger, written);
    return !failed;
}

static void ledger_thread_write_all(struct ledger *ledger, struct worker *worker) {
    uint64_t before = ledger->committed;
    ledger->commits.begun_ns = clock_now_ns();
    while (ledger->waiting_count > 0 && write_some(ledger)) {
        if (ledger->committed == before) continue; /* only unit totals */
        struct record_committed committed = {record_head(RECORD_COMMITTED, sizeof committed),
                                             ledger->committed};
        worker_answer(worker, &committed.record);
        before = ledger->committed;
    }
    database_tidy(ledger->database);
}

/* Waits for further records here instead of in the worker, which every record would wake. */
static void await_company(const struct ledger *ledger) {
    int64_t left_ns = group_commit_due_ns(&ledger->commits) - clock_now_ns();
    if (ledger->waiting_count > 0 && left_ns > 0 && left_ns <= GROUP_COMMIT_APART_NS)
        nanosleep(&(struct timespec){.tv_nsec = left_ns}, NULL);
}

void ledger_thread_work(void *context, struct worker *worker, const struct record *record) {
    struct ledger *ledger = context;
    if (record) ledger_thread_take(ledger, record);
    await_company(ledger);
    int64_t now = clock_now_ns();
    /* The current record is included in the waiting bytes. */
    bool more_come = worker_waiting_bytes(worker) > (record ? record->bytes : 0);
    if (group_commit_now(&ledger->commits, ledger->waiting_count, more_come, now))
        ledger_thread_write_all(ledger, worker);
    if (now >= ledger->look_ns) {
        ledger_thread_check_changes(ledger, worker);
        ledger->look_ns = now + LOOK_NS;
    }
    worker_call_again(worker, LOOK_NS);
}

/* ---- opening and closing ---- */

static enum status begin(struct ledger *ledger, struct error *error) {
    ledger->store = (struct usage_store){
        .database = ledger->database, .prices = &ledger->prices, .own = &ledger->own};
    enum status status = usage_store_begin(&ledger->store, unix_now(), error);
    return status ? status : ledger_thread_read_accounts(ledger, &ledger->accounts, error);
}

enum status ledger_thread_open(const struct ledger_options *options, struct ledger **ledger_out,
                               struct error *error) {
    struct ledger *ledger = calloc(1, sizeof *ledger);
    if (!ledger) return error_set(error, STATUS_NO_MEMORY, "no memory for the ledger");
    ledger->prices = options->prices;
    ledger->models = options->models;
    enum status status = database_open(options->path, DATABASE_MAKE, &ledger->database, error);
    if (!status) status = begin(ledger, error);
    if (!status)
        *ledger_out = ledger;
    else
        ledger_thread_close(ledger);
    return status;
}

const struct record_accounts *ledger_thread_accounts(const struct ledger *ledger) {
    return ledger->accounts;
}

void ledger_thread_close(struct ledger *ledger) {
    struct error error;
    if (!ledger) return;
    while (ledger->waiting_count > 0 && write_some(ledger))
        ;
    uint32_t lost = ledger->waiting_count;
    if (lost)
        log_say(LOG_ERROR, "ledger", "ends without what could not be written entries=%u", lost);
    if (ledger->accounts && !lost && usage_store_end(&ledger->store, unix_now(), &error))
        log_say(LOG_WARNING, "ledger", "cannot record the end why=%s", error.text);
    for (uint32_t i = 0; i < lost; i++)
        free(ledger->waiting[i]);
    database_close(ledger->database);
    free(ledger->waiting);
    free(ledger->own.used);
    free(ledger->accounts);
    free(ledger);
}
