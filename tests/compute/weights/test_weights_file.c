/* SPDX-License-Identifier: Apache-2.0
 * Protects weights in files that outlive a process: whoever maps them has the very bytes that
 * loading gives, however many build at once and whoever was killed while building; damage is found;
 * another checkpoint's or another packing's file is never taken; and where no file can be had,
 * loading goes on without.
 */
#include "test_case.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compute/weights/weights.h"

#define BUILDERS 4

static char source[1024], base[1024], room[1100];
static struct error error;
static const struct load_progress silent = {NULL, NULL};

struct loaded {
    struct checkpoint *checkpoint;
    struct team *team;
    struct weights weights;
};

static struct weights_options in_room(void) {
    return (struct weights_options){.mtp = true, .directory = room};
}

static void open_parts(struct loaded *loaded, const char *directory) {
    if (checkpoint_open(directory, CHECKPOINT_WHOLE, &loaded->checkpoint, &error) ||
        team_open(2, &loaded->team, &error))
        fail_msg("%s", error.text);
}

static void load_from(struct loaded *loaded, const char *directory,
                      const struct weights_options *options) {
    open_parts(loaded, directory);
    if (weights_load(&loaded->weights, loaded->checkpoint, options, loaded->team, &silent, &error))
        fail_msg("%s", error.text);
}

static void unload(struct loaded *loaded) {
    weights_close(&loaded->weights);
    team_close(loaded->team);
    checkpoint_close(loaded->checkpoint);
}

/* Of everything, in the order of slots, wherever they lie. */
static uint64_t digest(const struct weights *weights) {
    uint64_t all = weights_file_digest(weights->common.memory, weights->common.bytes);
    for (uint32_t slot = 0; slot < weights->slot_count; slot++)
        all = all * 31 + weights_file_digest(weights->slots[slot], weights->expert.slot_bytes);
    return all;
}

struct expected {
    uint64_t digest, read_bytes;
};

/* What a load into memory of its own gives. */
static struct expected expect(const char *directory) {
    struct loaded loaded;
    const struct weights_options options = {.mtp = true};
    load_from(&loaded, directory, &options);
    assert_false(loaded.weights.common.in_file);
    struct expected expected = {digest(&loaded.weights), loaded.weights.read_bytes};
    assert_true(expected.read_bytes > 100000);
    unload(&loaded);
    return expected;
}

static uint32_t count_files(void) {
    uint32_t count = 0;
    DIR *entries = opendir(room);
    for (struct dirent *entry; entries && (entry = readdir(entries));)
        count += entry->d_name[0] != '.';
    if (entries) closedir(entries);
    return count;
}

static int remove_room(void **state) {
    char command[1300];
    snprintf(command, sizeof command, "rm -rf '%s'", room);
    return system(command);
}

static int make_room(void **state) {
    snprintf(room, sizeof room, "%s/room", base);
    return 0;
}

#define TEST_IN_ROOM(name) TEST_AROUND(name, make_room, remove_room)

TEST_IN_ROOM(the_next_start_maps_and_reads_nothing) {
    struct expected expected = expect(source);
    struct weights_options options = in_room();
    for (int start = 0; start < 2; start++) {
        struct loaded loaded;
        load_from(&loaded, source, &options);
        assert_true(loaded.weights.common.in_file && loaded.weights.own.in_file);
        assert_true(digest(&loaded.weights) == expected.digest);
        assert_int_equal(loaded.weights.read_bytes, start == 0 ? expected.read_bytes : 0);
        assert_int_equal(weights_mapped(&loaded.weights), loaded.weights.bytes);
        assert_string_equal(loaded.weights.notice.text, "");
        unload(&loaded);
    }
    assert_int_equal(count_files(), 2);
}

struct outcome {
    uint64_t digest, read_bytes;
    ino_t common;
};

static ino_t inode_of(const struct weights_file *file) {
    struct stat info;
    assert_int_equal(fstat(file->descriptor, &info), 0);
    return info.st_ino;
}

/* Ranks of one checkpoint, each with its own slots: here, each with all experts. */
static void build_in_child(uint32_t rank, int gate, int answers) {
    struct loaded loaded;
    struct outcome outcome;
    struct weights_options options = in_room();
    char byte;
    options.rank = rank;
    open_parts(&loaded, source);
    if (read(gate, &byte, 1) != 0) _exit(2); /* all start together: the gate is closed */
    if (weights_load(&loaded.weights, loaded.checkpoint, &options, loaded.team, &silent, &error))
        _exit(3);
    outcome.digest = digest(&loaded.weights);
    outcome.read_bytes = loaded.weights.read_bytes;
    outcome.common = inode_of(&loaded.weights.common.file);
    _exit(write(answers, &outcome, sizeof outcome) == sizeof outcome ? 0 : 4);
}

