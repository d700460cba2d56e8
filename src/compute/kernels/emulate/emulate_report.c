/* SPDX-License-Identifier: Apache-2.0
 * Places in the source. A plain access is known only by its instruction; addr2line, which comes
 * with the compiler, finds its line from the debugging information.
 */
#include "compute/kernels/emulate/emulate_block.h"

#include <dlfcn.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* addr2line's answer: one line. */
static bool ask_line(const char *file, uintptr_t offset, char *text, size_t size) {
    char address[32];
    snprintf(address, sizeof address, "0x%zx", (size_t)offset);
    char *const arguments[] = {"addr2line", "-s", "-e", (char *)(uintptr_t)file, address, NULL};
    int ends[2];
    if (pipe(ends)) return false;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    pid_t child;
    bool started = !posix_spawnp(&child, "addr2line", &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    ssize_t got = started ? read(ends[0], text, size - 1) : 0;
    close(ends[0]);
    if (started) waitpid(child, NULL, 0);
    text[got > 0 ? got : 0] = 0;
    text[strcspn(text, "\n ")] = 0;
    return text[0] && text[0] != '?';
}

void emulate_report_place(const void *instruction, char *text, size_t size) {
    Dl_info info;
    uintptr_t at = (uintptr_t)instruction - 1; /* a return address is behind its call */
    if (!dladdr(instruction, &info)) {
        snprintf(text, size, "%p", instruction);
        return;
    }
    const char *file = strchr(info.dli_fname, '/') ? info.dli_fname : "/proc/self/exe";
    char program[512];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length > 0 && !strcmp(file, "/proc/self/exe")) {
        program[length] = 0;
        file = program;
    }
    if (!ask_line(file, at - (uintptr_t)info.dli_fbase, text, size))
        snprintf(text, size, "+0x%zx", (size_t)(at - (uintptr_t)info.dli_fbase));
}

void emulate_report_at(enum emulate_check check, const void *instruction, const char *format, ...) {
    char place[100], what[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    emulate_report_place(instruction, place, sizeof place);
    char *colon = strrchr(place, ':');
    int line = 0;
    if (colon) {
        line = (int)strtol(colon + 1, NULL, 10);
        *colon = 0;
    }
    emulate_run_found(check, place, line, "%s", what);
}
