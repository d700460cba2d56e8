/* SPDX-License-Identifier: Apache-2.0
 * The memory that a host's ranks need is known from the headers of the checkpoint's shards: the
 * weights that all ranks share once, the host's share of experts with replicas, and its share of KV
 * pages. The values of steps are not included.
 */
#include "host/process/agent/agent_facts.h"

#include "base/checksum.h"
#include "base/cpus.h"
#include "compute/weights/weights_size.h"
#include "host/process/configuration/model_path.h"
#include "host/process/machine_memory.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <limits.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define GB 1e9

/* Makes a text printable in a log line. */
static void keep_printable(char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 127) *text = '?';
}

/* ---- the program ---- */

void agent_facts_name_program(struct agent_facts *facts_out) {
    struct stat info;
    snprintf(facts_out->version, sizeof facts_out->version, "%s", FATHOM_VERSION);
    facts_out->build[0] = 0;
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &info)) return;
    void *program = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (program == MAP_FAILED) return;
    snprintf(facts_out->build, sizeof facts_out->build, "%016" PRIx64,
             checksum_of(program, (size_t)info.st_size));
    munmap(program, (size_t)info.st_size);
}

/* ---- the model ---- */

static void agent_facts_measure(const struct checkpoint *checkpoint,
                                const struct agent_check *check, struct agent_facts *facts) {
    const struct memory_need need = {
        .model = weights_size_of(checkpoint, true),
        .ranks = check->total,
        .redundant = check->redundant,
        .host_ranks = check->count,
        .shares = true,
        .kv = (double)check->kv_bytes,
    };
    const struct memory_sum sum = memory_need_host(&need);
    facts->needed_bytes = check->force ? 0 : (uint64_t)memory_need_total(&sum);
}

static bool look_at_model(const struct agent_check *check, struct agent_facts *facts) {
    char path[PATH_MAX];
    struct checkpoint *checkpoint;
    struct error error;
    enum status status = model_path_find(check->model[0] ? check->model : NULL, path, &error);
    if (!status) status = checkpoint_open(path, CHECKPOINT_SHAPE_ONLY, &checkpoint, &error);
    if (status) {
        snprintf(facts->lacks, sizeof facts->lacks, "%s", error.text);
        return false;
    }
    checkpoint_identity(checkpoint, facts->model);
    agent_facts_measure(checkpoint, check, facts);
    checkpoint_close(checkpoint);
    return true;
}

/* ---- network and memory ---- */

static bool agent_facts_is_wanted(const struct ifaddrs *at, const char *interface, int family) {
    if (!at->ifa_addr || at->ifa_addr->sa_family != family || !(at->ifa_flags & IFF_UP))
        return false;
    return interface[0] ? strcmp(at->ifa_name, interface) == 0 : !(at->ifa_flags & IFF_LOOPBACK);
}

static const void *address_in(const struct sockaddr *address) {
    return address->sa_family == AF_INET
               ? (const void *)&((const struct sockaddr_in *)(const void *)address)->sin_addr
               : (const void *)&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
}

bool agent_facts_find_address(const char *interface, char address_out[static 64]) {
    static const int families[] = {AF_INET, AF_INET6};
    struct ifaddrs *all = NULL;
    address_out[0] = 0;
    if (getifaddrs(&all)) all = NULL;
    for (size_t i = 0; i < 2 && !address_out[0]; i++)
        for (const struct ifaddrs *at = all; at && !address_out[0]; at = at->ifa_next)
            if (agent_facts_is_wanted(at, interface, families[i]))
                inet_ntop(families[i], address_in(at->ifa_addr), address_out, 64);
    freeifaddrs(all);
    if (!address_out[0] && !interface[0]) memcpy(address_out, "127.0.0.1", sizeof "127.0.0.1");
    return address_out[0] != 0;
}

bool agent_facts_read_address(const char *text, char address_out[static 64]) {
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST};
    struct addrinfo *found;
    bool is_numeric = strlen(text) < 64 && !getaddrinfo(text, NULL, &hints, &found);
    if (is_numeric) freeaddrinfo(found);
    if (is_numeric) snprintf(address_out, 64, "%s", text);
    return is_numeric || (text[0] && agent_facts_find_address(text, address_out));
}

