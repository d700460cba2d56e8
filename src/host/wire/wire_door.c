/* SPDX-License-Identifier: Apache-2.0 */
#include "host/wire/wire_door.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "host/process/connection_eviction.h"
#include "host/process/file_limit.h"
#include "host/process/log/log.h"

#define STRANGE_NS_MAX ((int64_t)10000000000) /* from the accept to the greeting */
#define CROWDED_NS ((int64_t)60000000000)     /* one log line per period */
#define REFUSED_AT_ONCE 128                   /* more than the listen backlog of libzmq */
#define NO_FILE (-1)

struct door_peer {
    int file; /* NO_FILE: the slot is free */
    struct sockaddr_storage peer;
    socklen_t peer_bytes;
};

struct wire_door {
    const char *address;
    int listener, spare; /* spare: reserved descriptor for refusing a connection */
    struct file_shortage shortage;
    int64_t crowded_ns; /* time of the last excess; 0: never */
    uint32_t strangers_max, address_max;
    struct door_peer strangers[LIMIT_WIRE_STRANGERS];
    struct evict_client
        clients[LIMIT_WIRE_STRANGERS]; /* the same connections for connection_eviction */
};

/* ---- slots ---- */

static void door_free_place(struct wire_door *door, uint32_t place) {
    door->strangers[place].file = NO_FILE;
    door->clients[place] = (struct evict_client){.idle_since_ns = EVICT_BUSY};
}

static uint32_t door_find_file(const struct wire_door *door, int file) {
    for (uint32_t i = 0; i < door->strangers_max; i++)
        if (door->strangers[i].file == file) return i;
    return EVICT_NONE;
}

static bool door_read_peer(int file, struct door_peer *stranger_out) {
    *stranger_out = (struct door_peer){.file = file, .peer_bytes = sizeof stranger_out->peer};
    return getpeername(file, (struct sockaddr *)&stranger_out->peer, &stranger_out->peer_bytes) ==
           0;
}

static uint64_t door_network_of(const struct sockaddr_storage *peer) {
    const struct sockaddr_in *four = (const struct sockaddr_in *)peer;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)peer;
    if (peer->ss_family == AF_INET6)
        return connection_eviction_network(six->sin6_addr.s6_addr, sizeof six->sin6_addr);
    return connection_eviction_network((const uint8_t *)&four->sin_addr, sizeof four->sin_addr);
}

/* Shuts a connection down. The descriptor may be closed by now, or reused. */
static void door_shut(const struct door_peer *stranger) {
    struct door_peer now;
    if (door_read_peer(stranger->file, &now) && now.peer_bytes == stranger->peer_bytes &&
        memcmp(&now.peer, &stranger->peer, now.peer_bytes) == 0)
        (void)shutdown(stranger->file, SHUT_RDWR);
}

static void door_shut_place(struct wire_door *door, uint32_t place) {
    door_shut(&door->strangers[place]);
    door_free_place(door, place);
}

static void wire_door_log_crowded(struct wire_door *door) {
    bool lasts = wire_door_is_crowded(door);
    door->crowded_ns = clock_now_ns();
    if (!lasts)
        log_say(LOG_WARNING, "wire",
                "connections that do not greet are ended, there are too many address=%s "
                "strangers_max=%" PRIu32 " of_one_address_max=%" PRIu32,
                door->address, door->strangers_max, door->address_max);
}

/* ---- opening and closing ---- */

enum status wire_door_open(const char *address, struct wire_door **door_out, struct error *error) {
    uint64_t files = file_limit_raise(0);
    if (files < WIRE_DOOR_FILES_MIN)
        return error_set(error, STATUS_INVALID,
                         "cannot listen on %.200s: this process may open %" PRIu64
                         " files, and clients, units and strangers need %d: raise `ulimit -n`",
                         address, files, WIRE_DOOR_FILES_MIN);
    struct wire_door *door = calloc(1, sizeof *door);
    if (!door) return error_set(error, STATUS_NO_MEMORY, "no memory for a wire");
    door->address = address;
    door->strangers_max =
        files / 8 < LIMIT_WIRE_STRANGERS ? (uint32_t)(files / 8) : LIMIT_WIRE_STRANGERS;
    door->address_max = door->strangers_max / 4;
    door->listener = NO_FILE;
    door->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    for (uint32_t i = 0; i < LIMIT_WIRE_STRANGERS; i++)
        door_free_place(door, i);
    *door_out = door;
    return STATUS_OK;
}