TEST_IN_ROOM(several_build_one_file_together) {
    struct expected expected = expect(source);
    int gate[2], answers[2], status;
    assert_int_equal(pipe(gate) | pipe(answers), 0);
    for (uint32_t rank = 0; rank < BUILDERS; rank++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child) continue;
        close(gate[1]);
        build_in_child(rank, gate[0], answers[1]);
    }
    close(gate[1]);
    uint64_t read_bytes = 0;
    struct outcome first = {.digest = 0};
    for (uint32_t rank = 0; rank < BUILDERS; rank++) {
        struct outcome outcome;
        assert_true(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
        assert_int_equal(read(answers[0], &outcome, sizeof outcome), sizeof outcome);
        if (rank == 0) first = outcome;
        assert_true(outcome.digest == expected.digest && outcome.common == first.common);
        read_bytes += outcome.read_bytes;
    }
    struct loaded one;
    struct weights_options options = in_room();
    load_from(&one, source, &options); /* finds all of it */
    assert_int_equal(one.weights.read_bytes, 0);
    uint64_t experts = 0;
    for (uint32_t i = 0; i < checkpoint_tensor_count(one.checkpoint); i++) {
        const struct tensor *tensor = checkpoint_tensor_at(one.checkpoint, i);
        if (strstr(tensor->name, ".mlp.experts.")) experts += tensor->bytes;
    }
    assert_int_equal(read_bytes, expected.read_bytes + (BUILDERS - 1) * experts);
    unload(&one);
    close(gate[0]);
    close(answers[0]);
    close(answers[1]);
}

struct doom {
    uint64_t at_bytes;
};

static void die_at(void *context, enum load_stage stage, uint64_t done_bytes,
                   uint64_t total_bytes) {
    const struct doom *doom = context;
    if (done_bytes >= doom->at_bytes) kill(getpid(), SIGKILL);
}

/* Killed at several points; the next start packs what is missing, and only that. */
TEST_IN_ROOM(a_killed_builder_leaves_nothing_wrong) {
    struct expected expected = expect(source);
    struct weights_options options = in_room();
    for (uint64_t tenth = 1; tenth <= 10; tenth += 3) {
        struct doom doom = {expected.read_bytes * tenth / 10};
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            struct loaded doomed;
            const struct load_progress progress = {die_at, &doom};
            open_parts(&doomed, source);
            _exit(weights_load(&doomed.weights, doomed.checkpoint, &options, doomed.team, &progress,
                               &error));
        }
        int status;
        assert_true(waitpid(child, &status, 0) == child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        struct loaded loaded;
        load_from(&loaded, source, &options);
        assert_true(digest(&loaded.weights) == expected.digest);
        assert_true(loaded.weights.read_bytes > 0);
        if (tenth > 4) assert_true(loaded.weights.read_bytes < expected.read_bytes);
        unload(&loaded);
        assert_int_equal(count_files(), 2);
        assert_int_equal(remove_room(NULL), 0);
    }
}

/* A file whose making was cut short: as long as it shall be, without a finished head. */
TEST_IN_ROOM(a_half_made_file_is_made_anew) {
    struct expected expected = expect(source);
    struct weights_options options = in_room();
    for (int whole = 0; whole < 2; whole++) {
        struct loaded loaded;
        char path[2200];
        load_from(&loaded, source, &options);
        unload(&loaded);
        DIR *entries = opendir(room);
        for (struct dirent *entry; (entry = readdir(entries));) {
            struct stat info;
            if (entry->d_name[0] == '.') continue;
            snprintf(path, sizeof path, "%s/%s", room, entry->d_name);
            assert_int_equal(stat(path, &info), 0);
            assert_int_equal(truncate(path, whole ? 0 : info.st_size / 2), 0);
            if (whole) assert_int_equal(truncate(path, info.st_size), 0);
        }
        closedir(entries);
        load_from(&loaded, source, &options);
        assert_true(digest(&loaded.weights) == expected.digest);
        assert_int_equal(loaded.weights.read_bytes, expected.read_bytes);
        unload(&loaded);
    }
}