static bool look_at_network(const struct agent_check *check, struct agent_facts *facts) {
    if (agent_facts_find_address(check->interface, facts->address)) return true;
    snprintf(facts->lacks, sizeof facts->lacks,
             "interface %s is not there, is down or has no address; `ip address` lists them",
             check->interface);
    return false;
}

uint32_t agent_facts_find_port(void) {
    struct sockaddr_in any = {.sin_family = AF_INET};
    socklen_t bytes = sizeof any;
    int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool found = file >= 0 && !bind(file, (const struct sockaddr *)&any, sizeof any) &&
                 !getsockname(file, (struct sockaddr *)&any, &bytes);
    if (file >= 0) close(file);
    return found ? ntohs(any.sin_port) : 0;
}

/* Containers on one machine have its boot's id, and host names and devices of their own. */
static uint32_t agent_facts_machine(const char *host) {
    char text[40 + 64] = "";
    int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t count = file < 0 ? 0 : read(file, text, 40);
    if (file >= 0) close(file);
    if (count <= 0) return 0;
    snprintf(text + count, sizeof text - (size_t)count, "%s", host);
    return (uint32_t)checksum_of(text, strlen(text)) | 1;
}

void agent_facts_take(const struct agent_check *check, struct agent_facts *facts_out) {
    *facts_out = (struct agent_facts){.port = agent_facts_find_port(),
                                      .free_bytes = machine_memory_look("").free_bytes};
    agent_facts_name_program(facts_out);
    facts_out->cpus = cpus_usable();
    if (gethostname(facts_out->host, sizeof facts_out->host - 1)) facts_out->host[0] = 0;
    if (look_at_network(check, facts_out)) look_at_model(check, facts_out);
    facts_out->machine = agent_facts_machine(facts_out->host);
    keep_printable(facts_out->host);
    keep_printable(facts_out->lacks);
}

void agent_facts_name_devices(const char *sys, const char *interface, char text[static 256]) {
    char path[512], line[32] = "0";
    snprintf(text, 256, "%s", interface);
    snprintf(path, sizeof path, "%.200s/class/net/%.60s/device/infiniband", sys, interface);
    DIR *entries = opendir(path);
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%.200s/class/net/%.60s/dev_port", sys, interface);
        FILE *file = fopen(path, "re");
        if (file && !fgets(line, sizeof line, file)) line[0] = 0;
        if (file) fclose(file);
        snprintf(text, 256, "%.60s,%.60s:%lu", interface, entry->d_name,
                 strtoul(line, NULL, 10) + 1);
        break;
    }
    if (entries) closedir(entries);
}

/* ---- verification ---- */

bool agent_facts_verify(const struct agent_facts *facts, const struct agent_facts *own,
                        const struct agent_facts *first, char text[static 512]) {
    text[0] = 0;
    if (strcmp(facts->version, own->version) != 0)
        snprintf(text, 512, "its fathom is version %s, and this is %s; install the same",
                 facts->version, own->version);
    else if (strcmp(facts->build, own->build) != 0)
        snprintf(text, 512, "its fathom is another build (%s, and this is %s); copy this one there",
                 facts->build, own->build);
    else if (facts->lacks[0])
        snprintf(text, 512, "%s", facts->lacks);
    else if (memcmp(facts->model, first->model, sizeof facts->model) != 0)
        snprintf(text, 512, "its model is another than that of host %s; copy that one there",
                 first->host);
    else if (facts->free_bytes && facts->needed_bytes > facts->free_bytes)
        snprintf(text, 512,
                 "its ranks need about %.1f GB of memory, and %.1f are free; give it fewer ranks, "
                 "more hosts, or a smaller --kv-memory; --force loads the model anyway",
                 (double)facts->needed_bytes / GB, (double)facts->free_bytes / GB);
    return !text[0];
}