void wire_door_close(struct wire_door *door) {
    if (!door) return;
    if (door->spare != NO_FILE) close(door->spare);
    free(door);
}

void wire_door_listens(struct wire_door *door, int file) {
    int flags = fcntl(file, F_GETFL);
    if (flags >= 0 && fcntl(file, F_SETFL, flags | O_NONBLOCK) == 0) door->listener = file;
}

/* ---- connections without a greeting ---- */

static uint32_t door_find_room(struct wire_door *door, int64_t now_ns) {
    uint32_t place = door_find_file(door, NO_FILE);
    if (place != EVICT_NONE) return place;
    wire_door_log_crowded(door);
    place = connection_eviction_idlest(door->clients, door->strangers_max, now_ns);
    if (place != EVICT_NONE) door_shut_place(door, place);
    return place;
}

void wire_door_enter(struct wire_door *door, int file) {
    struct door_peer stranger;
    int64_t now_ns = clock_now_ns();
    wire_door_leave(door, file);
    if (!door_read_peer(file, &stranger) || stranger.peer.ss_family == AF_UNIX) return;
    uint32_t place = door_find_room(door, now_ns);
    if (place == EVICT_NONE) {
        door_shut(&stranger);
        return;
    }
    uint64_t network = door_network_of(&stranger.peer);
    uint32_t of_address = 1;
    for (uint32_t i = 0; i < door->strangers_max; i++)
        of_address += door->clients[i].is_bound && door->clients[i].network == network;
    door->strangers[place] = stranger;
    door->clients[place] =
        (struct evict_client){.idle_since_ns = now_ns, .network = network, .is_bound = true};
    if (of_address <= door->address_max) return;
    wire_door_log_crowded(door);
    uint32_t idlest = connection_eviction_of_network(door->clients, door->strangers_max, network,
                                                     door->address_max, now_ns);
    door_shut_place(door, idlest == EVICT_NONE ? place : idlest);
}

void wire_door_leave(struct wire_door *door, int file) {
    uint32_t place = door_find_file(door, file);
    if (place != EVICT_NONE) door_free_place(door, place);
}

void wire_door_know(struct wire_door *door, int file) {
    wire_door_leave(door, file);
}

static void door_keep_spare(struct wire_door *door) {
    if (door->spare == NO_FILE) door->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* Refuses a pending connection. Another thread, such as libzmq's, may accept it first with the
 * freed descriptor. The next failure then finds it among the connections without a greeting. */
void wire_door_fail(struct wire_door *door, int failure) {
    file_limit_shortage_report(&door->shortage, door->address, failure);
    door->crowded_ns = clock_now_ns(); /* the log line of the shortage suffices */
    if (door->listener == NO_FILE) return;
    uint32_t idlest = connection_eviction_idlest(door->clients, door->strangers_max, INT64_MAX - 1);
    if (idlest != EVICT_NONE) door_shut_place(door, idlest);
    for (int i = 0, refused = 0; i < REFUSED_AT_ONCE && refused >= 0; i++) {
        if (door->spare != NO_FILE) close(door->spare);
        door->spare = NO_FILE;
        refused = accept4(door->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (refused >= 0) close(refused);
        door_keep_spare(door);
    }
}

void wire_door_tick(struct wire_door *door) {
    int64_t now_ns = clock_now_ns();
    door_keep_spare(door);
    for (uint32_t i = 0; i < door->strangers_max; i++)
        if (door->strangers[i].file != NO_FILE &&
            now_ns - door->clients[i].idle_since_ns > STRANGE_NS_MAX)
            door_shut_place(door, i);
}

uint32_t wire_door_strangers(const struct wire_door *door) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < door->strangers_max; i++)
        count += door->strangers[i].file != NO_FILE;
    return count;
}

bool wire_door_is_crowded(const struct wire_door *door) {
    return door->crowded_ns && clock_now_ns() - door->crowded_ns < CROWDED_NS;
}
