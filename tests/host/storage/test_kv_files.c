/* SPDX-License-Identifier: Apache-2.0
 * People remove, replace and move a KV storage's files under a running process, and ask for no
 * lock. It goes on: with a new segment or, where there can be none, without writing; what is read
 * from open files arrives; nobody writes to a file that he has not locked; what lies in the
 * directory afterwards is sound. The files are their owner's alone, and another user cannot choose
 * what is written to.
 */
#include "host/storage/kv_files.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/format.h"
#include "host/storage/kv_files_check.h"
#include "kv_blocks.h"
#include "test_case.h"

#define COUNT 20 /* blocks of a sequence; far fewer than a segment's 63 slots */
#define MORE 6   /* sequences 2 to 5: more than a segment's */

/* Runs a shell's line; $D is the directory. */
static void command(const char *line) {
    assert_int_equal(setenv("D", directory, 1), 0);
    assert_int_equal(system(line), 0);
}

static int remove_all(void **state) {
    (void)state;
    command("rm -rf $D");
    return 0;
}

/* ---- what is said and what is left ---- */

struct said {
    int lost, off, others; /* lines */
    char last[600];
};

static void take_line(void *context, const char *line) {
    struct said *said = context;
    snprintf(said->last, sizeof said->last, "%s", line);
    if (strstr(line, "somebody removed, replaced or cut"))
        said->lost++;
    else if (strstr(line, "nothing is written for now"))
        said->off++;
    else
        said->others++;
}

static struct kv_store *open_received(struct said *said) {
    struct kv_store_options options = options_of(KV_IO_AUTO, 1024);
    options.log = take_line;
    options.log_context = said;
    return open_with(&options);
}

static void say_damage(void *context, const char *line) {
    print_message("# %s\n", line);
}

/* As `fathom cache verify` looks at it. */
static struct kv_check assert_sound(void) {
    const struct kv_check_listener listener = {.damage = say_damage};
    struct kv_check check;
    struct error error = {""};
    assert_int_equal(kv_files_check(directory, true, &listener, &check, &error), STATUS_OK);
    assert_int_equal(check.damaged, 0);
    return check;
}

/* By who opens it afterwards: sequences first to last. */
static void assert_kept(uint32_t first, uint32_t last) {
    struct kv_store_options options = options_of(KV_IO_AUTO, 1024);
    struct kv_store *store = open_with(&options);
    for (uint32_t sequence = first; sequence <= last; sequence++)
        assert_loads(store, sequence, COUNT, COUNT);
    assert_int_equal(kv_store_get_stats(store).damaged, 0);
    close_store(store);
}

/* ---- the segment that is written to ---- */

struct deed {
    const char *line;
    bool leaves_blocks; /* what was written before is still to be had */
};

/* A storage that looks when the sidecar is gone and the data are not yet makes the sidecar anew,
 * and the folder is not empty: then somebody removes it again. */
#define REMOVE(path) "{ until rm -rf " path " 2>/dev/null; do :; done; }"

static const struct deed deeds[] = {
    {"rm $D/*/*.kv", false},
    {"rm $D/*/*", false},
    {REMOVE("$D/*"), false},
    {REMOVE("$D"), false},
    {"mv $D/* $D/aside", false},
    {"for f in $D/*; do mv $f $D/aside && mkdir -p $f; done", false},
    {"for f in $D/*/*.kv; do mv $f $f.aside; done", false},
    {"for f in $D/*/*.kv; do rm $f && echo other >$f; done", false},
    {"for f in $D/*/*.kv; do cp $f $f.copy && mv $f.copy $f; done", true},
    {"rm $D/*/*.idx", true},
    {"for f in $D/*/*.idx; do rm $f && echo other >$f; done", true},
    {"for f in $D/*/*.idx; do mkdir $f.aside && mv $f $f.aside; done", true},
};

