/* SPDX-License-Identifier: Apache-2.0
 * The ledger on a disk whose power is cut at every call that changes it, one after the other, and
 * that keeps any part of what was not synced: what was told as done is there once and nothing else
 * is, balances and sums are those of the entries, the file opens without repair (with the power cut
 * again meanwhile), and whoever goes on says again what was not told. So for a file that is made,
 * one that is brought up from schema 1, and the ledger's thread. A gateway that is killed (-9) at
 * any call leaves what another one goes on with. That the test would notice is shown
 * with a disk that lies, a database that does not sync, and a writer that tells too early.
 *
 * FATHOM_SEEDS="first count" draws what is left of each cut from so many seeds (`./dev books`: 20),
 * and has the gateway killed at each call, not at one of three.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "../../slow.h"
#include "base/clock.h"
#include "cut_disk.h"
#include "host/ledger/ledger_thread.h"
#include "host/ledger/ledger_verify.h"
#include "host/process/log/log.h"
#include "ledger_desk.h"

#include "test_case.h"

#define TRANSACTIONS 12
#define PATIENCE_NS INT64_C(60000000000)

enum plant {
    PLANT_NOTHING,
    PLANT_LYING_DISK,
    PLANT_NO_SYNC,
    PLANT_SYNC_LATER,
    PLANT_REPORTED_EARLY
};

/* What a gateway's life has done, and been told of as done. */
struct life {
    struct database *database[2]; /* two gateways */
    struct usage_store *store[2];
    struct account_own own[2];
    enum plant plant;
    int64_t given, reported;  /* entries: 1 to that one */
    int64_t given_before;     /* by the life before, that was cut as well */
    bool is_thread;           /* which chooses transactions by itself */
    int64_t topped, accounts; /* told */
    int64_t topped_given, accounts_given;
};

static char left[2][64]; /* folders of what is left of the first cut, and of the second one */
static char breach[512]; /* what was found first; "": nothing */
static uint64_t first_seed, seed_count = 1;

static void note(void *context, const char *line) {
    (void)context;
    if (!breach[0]) snprintf(breach, sizeof breach, "%s", line);
}

static void expect(bool holds, const char *what, int64_t expected, int64_t found) {
    if (holds || breach[0]) return;
    snprintf(breach, sizeof breach, "%s: expected %lld, found %lld", what, (long long)expected,
             (long long)found);
}

/* ---- a life ---- */

static enum status open_one(struct life *life, int which, const char *file) {
    static const char *const syncs[] = {[PLANT_NO_SYNC] = "PRAGMA synchronous=OFF",
                                        [PLANT_SYNC_LATER] = "PRAGMA synchronous=NORMAL",
                                        [PLANT_REPORTED_EARLY] = NULL};
    enum status status = database_open(file, DATABASE_MAKE, &life->database[which], &error);
    if (!status && syncs[life->plant])
        status = database_make(life->database[which], syncs[life->plant], &error);
    return status;
}

static void close_one(struct life *life, int which) {
    database_close(life->database[which]);
    life->database[which] = NULL;
}

static enum status begin_one(struct life *life, int which, const char *file) {
    enum status status = open_one(life, which, file);
    if (status) return status;
    if (!life->store[which]) life->store[which] = calloc(1, sizeof *life->store[which]);
    assert_non_null(life->store[which]);
    *life->store[which] = (struct usage_store){
        .database = life->database[which], .prices = &desk_prices, .own = &life->own[which]};
    return usage_store_begin(life->store[which], NOON, &error);
}

static void end_life(struct life *life) {
    for (int i = 0; i < 2; i++) {
        close_one(life, i);
        free(life->store[i]);
        free(life->own[i].used);
        life->store[i] = NULL;
        life->own[i] = (struct account_own){0};
    }
}

static enum status make_payer(struct life *life, const char *name) {
    char key[ACCOUNT_KEY_TEXT];
    struct database *database = life->database[0];
    life->accounts_given++;
    enum status status = account_store_create(database, name, &account_terms_unset, 1, key, &error);
    if (!status) life->accounts++;
    if (!status) {
        life->topped_given += 1000;
        status = account_store_top_up(database, name, 1000, 1, &error);
        if (!status) life->topped += 1000;
    }
    return status;
}

/* One transaction with the entries behind those that were told, to number `until`. */
static enum status write_until(struct life *life, int which, int64_t until) {
    struct record *records[32];
    uint32_t count = 0, written = 0;
    struct record_unit_totals totals = make_totals(7, 8);
    for (int64_t i = life->reported + 1; i <= until; i++) {
        const char *const names[] = {"acme", "other", ""};
        struct record_usage *usage = make_entry((uint64_t)i, names[i % 3], 5, 3, 2);
        records[count++] = &usage->record;
    }
    records[count++] = &totals.record;
    life->given = until > life->given ? until : life->given;
    if (life->plant == PLANT_REPORTED_EARLY) life->reported = until;
    enum status status =
        usage_store_write(life->store[which], records, count, NOON + until, &written, &error);
    if (!status) life->reported = until;
    while (--count > 0)
        free(records[count - 1]);
    return status;
}