TEST_IN_ROOM(damage_is_found_and_mended) {
    struct expected expected = expect(source);
    struct weights_options options = in_room();
    struct loaded loaded;
    load_from(&loaded, source, &options);
    size_t common_at = loaded.weights.common.bytes / 2;
    loaded.weights.slots[3][100] ^= 1;
    off_t head = (off_t)(loaded.weights.common.memory - (char *)loaded.weights.common.file.mapping);
    char byte;
    int file = loaded.weights.common.file.descriptor; /* the mapping can only be read by now */
    assert_int_equal(pread(file, &byte, 1, head + (off_t)common_at), 1);
    byte ^= 64;
    assert_int_equal(pwrite(file, &byte, 1, head + (off_t)common_at), 1);
    unload(&loaded);
    options.verify = true;
    load_from(&loaded, source, &options);
    assert_int_equal(loaded.weights.damaged_parts, 2);
    assert_true(digest(&loaded.weights) == expected.digest);
    assert_true(loaded.weights.read_bytes > 0);
    unload(&loaded);
    load_from(&loaded, source, &options);
    assert_int_equal(loaded.weights.damaged_parts, 0);
    assert_int_equal(loaded.weights.read_bytes, 0);
    unload(&loaded);
}

static void copy_checkpoint(const char *to) {
    char command[6144];
    snprintf(command, sizeof command, "mkdir -p '%s' && cp '%s'/*.json '%s'/*.safetensors '%s'", to,
             source, source, to);
    assert_int_equal(system(command), 0);
}

/* Bytes here and there differ: the same shape, names, sizes, perhaps the same second. */
static void change_checkpoint(const char *directory) {
    char path[2200];
    snprintf(path, sizeof path, "%s/model.safetensors", directory);
    int file = open(path, O_RDWR);
    struct stat info;
    assert_true(file >= 0 && fstat(file, &info) == 0);
    for (off_t i = 1; i < 8; i++) {
        char byte;
        assert_int_equal(pread(file, &byte, 1, info.st_size / 8 * i), 1);
        byte ^= 1;
        assert_int_equal(pwrite(file, &byte, 1, info.st_size / 8 * i), 1);
    }
    close(file);
}

TEST_IN_ROOM(another_checkpoint_or_level_takes_its_own) {
    struct expected expected = expect(source);
    struct weights_options options = in_room();
    struct loaded loaded;
    char other[1100];
    snprintf(other, sizeof other, "%s/other", base);
    load_from(&loaded, source, &options);
    unload(&loaded);
    copy_checkpoint(other);
    change_checkpoint(other);
    struct expected changed = expect(other);
    assert_true(changed.digest != expected.digest);
    load_from(&loaded, other, &options);
    assert_int_equal(loaded.weights.read_bytes, expected.read_bytes);
    assert_true(digest(&loaded.weights) == changed.digest);
    unload(&loaded);
    options.level = 1;
    load_from(&loaded, source, &options);
    assert_int_equal(loaded.weights.read_bytes, expected.read_bytes);
    unload(&loaded);
    options.level = 0;
    options.mtp = false;
    load_from(&loaded, source, &options);
    assert_true(loaded.weights.read_bytes > 0);
    unload(&loaded);
    options = in_room();
    load_from(&loaded, source, &options); /* its own is still there */
    assert_int_equal(loaded.weights.read_bytes, 0);
    assert_true(digest(&loaded.weights) == expected.digest);
    unload(&loaded);
}