/* Somebody does it while nothing is written, and it is seen before the next block comes. */
static void writing_goes_on_after(const struct deed *deed) {
    struct said said = {0};
    struct kv_store *store = open_received(&said), *second;
    bool replaced = strstr(deed->line, "echo other >") && strstr(deed->line, ".kv");
    keep(store, 1, 0, COUNT);
    command(deed->line);
    kv_store_flush(store);
    assert_int_equal(said.lost, 1);
    for (uint32_t sequence = 2; sequence < MORE; sequence++) { /* into more than one segment */
        assert_int_equal(keep(store, sequence, 0, COUNT), COUNT);
        assert_loads(store, sequence, COUNT, COUNT);
    }
    assert_loads(store, 1, COUNT, deed->leaves_blocks ? COUNT : 0);
    second = open_received(&said);
    for (uint32_t sequence = 2; sequence < MORE; sequence++)
        assert_loads(second, sequence, COUNT, COUNT);
    assert_int_equal(kv_store_get_stats(store).dropped + kv_store_get_stats(store).io_errors, 0);
    close_store(second);
    close_store(store);
    assert_int_equal(said.lost + said.off + said.others, 1);
    if (replaced) command("rm $(grep -lx other $D/*/*.kv)"); /* is not a segment, and stays */
    struct kv_check check = assert_sound();
    assert_int_equal(check.blocks, COUNT * (MORE - 2 + deed->leaves_blocks));
    assert_kept(2, MORE - 1);
}

TEST_AROUND(the_active_segment_may_be_lost, set_up, remove_all) {
    for (size_t i = 0; i < ARRAY_COUNT(deeds); i++) {
        print_message("# %s\n", deeds[i].line);
        writing_goes_on_after(&deeds[i]);
        remove_all(NULL);
        assert_int_equal(set_up(NULL), 0);
    }
}

/* In place, so that no name leads to another file. What was cut off is lost, and nothing more. */
TEST_AROUND(a_segment_that_is_cut_takes_no_more, set_up, remove_all) {
    static const struct {
        const char *line;
        uint32_t left; /* blocks */
    } cuts[] = {
        {"for f in $D/*/*.kv; do : >$f; done", 0},
        {"for f in $D/*/*.kv; do truncate -s 100000 $f; done", 2}, /* of 36 KiB, behind 4 KiB */
        {"for f in $D/*/*.idx; do : >$f; done", COUNT},
        {"for f in $D/*/*.idx; do echo other >$f; done", COUNT},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cuts); i++) {
        struct said said = {0};
        struct kv_store *store = open_received(&said);
        keep(store, 1, 0, COUNT);
        command(cuts[i].line);
        kv_store_flush(store);
        assert_int_equal(said.lost, 1);
        for (uint32_t sequence = 2; sequence < MORE; sequence++)
            assert_int_equal(keep(store, sequence, 0, COUNT), COUNT);
        assert_loads(store, 1, COUNT, cuts[i].left);
        close_store(store);
        assert_int_equal(said.lost + said.off + said.others, 1);
        assert_kept(2, MORE - 1);
        remove_all(NULL);
        assert_int_equal(set_up(NULL), 0);
    }
}

/* The next block finds out, before any look at the directory. */
TEST_AROUND(what_is_written_to_a_lost_file_is_not_there, set_up, remove_all) {
    for (size_t i = 0; i < ARRAY_COUNT(deeds); i++) {
        struct said said = {0};
        struct kv_store_options options = options_of(KV_IO_AUTO, 1024);
        options.scan_ms = 1000000;
        options.log = take_line;
        options.log_context = &said;
        struct kv_store *store = open_with(&options);
        keep(store, 1, 0, COUNT);
        command(deeds[i].line);
        keep(store, 2, 0, COUNT); /* most of it, or nothing */
        uint32_t there = found(store, 2, COUNT);
        assert_loads(store, 2, COUNT, there);
        keep(store, 2, 0, COUNT);
        assert_loads(store, 2, COUNT, COUNT);
        assert_int_equal(said.lost, 1);
        assert_int_equal(said.off + said.others, 0);
        close_store(store);
        assert_kept(2, 2);
        remove_all(NULL);
        assert_int_equal(set_up(NULL), 0);
    }
}

