/* SPDX-License-Identifier: Apache-2.0 */
#include "host/wire/wire_keys.h"

#include "base/bytes.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#define KEY_LETTERS (WIRE_KEY_TEXT - 1)
#define FILE_BYTES_MAX ((size_t)1 << 20)

/* ---- writing ---- */

static enum status write_key(const char *path, mode_t mode, const char *comment, const char *key,
                             struct error *error) {
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (file < 0)
        return error_set(error, errno == EEXIST ? STATUS_INVALID : STATUS_IO,
                         "cannot write %.300s: %s; keys are never overwritten", path,
                         strerror(errno));
    bool whole = dprintf(file, "# %s\n%s\n", comment, key) > 0 && fsync(file) == 0;
    int failure = errno;
    if (close(file) == 0 && whole) return STATUS_OK;
    unlink(path);
    return error_set(error, STATUS_IO, "cannot write %.300s: %s", path, strerror(failure));
}

enum status wire_keys_generate(const char *name, struct error *error) {
    char public[WIRE_KEY_TEXT], secret[WIRE_KEY_TEXT], path[PATH_MAX];
    if (strlen(name) + sizeof ".public" > sizeof path)
        return error_set(error, STATUS_INVALID, "the name of the key files is too long");
    if (zmq_curve_keypair(public, secret))
        return error_set(error, STATUS_UNSUPPORTED,
                         "this ZeroMQ was built without CURVE, which keys need");
    snprintf(path, sizeof path, "%s.secret", name);
    enum status status = write_key(
        path, 0600, "A secret key of Fathom: keep it on the machine that uses it.", secret, error);
    if (status) return status;
    snprintf(path, sizeof path, "%s.public", name);
    status = write_key(path, 0644, "A public key of Fathom: for those who speak with its owner.",
                       public, error);
    if (status) {
        snprintf(path, sizeof path, "%s.secret", name);
        unlink(path);
    }
    return status;
}

/* ---- reading ---- */

static bool wire_keys_is_key(struct bytes line) {
    uint8_t raw[32];
    char text[WIRE_KEY_TEXT];
    if (line.count != KEY_LETTERS) return false;
    memcpy(text, line.data, KEY_LETTERS);
    text[KEY_LETTERS] = 0;
    return zmq_z85_decode(raw, text) != NULL;
}

/* Reads the file's keys, at most `most`, into `keys`. */
static enum status read_keys(const char *path, char (*keys)[WIRE_KEY_TEXT], uint32_t most,
                             uint32_t *count_out, struct error *error) {
    struct bytes text;
    uint32_t count = 0, line_number = 0;
    enum status status = file_take(path, FILE_BYTES_MAX, &text, error);
    if (status) return status;
    for (size_t at = 0; at < text.count && !status;) {
        const char *start = text.data + at, *end = memchr(start, '\n', text.count - at);
        struct bytes line = {start, end ? (size_t)(end - start) : text.count - at};
        at += line.count + 1;
        line_number++;
        if (line.count && line.data[line.count - 1] == '\r') line.count--;
        if (line.count == 0 || (line.count >= 2 && memcmp(line.data, "# ", 2) == 0)) continue;
        if (!wire_keys_is_key(line)) {
            status = error_set(error, STATUS_INVALID,
                               "%.300s, line %u: expected a key of %d characters, as fathom keygen "
                               "writes it",
                               path, line_number, KEY_LETTERS);
        } else if (count == most) {
            status = error_set(error, STATUS_TOO_LARGE, "%.300s has more than %u keys", path, most);
        } else {
            memcpy(keys[count], line.data, KEY_LETTERS);
            keys[count++][KEY_LETTERS] = 0;
        }
    }
    free((void *)(uintptr_t)text.data);
    if (!status && count == 0)
        status = error_set(error, STATUS_INVALID, "%.300s has no key in it", path);
    if (!status) *count_out = count;
    return status;
}

enum status wire_keys_open(const char *secret_path, const char *allowed_path,
                           const char *gateway_path, struct wire_keys *keys_out,
                           struct error *error) {
    struct wire_keys keys = {.allowed_count = 0};
    uint32_t one;
    enum status status = read_keys(secret_path, &keys.secret, 1, &one, error);
    if (!status && zmq_curve_public(keys.public, keys.secret))
        status = error_set(error, STATUS_UNSUPPORTED,
                           "this ZeroMQ was built without CURVE, which keys need");
    if (!status && gateway_path) status = read_keys(gateway_path, &keys.gateway, 1, &one, error);
    if (!status && allowed_path) {
        keys.allowed = calloc(WIRE_ALLOWED_MAX, sizeof *keys.allowed);
        if (!keys.allowed)
            status = error_set(error, STATUS_NO_MEMORY, "no memory for the list of keys");
        else
            status =
                read_keys(allowed_path, keys.allowed, WIRE_ALLOWED_MAX, &keys.allowed_count, error);
    }
    if (status)
        wire_keys_close(&keys);
    else
        *keys_out = keys;
    return status;
}

void wire_keys_close(struct wire_keys *keys) {
    free(keys->allowed);
    explicit_bzero(keys, sizeof *keys);
}

bool wire_keys_allow(const struct wire_keys *keys, const uint8_t public[32]) {
    char text[WIRE_KEY_TEXT];
    if (!zmq_z85_encode(text, public, 32)) return false;
    for (uint32_t i = 0; i < keys->allowed_count; i++)
        if (memcmp(keys->allowed[i], text, WIRE_KEY_TEXT) == 0) return true;
    return false;
}

/* ---- addresses ---- */

static bool starts_with(const char *text, const char *start) {
    return strncmp(text, start, strlen(start)) == 0;
}

static bool is_this_machine(const char *host) {
    return starts_with(host, "127.") || starts_with(host, "localhost:") ||
           starts_with(host, "[::1]:");
}

enum status wire_keys_check_address(const char *address, bool has_keys, bool plain_anywhere,
                                    struct error *error) {
    if (starts_with(address, "ipc://") && address[6]) return STATUS_OK;
    if (!starts_with(address, "tcp://") || !strrchr(address + 6, ':'))
        return error_set(error, STATUS_INVALID,
                         "'%.200s' is not an address; expected ipc://PATH or tcp://HOST:PORT",
                         address);
    if (has_keys || plain_anywhere || is_this_machine(address + 6)) return STATUS_OK;
    return error_set(
        error, STATUS_INVALID,
        "%.200s is not limited to this machine, and there are no keys: create them with "
        "fathom keygen, or use --wire-plain to accept any peer unencrypted",
        address);
}
