/* SPDX-License-Identifier: Apache-2.0
 * Lists of hosts: every name that is taken could be an argument of a remote shell. The first byte
 * says which form the rest is in.
 */
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "base/limits.h"
#include "host/process/configuration/host_list.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct host_list list;
    struct error error;
    if (!size) return 0;
    struct bytes text = {(const char *)data + 1, size - 1};
    enum status status;
    if (data[0] == 's') {
        const char *tasks = memchr(text.data, '\n', text.count);
        struct bytes nodes = {text.data, tasks ? (size_t)(tasks - text.data) : text.count};
        struct bytes rest = {text.data + nodes.count + (tasks != NULL),
                             text.count - nodes.count - (tasks != NULL)};
        status = host_list_parse_slurm(nodes, rest, &list, &error);
    } else if (data[0] == 'f') {
        status = host_list_parse_file(text, "file", &list, &error);
    } else {
        status = host_list_parse(text, &list, &error);
    }
    if (status) return 0;
    check(list.count > 0 && list.count <= HOST_LIST_MAX);
    for (uint32_t i = 0; i < list.count; i++) {
        const char *name = list.names[i];
        check(name[0] && name[0] != '-' && strlen(name) < HOST_NAME_BYTES);
        check(!strpbrk(name, " \t\n;&|$`'\"\\<>(){}[]*?!#~=%"));
        check(list.slots[i] > 0 && list.slots[i] <= LIMIT_RANKS);
    }
    host_list_free(&list);
    return 0;
}