static enum status bring_in(struct database *database) {
    return database_make(database, "PRAGMA wal_checkpoint(PASSIVE)", &error);
}

/* What happens in the middle of the transactions. */
static enum status live_between(struct life *life, int number, const char *file) {
    switch (number) {
    case 2:
        return begin_one(life, 1, file); /* another gateway */
    case 3:
    case 8:
        return bring_in(life->database[0]);
    case 4:
        return make_payer(life, "third");
    case 5:
        close_one(life, 1);
        return STATUS_OK;
    case 6: /* the last one takes the log along */
        close_one(life, 0);
        return begin_one(life, 0, file);
    case 9:
        return account_store_purge(life->database[0], "acme", &error);
    default:
        return STATUS_OK;
    }
}

/* Until its end, or until the disk has lost its power. */
static void live(struct life *life, const char *file) {
    enum status status = begin_one(life, 0, file);
    if (!status) status = make_payer(life, "acme");
    if (!status) status = make_payer(life, "other");
    for (int i = 0; i < TRANSACTIONS && !status; i++) {
        int which = i % 2 && life->database[1] ? 1 : 0;
        status = write_until(life, which, life->reported + 1 + i * 7 % 5);
        if (!status) status = live_between(life, i, file);
    }
    if (!status) status = usage_store_end(life->store[0], NOON, &error);
    if (status && !cut_disk_is_cut()) fail_msg("%s", error.text);
    end_life(life);
}

/* ---- what is left ---- */

static int64_t ask(struct database *database, const char *sql) {
    int64_t number = -1;
    if (database_number(database, &number, &error, sql, "")) note(NULL, error.text);
    return number;
}

static void prove(const char *file) {
    struct ledger_verdict verdict;
    if (ledger_verify(&file, 1, note, NULL, &verdict, &error)) note(NULL, error.text);
}

/* All that was told, all of what was begun last or nothing of it, and nothing else. */
static void check_rows(struct life *life, struct database *database) {
    int64_t count = ask(database, "SELECT count(*) FROM entries");
    int64_t requests = ask(database, "SELECT count(DISTINCT high) FROM entries");
    expect(count == life->reported || count == life->given || count == life->given_before ||
               (life->is_thread && count > life->reported && count < life->given),
           "entries", life->reported, count);
    expect(requests == count, "requests", count, requests);
    int64_t last = ask(database, "SELECT coalesce(max(high), 0) FROM entries");
    expect(last == count, "the last entry", count, last);
    int64_t topped = ask(database, "SELECT coalesce(sum(amount), 0) FROM top_ups");
    expect(topped == life->topped || topped == life->topped_given, "top-ups", life->topped, topped);
    int64_t accounts = ask(database, "SELECT count(*) FROM accounts");
    expect(accounts == life->accounts || accounts == life->accounts_given, "accounts",
           life->accounts, accounts);
}

/* Opens what is left and goes on with it: says again what was not told, as a gateway would that has
 * lost nothing but its disk's power, and two more. */
static void go_on(struct life *life, const char *file) {
    enum status status = open_one(life, 0, file);
    if (!status) check_rows(life, life->database[0]);
    close_one(life, 0);
    if (!status) prove(file);
    if (!status) status = begin_one(life, 0, file);
    if (!status) status = write_until(life, 0, life->given + 2);
    close_one(life, 0);
    if (!status) prove(file);
    if (status) note(NULL, error.text);
}

static void clear_folder(const char *of) {
    static const char *const ends[] = {"", "-wal", "-shm", "-journal"};
    char name[160];
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        snprintf(name, sizeof name, "%s/ledger.db%s", of, ends[i]);
        unlink(name);
    }
}

static void take_what_is_left(struct life *life, int which, uint64_t seed, uint64_t cut) {
    char file[100];
    clear_folder(left[which]);
    cut_disk_leave(left[which], seed);
    snprintf(file, sizeof file, "%s/ledger.db", left[which]);
    cut_disk_begin(cut, false);
    breach[0] = 0;
    life->plant = PLANT_NOTHING;
    go_on(life, file);
    end_life(life);
}

/* Looks at what the seed leaves; with every other one the power goes again meanwhile. */
static void look(struct life *life, uint64_t seed) {
    int64_t given = life->given;
    take_what_is_left(life, 0, seed, seed % 2 ? 1 + seed / 2 % 60 : 0);
    life->given_before = given;
    if (cut_disk_is_cut()) take_what_is_left(life, 1, seed / 3, 0);
}