TEST_AROUND(a_directory_is_made_again_when_there_is_something_to_write, set_up, remove_all) {
    struct said said = {0};
    struct kv_store *store = open_received(&said);
    keep(store, 1, 0, COUNT);
    command(REMOVE("$D"));
    kv_store_flush(store);
    assert_int_equal(access(directory, F_OK), -1);
    keep(store, 1, 0, COUNT);
    close_store(store);
    assert_int_equal(said.lost, 1);
    assert_kept(1, 1);
}

/* No directory can be made: a line, and everything but writing goes on. */
TEST_AROUND(writing_goes_off_without_a_place, set_up, remove_all) {
    struct said said = {0};
    struct kv_store_options options = options_of(KV_IO_AUTO, 1024);
    options.host_bytes = 256 * block_bytes();
    options.log = take_line;
    options.log_context = &said;
    struct kv_store *store = open_with(&options);
    keep(store, 1, 0, COUNT);
    command(REMOVE("$D") " && touch $D");
    kv_store_flush(store);
    for (uint32_t sequence = 2; sequence < 5; sequence++)
        keep(store, sequence, 0, COUNT);
    assert_false(kv_store_get_stats(store).writable);
    assert_int_equal(said.lost, 1);
    assert_int_equal(said.off, 1);
    for (uint32_t sequence = 1; sequence < 5; sequence++)
        assert_int_equal(load(store, sequence, COUNT).host, COUNT);
    close_store(store);
    assert_int_equal(said.lost + said.off + said.others, 2);
}

/* ---- transfers under way ---- */

struct gate { /* transfers of blocks wait behind it */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool closed, of_writes;
    int waiting;
};

static int wait_at_gate(void *context, const struct kv_io_op *op, size_t *bytes) {
    struct gate *gate = context;
    if (op->write != gate->of_writes || op->bytes <= STORE_PAGE_BYTES) return 0;
    pthread_mutex_lock(&gate->lock);
    gate->waiting++;
    pthread_cond_broadcast(&gate->changed);
    while (gate->closed)
        pthread_cond_wait(&gate->changed, &gate->lock);
    gate->waiting--;
    pthread_mutex_unlock(&gate->lock);
    return 0;
}

static void wait_for_transfers(struct gate *gate, int count) {
    pthread_mutex_lock(&gate->lock);
    while (gate->waiting < count)
        pthread_cond_wait(&gate->changed, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
}

static void set_gate(struct gate *gate, bool closed) {
    pthread_mutex_lock(&gate->lock);
    gate->closed = closed;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->lock);
}

static struct kv_store *open_gated(struct gate *gate, struct kv_io_faults *hook,
                                   struct said *said) {
    struct kv_store_options options = options_of(KV_IO_THREADS, 1024);
    *hook = (struct kv_io_faults){wait_at_gate, gate};
    options.faults = hook;
    options.log = take_line;
    options.log_context = said;
    return open_with(&options);
}

struct asked {
    struct kv_store *store;
    struct loaded loaded;
};

static void *run_load(void *context) {
    struct asked *asked = context;
    asked->loaded = load(asked->store, 1, COUNT);
    return NULL;
}

static void *run_keep(void *context) {
    struct asked *asked = context;
    keep(asked->store, 1, 0, COUNT);
    return NULL;
}

