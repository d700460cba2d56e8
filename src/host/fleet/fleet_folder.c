/* SPDX-License-Identifier: Apache-2.0 */
#include "host/fleet/fleet_folder.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/file.h"
#include "contract/record_unit.h"
#include "host/process/log/log.h"
#include "host/process/own_file.h"

#define SAID_AGAIN_NS ((int64_t)60000000000)
#define BOOK_BYTES ((size_t)64 << 10)

static enum status fleet_folder_complain(struct error *error, const char *path) {
    return error_set(error, STATUS_IO, "%.300s: %s", path, own_file_why(errno));
}

static void fleet_folder_path_of(char path[FLEET_PATH_BYTES], const char *folder,
                                 const char *name) {
    snprintf(path, FLEET_PATH_BYTES, "%.300s/%.290s", folder, name);
}

enum status fleet_folder_make(const char *folder, struct error *error) {
    static const char *const inside[] = {"", "orders", "logs"};
    for (size_t i = 0; i < ARRAY_COUNT(inside); i++) {
        char path[FLEET_PATH_BYTES];
        fleet_folder_path_of(path, folder, inside[i]);
        if (mkdir(path, 0755) && errno != EEXIST) return fleet_folder_complain(error, path);
        int made = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (i ? O_NOFOLLOW : 0));
        if (made < 0) return fleet_folder_complain(error, path);
        enum status status = own_file_check_folder(made, path, error);
        close(made);
        if (status) return status;
    }
    return STATUS_OK;
}

/* ---- the lock ---- */