/* ---- cuts ---- */

typedef void life_function(struct life *life, const char *file);

/* One life with the power cut at that call, and what a seed leaves of it. False: its end came
 * first, as nothing was cut. */
static bool cut_once(life_function *living, const struct life *from, uint64_t call, uint64_t seed) {
    struct life life = *from;
    cut_disk_begin(call, life.plant == PLANT_LYING_DISK);
    living(&life, path);
    bool was_cut = cut_disk_is_cut();
    if (!was_cut) assert_int_equal(life.reported, life.given);
    look(&life, seed);
    cut_disk_end();
    return was_cut;
}

/* What is to lie there before a life. */
static unsigned char before[1 << 20];
static size_t before_bytes;

static void lay(void) {
    clear_folder(folder);
    if (before_bytes == 0) return;
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(before, 1, before_bytes, file), before_bytes);
    fclose(file);
}

/* Cuts at every `step`-th call. Returns how many cuts left something that was found wrong; `stops`:
 * with the first one. */
static uint64_t cut_all(life_function *living, const struct life *from, uint64_t step, bool stops) {
    uint64_t found = 0, call = 1;
    for (bool was_cut = true; was_cut; call += step) {
        for (uint64_t i = 0; i < seed_count; i++) {
            uint64_t seed = (first_seed + i) * 100003 + call * 7;
            breach[0] = 0;
            lay();
            was_cut = cut_once(living, from, call, seed);
            if (!breach[0]) continue;
            found++;
            if (stops)
                fail_msg("call %llu, seed %llu: %s", (unsigned long long)call,
                         (unsigned long long)(first_seed + i), breach);
        }
    }
    print_message("# %llu calls, one of %llu cut, %llu times: %llu found\n",
                  (unsigned long long)call, (unsigned long long)step,
                  (unsigned long long)seed_count, (unsigned long long)found);
    return found;
}

TEST_AROUND(a_power_cut_at_any_call_loses_nothing_reported_and_counts_nothing_twice, make_desk,
            clear_desk) {
    struct life from = {.plant = PLANT_NOTHING};
    before_bytes = 0;
    assert_int_equal(cut_all(live, &from, test_times(1, 10), true), 0);
}

/* A file of schema 1, with entries, is opened and used. */
static void live_on(struct life *life, const char *file) {
    enum status status = begin_one(life, 0, file);
    for (int i = 0; i < 3 && !status; i++)
        status = write_until(life, 0, life->reported + 2);
    if (status && !cut_disk_is_cut()) fail_msg("%s", error.text);
    end_life(life);
}

TEST_AROUND(a_power_cut_at_any_call_of_a_migration_leaves_one_schema_or_the_other, make_desk,
            clear_desk) {
    struct life from = {.plant = PLANT_NOTHING};
    cut_disk_begin(0, false);
    before_bytes = 0;
    lay();
    live(&from, path);
    cut_disk_end();
    make_schema_1(path);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    before_bytes = fread(before, 1, sizeof before, file);
    fclose(file);
    cut_disk_end();
    assert_in_range(before_bytes, 1, sizeof before - 1);
    assert_int_equal(cut_all(live_on, &from, test_times(1, 10), true), 0);
}

/* ---- the thread ---- */

static void note_settled(struct worker *worker, struct life *life) {
    struct record_queue answers = {0};
    worker_take(worker, &answers);
    for (const struct record *record; (record = record_queue_first(&answers));
         record_queue_drop(&answers))
        if (record->kind == RECORD_COMMITTED)
            life->reported = (int64_t)((const struct record_committed *)record)->sequence;
}

static void give_and_await(struct life *life, struct worker *worker, int64_t until) {
    int64_t end_ns = clock_now_ns() + PATIENCE_NS;
    while (life->given < until) {
        struct record_usage *usage = make_entry((uint64_t)++life->given, "", 5, 3, 2);
        worker_give(worker, &usage->record);
        free(usage);
        if (life->given % 3 == 0) usleep(300);
    }
    while (life->reported < until && !cut_disk_is_cut() && clock_now_ns() < end_ns) {
        note_settled(worker, life);
        usleep(200);
    }
    while (worker_waiting_bytes(worker))
        usleep(200);
    note_settled(worker, life);
}

static void live_in_a_thread(struct life *life, const char *file) {
    struct ledger_options options = {.path = file, .models = "m", .prices = desk_prices};
    struct ledger *ledger = NULL;
    struct worker *worker = NULL;
    enum status status = ledger_thread_open(&options, &ledger, &error);
    life->is_thread = true;
    if (!status) {
        fine(worker_open("ledger", ledger_thread_work, ledger, &worker, &error));
        worker_call(worker);
        for (int i = 1; i <= 4 && !cut_disk_is_cut(); i++)
            give_and_await(life, worker, 9 * i);
        assert_true(worker_close(worker, PATIENCE_NS));
        ledger_thread_close(ledger);
    }
    if (status && !cut_disk_is_cut()) fail_msg("%s", error.text);
}