TEST_AROUND(reads_of_open_files_go_on, set_up, remove_all) {
    for (size_t i = 0; i < ARRAY_COUNT(deeds); i++) {
        struct gate gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
        struct said said = {0};
        struct kv_io_faults hook;
        struct kv_store *store = open_gated(&gate, &hook, &said);
        struct asked asked = {.store = store};
        pthread_t thread;
        keep(store, 1, 0, COUNT);
        set_gate(&gate, true);
        assert_int_equal(pthread_create(&thread, NULL, run_load, &asked), 0);
        wait_for_transfers(&gate, 2);
        command(deeds[i].line);
        kv_store_refresh(store, LONG_NS);
        set_gate(&gate, false);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_true(asked.loaded.right);
        assert_int_equal(asked.loaded.blocks, COUNT);
        close_store(store);
        remove_all(NULL);
        assert_int_equal(set_up(NULL), 0);
    }
}

/* Its place in the table is not another's before the last of them ends. */
TEST_AROUND(writes_to_a_lost_segment_end_in_nobodys_file, set_up, remove_all) {
    for (size_t i = 0; i < ARRAY_COUNT(deeds); i++) {
        struct gate gate = {.lock = PTHREAD_MUTEX_INITIALIZER,
                            .changed = PTHREAD_COND_INITIALIZER,
                            .of_writes = true};
        struct said said = {0};
        struct kv_io_faults hook;
        struct kv_store *store = open_gated(&gate, &hook, &said);
        struct asked asked = {.store = store};
        pthread_t thread;
        keep(store, 5, 0, 1);
        set_gate(&gate, true);
        assert_int_equal(pthread_create(&thread, NULL, run_keep, &asked), 0);
        wait_for_transfers(&gate, 2);
        command(deeds[i].line);
        kv_store_refresh(store, LONG_NS);
        struct kv_store *second = open_received(&said);
        keep(second, 2, 0, COUNT);
        kv_store_refresh(store, LONG_NS); /* it opens the other's segment */
        set_gate(&gate, false);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_loads(store, 2, COUNT, COUNT);
        uint32_t there = found(store, 1, COUNT);
        assert_loads(store, 1, COUNT, there);
        keep(store, 1, 0, COUNT);
        keep(second, 2, COUNT, 2 * COUNT);
        kv_store_flush(store);
        assert_loads(store, 1, COUNT, COUNT);
        assert_loads(store, 2, 2 * COUNT, 2 * COUNT);
        assert_int_equal(kv_store_get_stats(store).damaged + kv_store_get_stats(second).damaged, 0);
        close_store(store);
        close_store(second);
        assert_int_equal(said.off + said.others, 0);
        assert_kept(1, 2);
        remove_all(NULL);
        assert_int_equal(set_up(NULL), 0);
    }
}

/* ---- processes ---- */

struct process {
    pid_t id;
    int to, from;
};

#define LOOK 0
#define END 255

/* Keeps the sequences whose numbers come, or looks at the directory; answers each. */
static void serve(int orders, int answers) {
    struct kv_store_options options = options_of(KV_IO_AUTO, 1024);
    struct kv_store *store;
    uint8_t sequence;
    if (kv_store_open(&options, &store, NULL)) _exit(2);
    while (read(orders, &sequence, 1) == 1 && sequence != END) {
        if (sequence == LOOK)
            kv_store_flush(store);
        else
            keep(store, sequence, 0, COUNT);
        if (write(answers, &sequence, 1) != 1) _exit(3);
    }
    close_store(store);
    _exit(0);
}

static struct process begin_process(void) {
    int orders[2], answers[2];
    assert_int_equal(pipe2(orders, O_CLOEXEC), 0);
    assert_int_equal(pipe2(answers, O_CLOEXEC), 0);
    pid_t id = fork();
    assert_true(id >= 0);
    if (id == 0) {
        close(orders[1]);
        close(answers[0]);
        serve(orders[0], answers[1]);
    }
    close(orders[0]);
    close(answers[1]);
    return (struct process){id, orders[1], answers[0]};
}