pid_t fleet_folder_holder(const char *folder) {
    char path[FLEET_PATH_BYTES];
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    fleet_folder_path_of(path, folder, "lock");
    int file = own_file_open(path, O_RDWR, 0);
    if (file < 0) return 0;
    bool known = fcntl(file, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
    close(file);
    return known ? lock.l_pid : 0;
}

enum status fleet_folder_lock(const char *folder, struct error *error) {
    char path[FLEET_PATH_BYTES];
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    fleet_folder_path_of(path, folder, "lock");
    int file = own_file_open(path, O_RDWR | O_CREAT, 0644); /* stays open while the process lives */
    if (file < 0) return fleet_folder_complain(error, path);
    if (fcntl(file, F_SETLK, &lock) == 0) return STATUS_OK;
    pid_t holder = fcntl(file, F_GETLK, &lock) == 0 ? lock.l_pid : 0;
    close(file);
    return error_set(error, STATUS_GONE,
                     "%.300s: another manager runs this fleet, process %d; end it first", folder,
                     (int)holder);
}

/* ---- files ---- */

static bool fleet_folder_write_all(int file, struct bytes text) {
    size_t at = 0;
    while (at < text.count) {
        ssize_t count = write(file, text.data + at, text.count - at);
        if (count <= 0) return false;
        at += (size_t)count;
    }
    return true;
}

enum status fleet_folder_write(const char *folder, const char *name, struct bytes text,
                               struct error *error) {
    char path[FLEET_PATH_BYTES], temporary[FLEET_PATH_BYTES + 16];
    fleet_folder_path_of(path, folder, name);
    snprintf(temporary, sizeof temporary, "%s.%d", path, (int)getpid());
    int file = own_file_open(temporary, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    bool whole = file >= 0 && fleet_folder_write_all(file, text) && fdatasync(file) == 0;
    if (file >= 0 && close(file)) whole = false;
    if (whole && rename(temporary, path) == 0) return STATUS_OK;
    enum status status = fleet_folder_complain(error, path);
    unlink(temporary);
    return status;
}

enum status fleet_folder_append(const char *folder, const char *name, const char *line,
                                struct error *error) {
    char path[FLEET_PATH_BYTES];
    fleet_folder_path_of(path, folder, name);
    int file = own_file_open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
    bool whole = file >= 0 && fleet_folder_write_all(file, bytes_of(line));
    enum status status = whole ? STATUS_OK : fleet_folder_complain(error, path);
    if (file >= 0) close(file);
    return status;
}

bool fleet_folder_read_history(const char *line, double *at_s_out, double rates_out[SCALE_SIDES]) {
    double values[3];
    for (int i = 0; i < 3; i++) {
        char *end;
        if (i && *line++ != ',') return false;
        values[i] = strtod(line, &end);
        if (end == line) return false;
        line = end;
    }
    *at_s_out = values[0];
    rates_out[SCALE_PREFILL] = values[1];
    rates_out[SCALE_DECODE] = values[2];
    return true;
}

/* ---- words of the book and of commands, each parsed from the start of the text ---- */

static bool take_word(const char **text, const char *word) {
    size_t bytes = strlen(word);
    if (strncmp(*text, word, bytes) != 0) return false;
    *text += bytes;
    return true;
}

static bool fleet_folder_take_number(const char **text, uint32_t *number_out) {
    char *end;
    if (!isdigit((unsigned char)**text)) return false;
    errno = 0;
    unsigned long long value = strtoull(*text, &end, 10);
    if (errno || value > UINT32_MAX) return false;
    *number_out = (uint32_t)value;
    *text = end;
    return true;
}

static bool fleet_folder_take_role(const char **text, uint32_t *role_out) {
    bool is_prefill = take_word(text, "prefill");
    *role_out = is_prefill ? UNIT_PREFILL : UNIT_DECODE;
    return is_prefill || take_word(text, "decode");
}

/* Parses a role and its number of units. */
static bool take_wanted(const char **text, uint32_t *role_out, uint32_t *count_out) {
    return fleet_folder_take_role(text, role_out) && take_word(text, " ") &&
           fleet_folder_take_number(text, count_out);
}

static bool ends(const char *text) {
    return strcmp(text, "") == 0 || strcmp(text, "\n") == 0;
}

/* ---- the book ---- */

enum status fleet_folder_write_book(const char *folder, const struct fleet_book *book,
                                    struct error *error) {
    char *text = malloc(BOOK_BYTES);
    if (!text) return error_set(error, STATUS_NO_MEMORY, "no memory for the fleet's book");
    size_t at = (size_t)snprintf(text, BOOK_BYTES, "last %u\n", book->last_number);
    for (uint32_t side = 0; side < SCALE_SIDES; side++)
        if (book->pinned[side] != SCALE_FREE)
            at +=
                (size_t)snprintf(text + at, BOOK_BYTES - at, "pin %s %u\n",
                                 side == SCALE_PREFILL ? "prefill" : "decode", book->pinned[side]);
    for (uint32_t i = 0; i < book->count; i++)
        at += (size_t)snprintf(text + at, BOOK_BYTES - at, "unit %u %s%s\n", book->units[i].number,
                               record_unit_role_name(book->units[i].role),
                               book->units[i].drained_by_operator ? " held" : "");
    enum status status = fleet_folder_write(folder, "book", (struct bytes){text, at}, error);
    free(text);
    return status;
}

static bool fleet_folder_read_line(const char *line, struct fleet_book *book) {
    uint32_t number, role;
    if (take_word(&line, "last "))
        return fleet_folder_take_number(&line, &book->last_number) && ends(line);
    if (take_word(&line, "pin ")) {
        if (!take_wanted(&line, &role, &number) || !ends(line)) return false;
        book->pinned[role == UNIT_PREFILL ? SCALE_PREFILL : SCALE_DECODE] = number;
        return true;
    }
    if (!take_word(&line, "unit ") || !fleet_folder_take_number(&line, &number) ||
        !take_word(&line, " ") || !fleet_folder_take_role(&line, &role))
        return false;
    bool drained = take_word(&line, " held");
    if (!ends(line) || !number || book->count == MANAGED_UNITS_MAX) return false;
    book->units[book->count++] =
        (struct fleet_book_unit){.number = number, .role = role, .drained_by_operator = drained};
    return true;
}

enum status fleet_folder_read_book(const char *folder, struct fleet_book *book_out,
                                   struct error *error) {
    char path[FLEET_PATH_BYTES];
    struct bytes text;
    *book_out = (struct fleet_book){.pinned = {SCALE_FREE, SCALE_FREE}};
    fleet_folder_path_of(path, folder, "book");
    enum status status = file_take(path, BOOK_BYTES, &text, error);
    if (status == STATUS_NOT_FOUND) return STATUS_OK;
    if (status) return status;
    char *rest = (char *)(uintptr_t)text.data;
    for (char *line; !status && (line = strsep(&rest, "\n"));)
        if (*line && !fleet_folder_read_line(line, book_out))
            status = error_set(error, STATUS_CORRUPT,
                               "%.300s: '%.80s' is not a line of a fleet's book", path, line);
    free((void *)(uintptr_t)text.data);
    return status;
}

/* ---- operators' commands ---- */

enum status fleet_folder_write_command(const char *folder,
                                       const struct record_fleet_command *command,
                                       struct error *error) {
    char name[96], text[96];
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(name, sizeof name, "orders/%020lld-%d",
             (long long)now.tv_sec * 1000000000 + now.tv_nsec, (int)getpid());
    if (command->kind == FLEET_COMMAND_PIN)
        snprintf(text, sizeof text, "pin %s %u\n", record_unit_role_name(command->role),
                 command->count);
    else
        snprintf(text, sizeof text, "%s %u\n",
                 command->kind == FLEET_COMMAND_DRAIN ? "drain" : "resume", command->number);
    return fleet_folder_write(folder, name, bytes_of(text), error);
}

/* The next complete file after `after`. A file that is still being written has a name with a
 * dot. */
static bool fleet_folder_find_next(const char *folder, const char *after, char name_out[256]) {
    char path[FLEET_PATH_BYTES], next[256] = "";
    fleet_folder_path_of(path, folder, "orders");
    DIR *files = opendir(path);
    for (struct dirent *entry; files && (entry = readdir(files));) {
        const char *name = entry->d_name;
        if (strchr(name, '.') || strcmp(name, after) <= 0) continue;
        if (!next[0] || strcmp(name, next) < 0) snprintf(next, sizeof next, "%s", name);
    }
    if (files) closedir(files);
    memcpy(name_out, next, sizeof next);
    return next[0] != 0;
}

static bool read_command(const char *text, struct record_fleet_command *command) {
    bool known = false;
    *command = (struct record_fleet_command){.kind = FLEET_COMMAND_PIN};
    if (take_word(&text, "pin ")) {
        known = take_wanted(&text, &command->role, &command->count);
    } else if (take_word(&text, "drain ")) {
        command->kind = FLEET_COMMAND_DRAIN;
        known = fleet_folder_take_number(&text, &command->number);
    } else if (take_word(&text, "resume ")) {
        command->kind = FLEET_COMMAND_RESUME;
        known = fleet_folder_take_number(&text, &command->number);
    }
    record_set_head(command, RECORD_FLEET_COMMAND);
    return known && ends(text) && record_valid(command, sizeof *command);
}

/* Renames a file that cannot be removed, such as a folder. If that fails, the file is skipped each
 * time and logged once a minute. */
static void set_aside(const char *path) {
    static int64_t logged_ns; /* 0: never */
    char aside[FLEET_PATH_BYTES + 16];
    int failure = errno;
    snprintf(aside, sizeof aside, "%s.refused", path);
    bool is_aside = rename(path, aside) == 0;
    int64_t now_ns = clock_now_ns();
    if (!is_aside && logged_ns && now_ns - logged_ns < SAID_AGAIN_NS) return;
    if (!is_aside) logged_ns = now_ns;
    log_say(LOG_WARNING, "fleet", "an order cannot be removed, it is %s file=%s why=%s",
            is_aside ? "set aside" : "passed over", is_aside ? aside : path, strerror(failure));
}

bool fleet_folder_take_command(const char *folder, struct record_fleet_command *command_out) {
    char name[256] = "", path[FLEET_PATH_BYTES];
    while (fleet_folder_find_next(folder, name, name)) {
        struct error error;
        struct bytes text;
        snprintf(path, sizeof path, "%.300s/orders/%s", folder, name);
        bool known = !file_take(path, 4096, &text, &error);
        bool is_command = known && read_command(text.data, command_out);
        if (known) free((void *)(uintptr_t)text.data);
        if (unlink(path)) {
            set_aside(path);
            continue;
        }
        if (is_command) return true;
        log_say(LOG_WARNING, "fleet", "an order is none, and was removed file=%s", name);
    }
    return false;
}