TEST_AROUND(what_the_thread_says_is_settled_survives_a_power_cut, make_desk, clear_desk) {
    struct life from = {.plant = PLANT_NOTHING};
    before_bytes = 0;
    assert_int_equal(cut_all(live_in_a_thread, &from, test_times(5, 20), true), 0);
}

/* ---- kill -9 beside a gateway that lives on ---- */

static struct { atomic_llong given, reported; } * shared;

/* A gateway that writes when the other one is there, and is killed meanwhile. */
_Noreturn static void write_and_die(int gate, uint64_t call) {
    struct life life = {.plant = PLANT_NOTHING, .reported = 2};
    char go;
    if (read(gate, &go, 1) != 1) _exit(2);
    cut_disk_kill_at(call);
    enum status status = begin_one(&life, 1, path);
    for (int i = 0; i < 4 && !status; i++) {
        atomic_store(&shared->given, life.reported + 2);
        status = write_until(&life, 1, life.reported + 2);
        atomic_store(&shared->reported, life.reported);
        if (!status && i == 1) status = bring_in(life.database[1]);
    }
    close_one(&life, 1);
    _exit(status ? 1 : 0);
}

/* False: the other one came to its end. No connection is open when the process is doubled. */
static bool kill_once(uint64_t call) {
    struct life life = {.plant = PLANT_NOTHING};
    int gate[2], ended;
    cut_disk_begin(0, false);
    assert_int_equal(pipe(gate), 0);
    pid_t child = fork();
    if (child == 0) {
        close(gate[1]); /* so that it ends with this process */
        write_and_die(gate[0], call);
    }
    fine(begin_one(&life, 0, path));
    fine(make_payer(&life, "acme"));
    fine(write_until(&life, 0, 2));
    atomic_store(&shared->given, 2);
    atomic_store(&shared->reported, 2);
    assert_int_equal(write(gate[1], "g", 1), 1);
    assert_int_equal(waitpid(child, &ended, 0), child);
    if (!WIFSIGNALED(ended)) assert_int_equal(ended, 0);
    close(gate[0]);
    close(gate[1]);
    life.reported = atomic_load(&shared->reported);
    life.given = atomic_load(&shared->given);
    check_rows(&life, life.database[0]);
    fine(write_until(&life, 0, life.given + 2));
    prove(path);
    end_life(&life);
    cut_disk_end();
    return WIFSIGNALED(ended);
}

TEST_AROUND(a_writer_killed_at_any_call_leaves_its_neighbour_a_sound_ledger, make_desk,
            clear_desk) {
    uint64_t call = 1, every = getenv("FATHOM_SEEDS") ? 1 : test_times(3, 20);
    before_bytes = 0;
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    for (bool was_killed = true; was_killed; call += every) {
        breach[0] = 0;
        lay();
        was_killed = kill_once(call);
        if (breach[0]) fail_msg("call %llu: %s", (unsigned long long)call, breach);
    }
    assert_true(call > 200);
    print_message("# %llu calls, killed at one of %llu\n", (unsigned long long)call,
                  (unsigned long long)every);
    munmap(shared, 4096);
}

/* ---- the test itself ---- */

TEST_AROUND(planted_bugs_are_found, make_desk, clear_desk) {
    before_bytes = 0;
    seed_count = 1;
    for (enum plant plant = PLANT_LYING_DISK; plant <= PLANT_REPORTED_EARLY; plant++) {
        struct life from = {.plant = plant};
        print_message("# planted: %d\n", plant);
        assert_in_range(cut_all(live, &from, test_times(7, 20), false), 1, UINT64_MAX);
    }
}

static int make_all(void **state) {
    (void)state;
    const char *asked_for = getenv("FATHOM_SEEDS");
    if (asked_for) {
        char *end;
        first_seed = strtoull(asked_for, &end, 10);
        seed_count = strtoull(end, NULL, 10);
        assert_true(seed_count > 0);
    }
    for (int i = 0; i < 2; i++) {
        snprintf(left[i], sizeof left[i], "/tmp/fathom-left.XXXXXX");
        if (!mkdtemp(left[i])) return -1;
    }
    log_write_to(open("/dev/null", O_WRONLY | O_CLOEXEC)); /* of disks without power */
    cut_disk_install();
    return 0;
}

static int clear_all(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        clear_folder(left[i]);
        rmdir(left[i]);
    }
    return 0;
}

TEST_GROUP(make_all, clear_all)