static void order(const struct process *process, uint8_t sequence) {
    uint8_t answer;
    assert_int_equal(write(process->to, &sequence, 1), 1);
    assert_int_equal(read(process->from, &answer, 1), 1); /* 0: it died */
    assert_int_equal(answer, sequence);
}

static void end_process(const struct process *process) {
    const uint8_t end = END;
    int status;
    assert_int_equal(write(process->to, &end, 1), 1);
    close(process->to);
    assert_int_equal(waitpid(process->id, &status, 0), process->id);
    close(process->from);
    assert_int_equal(status, 0);
}

/* One loses its segment, another makes one, both write: each to a segment of its own. */
TEST_AROUND(processes_never_write_to_one_segment, set_up, remove_all) {
#ifdef __SANITIZE_THREAD__
    print_message("# TSan knows no threads behind a fork\n");
    return;
#endif
    for (size_t i = 0; i < ARRAY_COUNT(deeds); i++) {
        const struct deed *deed = &deeds[i];
        if (strstr(deed->line, "echo other >") && strstr(deed->line, ".kv")) continue;
        struct process first = begin_process(), second = {.id = -1};
        order(&first, 1);
        command(deed->line);
        order(&first, LOOK);
        second = begin_process();
        order(&second, 2);
        order(&first, LOOK);
        order(&first, 3);
        order(&second, 4);
        order(&first, 5);
        struct kv_check both = assert_sound();
        assert_int_equal(both.writers, 2);
        assert_true(both.segments >= 2);
        end_process(&first);
        end_process(&second);
        assert_sound();
        assert_kept(2, 5);
        remove_all(NULL);
        assert_int_equal(set_up(NULL), 0);
    }
}

/* ---- a segment that nobody writes to ---- */

TEST_AROUND(a_sidecar_is_written_anew_while_others_run, set_up, remove_all) {
    struct said said = {0};
    struct kv_store *store = open_received(&said);
    keep(store, 1, 0, COUNT);
    close_store(store);
    store = open_received(&said); /* it adopts nothing before it writes */
    command("rm $D/*/*.idx");
    kv_store_flush(store);
    assert_int_equal(assert_sound().blocks, COUNT);
    command("for f in $D/*/*.idx; do rm $f && echo other >$f; done");
    kv_store_flush(store); /* sees it */
    kv_store_flush(store);
    assert_int_equal(assert_sound().blocks, COUNT);
    assert_loads(store, 1, COUNT, COUNT);
    close_store(store);
    assert_int_equal(said.lost + said.off + said.others, 0);
}

/* No more of a sidecar is read than its slots could have made: of this one that would take minutes,
 * and nobody could start meanwhile. */
TEST_AROUND(an_endless_sidecar_is_written_anew, set_up, remove_all) {
    struct said said = {0};
    struct kv_store *store = open_received(&said);
    keep(store, 1, 0, COUNT);
    close_store(store);
    command("truncate -s 1T $D/*/*.idx");
    store = open_received(&said);
    kv_store_flush(store);
    struct kv_check check = assert_sound();
    assert_int_equal(check.blocks, COUNT);
    assert_true(check.bytes < (uint64_t)1 << 30);
    assert_loads(store, 1, COUNT, COUNT);
    command("truncate -s 1T $D/*/*.idx"); /* under way */
    kv_store_flush(store);
    kv_store_flush(store);
    assert_true(assert_sound().bytes < (uint64_t)1 << 30);
    close_store(store);
    assert_kept(1, 1);
}

/* What it has of a segment that went is given up: blocks that are asked for are there. */
TEST_AROUND(a_reader_forgets_what_is_gone, set_up, remove_all) {
    struct said said = {0};
    struct kv_store *store = open_received(&said);
    keep(store, 1, 0, COUNT);
    close_store(store);
    store = open_received(&said);
    assert_int_equal(found(store, 1, COUNT), COUNT);
    command("mkdir $D/aside && mv $D/*/*.kv $D/aside");
    kv_store_flush(store);
    assert_int_equal(found(store, 1, COUNT), 0);
    assert_int_equal(kv_store_get_stats(store).disk_blocks, 0);
    command("mv $D/aside/*.kv $D/v1*"); /* and back */
    kv_store_flush(store);
    assert_loads(store, 1, COUNT, COUNT);
    close_store(store);
}