/* Experts that change places are found where they lie; those of other ranks are read. */
TEST_IN_ROOM(experts_are_found_in_any_slot) {
    struct loaded loaded;
    struct placement placement;
    struct weights_options options = in_room();
    options.placement = &placement;
    load_from(&loaded, source, &(struct weights_options){.mtp = true});
    const struct shape *shape = checkpoint_shape(loaded.checkpoint);
    uint32_t layers = shape->layers + 1, experts = shape->experts;
    unload(&loaded);
    assert_int_equal(placement_open(&placement, layers, experts, 2, experts / 2, &error), 0);
    placement_spread(&placement, 0);
    assert_int_equal(placement_index(&placement, &error), 0);
    load_from(&loaded, source, &options);
    uint64_t all_read = loaded.weights.read_bytes, before = 0, after = 0;
    for (uint32_t slot = 0; slot < loaded.weights.slot_count; slot++)
        before += weights_file_digest(loaded.weights.slots[slot], loaded.weights.expert.slot_bytes);
    unload(&loaded);
    uint32_t last = experts / 2 - 1;
    for (uint32_t layer = 0; layer < layers; layer++) { /* the rank's first and last trade places */
        uint32_t *slots = placement.slot_expert + (size_t)layer * experts, first = slots[0];
        slots[0] = slots[last];
        slots[last] = first;
    }
    assert_int_equal(placement_index(&placement, &error), 0);
    load_from(&loaded, source, &options);
    assert_int_equal(loaded.weights.read_bytes, 0);
    for (uint32_t slot = 0; slot < loaded.weights.slot_count; slot++)
        after += weights_file_digest(loaded.weights.slots[slot], loaded.weights.expert.slot_bytes);
    assert_true(before == after);
    unload(&loaded);
    for (uint32_t layer = 0; layer < layers; layer++) { /* and its second with the other rank's */
        uint32_t *slots = placement.slot_expert + (size_t)layer * experts, second = slots[1];
        slots[1] = slots[last + 1];
        slots[last + 1] = second;
    }
    assert_int_equal(placement_index(&placement, &error), 0);
    load_from(&loaded, source, &options);
    assert_true(loaded.weights.read_bytes > 0 && loaded.weights.read_bytes < all_read / 2);
    unload(&loaded);
    placement_close(&placement);
}

/* An expert that moved here lies in what was a spare, and is found there by the next start; one
 * that was on its way is not. */
TEST_IN_ROOM(experts_that_moved_are_found) {
    struct loaded loaded, whole;
    struct placement placement;
    struct weights_options options = in_room();
    load_from(&whole, source, &(struct weights_options){.mtp = true});
    const struct shape *shape = checkpoint_shape(whole.checkpoint);
    uint32_t experts = shape->experts, each = experts / 2, layer = shape->layers;
    const char *other = whole.weights.slots[whole.weights.mtp->block.first_slot + 1];
    size_t bytes = whole.weights.expert.slot_bytes;
    assert_int_equal(placement_open(&placement, layer + 1, experts, 2, each, &error), 0);
    placement_spread(&placement, 0);
    assert_int_equal(placement_index(&placement, &error), 0);
    options.placement = &placement;
    options.move_bytes = 1;
    for (int arrives = 0; arrives < 2; arrives++) {
        load_from(&loaded, source, &options);
        struct weights *weights = &loaded.weights;
        uint32_t *slots = placement.slot_expert + (size_t)layer * experts;
        assert_int_equal(weights->spare_count, each);
        assert_int_equal(slots[0], 0);
        assert_int_equal(slots[each], 1); /* the other rank's */
        char *spare = weights_spare(weights, 0);
        weights_forget(weights, spare);
        memcpy(spare, other, bytes);
        if (arrives) weights_remember(weights, spare, layer, 1, weights_file_digest(spare, bytes));
        uint32_t slot = weights->mtp->block.first_slot;
        char *before = weights_put_slot(weights, slot, spare);
        assert_true(before != spare);
        unload(&loaded);
        slots[0] = 1;
        slots[each] = 0;
        assert_int_equal(placement_index(&placement, &error), 0);
        options.verify = true;
        load_from(&loaded, source, &options);
        assert_int_equal(loaded.weights.read_bytes == 0, arrives);
        assert_int_equal(loaded.weights.damaged_parts, 0);
        assert_memory_equal(loaded.weights.slots[slot], other, bytes);
        unload(&loaded);
        slots[0] = 0;
        slots[each] = 1;
        assert_int_equal(placement_index(&placement, &error), 0);
        assert_int_equal(remove_room(NULL), 0);
    }
    unload(&whole);
    placement_close(&placement);
}

static void expect_private(const struct weights_options *options, const char *reason) {
    struct expected expected = expect(source);
    struct loaded loaded;
    load_from(&loaded, source, options);
    assert_false(loaded.weights.common.in_file);
    assert_true(digest(&loaded.weights) == expected.digest);
    assert_int_equal(weights_mapped(&loaded.weights), 0);
    if (!strstr(loaded.weights.notice.text, reason) || strchr(loaded.weights.notice.text, '\n'))
        fail_msg("expected '%s' in: %s", reason, loaded.weights.notice.text);
    unload(&loaded);
}

