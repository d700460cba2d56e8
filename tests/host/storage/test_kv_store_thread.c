/* SPDX-License-Identifier: Apache-2.0
 * Protects the store's beginning and end: whatever was left behind, by a sidecar that is gone, a
 * file that was cut or a process that was killed, the next store finds what is whole and nothing
 * else.
 */
#include <sys/wait.h>

#include "kv_blocks.h"
#include "test_case.h"

TEST_AROUND(the_index_is_rebuilt, set_up, tear_down) {
    struct kv_store_options options = options_of(KV_IO_AUTO, 1024);
    struct kv_store *store = open_with(&options);
    keep(store, 1, 0, BLOCKS);
    close_store(store);
    assert_true(for_files(".idx", remove_file) >= 1);
    for (int i = 0; i < 2; i++) { /* from the header pages, then from the new sidecar */
        store = open_with(&options);
        assert_int_equal(found(store, 1, BLOCKS), BLOCKS);
        assert_loads(store, 1, BLOCKS, BLOCKS);
        close_store(store);
        assert_true(for_files(".idx", NULL) >= 1);
    }
}

static void halve(const char *path) {
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(truncate(path, about.st_size / 2 + 100), 0);
}

TEST_AROUND(cut_files_lose_what_was_cut, set_up, tear_down) {
    struct kv_store_options options = options_of(KV_IO_AUTO, 1024);
    options.segment_bytes = 128 * block_bytes();
    struct kv_store *store = open_with(&options);
    keep(store, 1, 0, BLOCKS);
    close_store(store);
    assert_int_equal(for_files(".kv", halve), 1);
    store = open_with(&options);
    struct loaded loaded = load(store, 1, BLOCKS);
    assert_true(loaded.right && loaded.blocks >= BLOCKS / 2 - 2 && loaded.blocks <= BLOCKS / 2);
    keep(store, 1, 0, BLOCKS);
    assert_true(load(store, 1, BLOCKS).right);
    close_store(store);
}

enum { KILLS = 160, KEPT_ALL = 3 };

/* A process is killed between any two of its transfers; the next finds what is whole. Who is killed
 * while it makes a segment leaves a file without a head, which each later one looks at once. Where
 * several blocks went in one transfer a process has kept all of them before its turn to die
 * comes. */
TEST_AROUND(a_killed_process_leaves_what_it_wrote, set_up, tear_down) {
#ifdef __SANITIZE_THREAD__
    print_message("# TSan knows no threads behind a fork\n");
    return;
#endif
    uint32_t killed = 0;
    for (int64_t dies_after = 1; dies_after < KILLS; dies_after += dies_after < 20 ? 1 : 9) {
        pid_t child = fork();
        if (child == 0) {
            struct faults faults = {.dies_after = dies_after};
            struct kv_io_faults hook;
            struct kv_store_options options = with_faults(KV_IO_THREADS, &hook, &faults);
            struct kv_store *store;
            if (kv_store_open(&options, &store, NULL)) _exit(2);
            keep(store, (uint32_t)dies_after, 0, BLOCKS);
            _exit(KEPT_ALL);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        bool is_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        assert_true(is_killed || (WIFEXITED(status) && WEXITSTATUS(status) == KEPT_ALL));
        killed += is_killed;
    }
    assert_true(killed >= 20);
    struct kv_store_options options = options_of(KV_IO_AUTO, 4096);
    struct kv_store *store = open_with(&options);
    uint32_t whole = 0;
    for (uint32_t sequence = 1; sequence < KILLS; sequence++) {
        struct loaded loaded = load(store, sequence, BLOCKS);
        assert_true(loaded.right);
        whole += loaded.blocks;
    }
    assert_true(whole > 50);
    assert_int_equal(kv_store_get_stats(store).damaged, 0);
    close_store(store);
}