/* ---- whose they are ---- */

static void assert_private(const char *path) {
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 07777, S_ISDIR(about.st_mode) ? 0700 : 0600);
}

TEST_AROUND(files_are_their_owners_alone, set_up, remove_all) {
    struct said said = {0};
    char folder[160];
    mode_t before = umask(0);
    command(REMOVE("$D"));
    struct kv_store *store = open_received(&said);
    keep(store, 1, 0, COUNT);
    assert_private(directory);
    folder_of(folder);
    assert_private(folder);
    assert_int_equal(for_files("", assert_private), 2);
    close_store(store);
    command("rm $D/*/*.idx");
    store = open_received(&said);
    assert_int_equal(for_files("", assert_private), 2);
    close_store(store);
    umask(before);
}

/* ---- what others planted ---- */

/* Each puts a name for $D/victim in the place of the storage's own file $s.kv or $s.idx. A victim
 * that has the bytes of such a file would be taken for it. */
static const char *const plants[] = {
    "rm $s.idx && ln -s $D/victim $s.new",
    "rm $s.idx && ln $D/victim $s.new",
    "rm $s.idx && ln -s $D/victim $s.idx",
    "mv $s.idx $D/victim && ln -s $D/victim $s.idx",
    "mv $s.idx $D/victim && ln $D/victim $s.idx",
    "echo damage >>$s.idx && mv $s.idx $D/victim && ln -s $D/victim $s.idx",
    "mv $s.kv $D/victim && ln -s $D/victim $s.kv",
    "mv $s.kv $D/victim && ln $D/victim $s.kv",
    "rm $s.kv && ln -s $D/victim $s.kv",
    "rm $s.kv && mkfifo $s.kv && rm $s.idx && mkfifo $s.idx",
};

/* Blocks of a file that was not opened may be lost; what comes next is kept. */
TEST_AROUND(nothing_is_written_through_what_was_planted, set_up, remove_all) {
    for (size_t i = 0; i < ARRAY_COUNT(plants); i++) {
        struct said said = {0};
        char line[300];
        struct kv_store *store = open_received(&said);
        keep(store, 1, 0, COUNT);
        close_store(store);
        print_message("# %s\n", plants[i]);
        snprintf(line, sizeof line,
                 "echo precious >$D/victim && for f in $D/*/*.kv; do s=${f%%.kv}; %s; done && "
                 "cp $D/victim $D/before",
                 plants[i]);
        command(line);
        store = open_received(&said);
        kv_store_flush(store);
        assert_int_equal(keep(store, 2, 0, COUNT), COUNT);
        assert_loads(store, 2, COUNT, COUNT);
        close_store(store);
        command("cmp $D/victim $D/before");
        assert_kept(2, 2);
        uint64_t removed, left;
        struct error error = {""};
        assert_int_equal(kv_files_check_shrink(directory, 0, &removed, &left, &error), STATUS_OK);
        command("cmp $D/victim $D/before");
        remove_all(NULL);
        assert_int_equal(set_up(NULL), 0);
    }
}

/* Is the storage there without a disk, and says why? */
static void assert_unused(const char *mode, const char *cure) {
    struct said said = {0};
    struct kv_store *store = open_received(&said);
    struct kv_store_stats stats = kv_store_get_stats(store);
    assert_false(stats.on_disk || stats.writable || kv_store_is_writable(store));
    assert_int_equal(keep(store, 7, 0, COUNT), 0);
    close_store(store);
    assert_int_equal(said.others, 1);
    assert_int_equal(said.lost + said.off, 0);
    if (!strstr(said.last, "nothing is kept on disk") || !strstr(said.last, directory) ||
        !strstr(said.last, mode) || !strstr(said.last, cure))
        fail_msg("%s", said.last);
}

