/* SPDX-License-Identifier: Apache-2.0
 * Protects keys of wires: files that their owner alone can read and that nothing overwrites, lists
 * that let in whom they name, and addresses that need keys.
 */
#include "host/wire/wire_keys.h"

#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include "base/check.h"

#include "test_case.h"

static char folder[64];

static int set_up(void **state) {
    snprintf(folder, sizeof folder, "/tmp/fathom-test-keys-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static void path_in(char out[128], const char *name) {
    snprintf(out, 128, "%s/%s", folder, name);
}

TEST(a_pair_is_written_once_and_its_secret_is_its_owners) {
    char name[128], secret[128];
    struct error error;
    struct stat found;
    path_in(name, "unit");
    assert_int_equal(wire_keys_generate(name, &error), STATUS_OK);
    assert_int_equal(wire_keys_generate(name, &error), STATUS_INVALID); /* never again */
    path_in(secret, "unit.secret");
    assert_int_equal(stat(secret, &found), 0);
    assert_int_equal(found.st_mode & 0777, 0600);
}

TEST(a_gateway_lets_in_the_keys_of_its_list_alone) {
    static const char *const names[] = {"a", "b", "c"};
    static const char *const secrets[] = {"a.secret", "b.secret", "c.secret"};
    char path[128], allowed[128], command[128];
    struct wire_keys keys[3], gateway;
    struct error error;
    for (int i = 0; i < 3; i++) {
        path_in(path, names[i]);
        assert_int_equal(wire_keys_generate(path, &error), STATUS_OK);
        path_in(path, secrets[i]);
        assert_int_equal(wire_keys_open(path, NULL, NULL, &keys[i], &error), STATUS_OK);
    }
    snprintf(command, sizeof command, "cd %s && cat a.public b.public >allowed", folder);
    assert_int_equal(system(command), 0);
    path_in(allowed, "allowed");
    assert_int_equal(wire_keys_open(path, allowed, NULL, &gateway, &error), STATUS_OK);
    for (int i = 0; i < 3; i++) {
        uint8_t public[32];
        assert_non_null(zmq_z85_decode(public, keys[i].public));
        assert_int_equal(wire_keys_allow(&gateway, public), i < 2);
        wire_keys_close(&keys[i]);
    }
    wire_keys_close(&gateway);
}

TEST(addresses_beyond_this_machine_need_keys) {
    struct error error;
    const char *const here[] = {"ipc:///tmp/a", "tcp://127.0.0.1:5", "tcp://localhost:5",
                                "tcp://[::1]:5"};
    for (size_t i = 0; i < ARRAY_COUNT(here); i++)
        assert_int_equal(wire_keys_check_address(here[i], false, false, &error), STATUS_OK);
    const char *const there[] = {"tcp://10.0.0.1:5", "tcp://*:5", "tcp://localhost.evil.org:5"};
    for (size_t i = 0; i < ARRAY_COUNT(there); i++) {
        assert_int_equal(wire_keys_check_address(there[i], false, false, &error), STATUS_INVALID);
        assert_non_null(strstr(error.text, "keygen"));
        assert_int_equal(wire_keys_check_address(there[i], true, false, &error), STATUS_OK);
        assert_int_equal(wire_keys_check_address(there[i], false, true, &error), STATUS_OK);
    }
    const char *const none[] = {"", "ipc://", "tcp://a", "udp://127.0.0.1:5", "127.0.0.1:5"};
    for (size_t i = 0; i < ARRAY_COUNT(none); i++)
        assert_int_equal(wire_keys_check_address(none[i], true, true, &error), STATUS_INVALID);
}

TEST(a_key_file_must_be_right) {
    char path[128];
    struct error error;
    struct wire_keys keys;
    path_in(path, "odd");
    const char *const texts[] = {"",
                                 "# only a comment\n",
                                 "abc\n",
                                 "0000000000000000000000000000000000000000x\n",
                                 "~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~\n",
                                 ("0000000000000000000000000000000000000000\n"
                                  "0000000000000000000000000000000000000000\n")};
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fputs(texts[i], file);
        fclose(file);
        assert_int_not_equal(wire_keys_open(path, NULL, NULL, &keys, &error), STATUS_OK);
        assert_non_null(strstr(error.text, "odd"));
    }
}

TEST_GROUP(set_up, tear_down)