TEST_IN_ROOM(without_a_place_memory_is_private) {
    char nowhere[1200];
    struct weights_options options = in_room();
    snprintf(nowhere, sizeof nowhere, "%s/model.safetensors/room", source);
    options.directory = nowhere;
    expect_private(&options, "Not a directory");
    struct rlimit before, small = {.rlim_cur = 65536};
    options = in_room();
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small.rlim_max = before.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    expect_private(&options, "File too large");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(count_files(), 0); /* nothing half-made stays */
}

static void command_in_room(const char *line) {
    assert_int_equal(setenv("ROOM", room, 1), 0);
    assert_int_equal(setenv("BASE", base, 1), 0);
    assert_int_equal(system(line), 0);
}

/* What another user put in a file's place is neither used nor written to. */
TEST_IN_ROOM(what_was_planted_is_not_mapped) {
    static const char *const plants[] = {"mv $f $v && ln -s $v $f", "mv $f $v && ln $v $f",
                                         "rm $f && : >$v && ln -s $v $f",
                                         "cp $f $v && chown 65534 $f"};
    static const char *const reasons[] = {"symbolic link", "with one name", "symbolic link",
                                          "expected a file of user"};
    struct weights_options options = in_room();
    for (size_t i = 0; i < sizeof plants / sizeof *plants; i++) {
        struct loaded loaded;
        char line[400];
        if (strstr(plants[i], "chown") && geteuid() != 0) continue;
        load_from(&loaded, source, &options);
        unload(&loaded);
        snprintf(
            line, sizeof line,
            "mkdir $BASE/victims && for f in $ROOM/*; do v=$BASE/victims/${f##*/}; %s; done && "
            "cp -r $BASE/victims $BASE/before",
            plants[i]);
        command_in_room(line);
        expect_private(&options, reasons[i]);
        command_in_room("diff -r $BASE/victims $BASE/before && rm -r $BASE/victims $BASE/before");
        assert_int_equal(remove_room(NULL), 0);
    }
}

#define NO_MOUNTS 77

/* In a child: 0, or the step that failed. A file system of one megabyte is full at once. */
static int load_into_little_room(void) {
    struct weights_options options = in_room();
    struct loaded loaded;
    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mkdir(room, 0700) || mount("tmpfs", room, "tmpfs", 0, "size=1m"))
        return NO_MOUNTS;
    setenv("ROOM", room, 1);
    if (system("cd $ROOM && echo precious | tee yolo.weights my-0123456789abcdef.weights.old "
               "theirs-0123456789abcdef.weights >common-0123456789abcdef.weights && "
               "chown 65534 theirs*"))
        return 1;
    load_from(&loaded, source, &options);
    if (!strstr(loaded.weights.notice.text, "No space left on device")) return 2;
    unload(&loaded);
    return system("cd $ROOM && ls yolo.weights my-*.weights.old theirs-*.weights >/dev/null && "
                  "test ! -e common-0123456789abcdef.weights")
               ? 3
               : 0;
}

/* The directory may be one where others keep files, too. */
TEST_IN_ROOM(a_full_directory_loses_files_of_ours_alone) {
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) _exit(load_into_little_room());
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == NO_MOUNTS) {
        print_message("# no file system of our own can be mounted here\n");
        skip();
    }
    assert_int_equal(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0);
}

/* Two that want the same slots, as two units with one directory: the second has its own memory. */
TEST_IN_ROOM(slots_have_one_user) {
    struct expected expected = expect(source);
    struct weights_options options = in_room();
    struct loaded first, second;
    load_from(&first, source, &options);
    load_from(&second, source, &options);
    assert_true(second.weights.common.in_file);
    assert_false(second.weights.own.in_file);
    assert_true(strstr(second.weights.notice.text, "another process") != NULL);
    assert_true(digest(&second.weights) == expected.digest);
    unload(&second);
    options.unit = 1;
    load_from(&second, source, &options);
    assert_true(second.weights.common.in_file && second.weights.own.in_file);
    assert_true(digest(&second.weights) == expected.digest);
    unload(&first);
    unload(&second);
}

static int make_base(void **state) {
    snprintf(source, sizeof source, "%s/v3-bf16-negbias-dense0-mtp", getenv("FATHOM_TEST_GOLDENS"));
    snprintf(base, sizeof base, "%s/fathom-weights-file-XXXXXX",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    return mkdtemp(base) ? 0 : -1;
}

static int remove_base(void **state) {
    char command[1300];
    snprintf(command, sizeof command, "rm -rf '%s'", base);
    return system(command);
}

TEST_GROUP(make_base, remove_base)