/* As `fathom cache` looks at it and makes it smaller. */
static void assert_not_looked_at(const char *mode, const char *cure) {
    const struct kv_check_listener listener = {.damage = say_damage};
    struct kv_check check;
    uint64_t removed, left;
    struct error errors[2] = {{""}, {""}};
    assert_int_equal(kv_files_check(directory, true, &listener, &check, &errors[0]),
                     STATUS_INVALID);
    assert_int_equal(kv_files_check_shrink(directory, 0, &removed, &left, &errors[1]),
                     STATUS_INVALID);
    for (size_t i = 0; i < ARRAY_COUNT(errors); i++)
        if (!strstr(errors[i].text, mode) || !strstr(errors[i].text, cure))
            fail_msg("%s", errors[i].text);
}

TEST_AROUND(a_directory_where_others_may_write_is_not_used, set_up, remove_all) {
    static const char *const lines[] = {"chmod 777 $D", "chmod 777 $D/v*",
                                        "rm $D/v*/* && chmod 777 $D"};
    struct said said = {0};
    struct kv_store *store = open_received(&said);
    assert_true(kv_store_get_stats(store).on_disk);
    keep(store, 1, 0, COUNT);
    close_store(store);
    for (size_t i = 0; i < ARRAY_COUNT(lines); i++) {
        command(lines[i]);
        command("ls -lR $D >$D.before");
        assert_unused("mode 777", "chmod go-w");
        assert_not_looked_at("mode 777", "chmod go-w");
        command("ls -lR $D | cmp - $D.before && rm $D.before");
        command("chmod 700 $D $D/v*");
        if (i < 2) assert_kept(1, 1);
    }
    assert_sound();
}

TEST_AROUND(a_folder_that_is_a_link_is_not_used, set_up, remove_all) {
    struct said said = {0};
    struct kv_store *store = open_received(&said);
    keep(store, 1, 0, COUNT);
    close_store(store);
    command("mv $D/v* $D/aside && ls -l $D/aside >$D/before");
    char folder[160], line[300];
    folder_of(folder);
    snprintf(line, sizeof line, "ln -s aside %s", folder);
    command(line);
    assert_unused("not a link", "remove it");
    assert_not_looked_at("not a link", "remove it");
    command("ls -l $D/aside | cmp - $D/before");
}

/* One that others may write to takes the place of the one in use: a line, and it is left alone
 * until it is put right. */
TEST_AROUND(a_directory_that_is_replaced_is_looked_at_again, set_up, remove_all) {
    struct said said = {0};
    struct kv_store *store = open_received(&said);
    keep(store, 1, 0, COUNT);
    command("mv $D $D.aside && mkdir -m 777 $D && chmod 777 $D");
    kv_store_flush(store);
    keep(store, 2, 0, COUNT);
    assert_false(kv_store_get_stats(store).writable);
    command("test -z \"$(ls -A $D)\" && rm -rf $D.aside");
    close_store(store);
    assert_int_equal(said.off, 1);
    if (!strstr(said.last, "chmod go-w")) fail_msg("%s", said.last);
}

TEST_AROUND(another_users_directory_is_not_used, set_up, remove_all) {
    struct said said = {0};
    if (geteuid() != 0) skip();
    struct kv_store *store = open_received(&said);
    keep(store, 1, 0, COUNT);
    close_store(store);
    command("chown 65534 $D");
    assert_unused("its owner is user 65534", "chown");
    command("chown 0 $D && chown 65534 $D/v*");
    assert_unused("its owner is user 65534", "chown");
    command("chown -R 65534 $D"); /* root looks after services of other users */
    assert_int_equal(assert_sound().blocks, COUNT);
    command("chown -R 0 $D");
    assert_kept(1, 1);
}
