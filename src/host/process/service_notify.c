/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/service_notify.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void service_notify(const char *state) {
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t bytes = path ? strlen(path) : 0;
    if (bytes < 2 || bytes >= sizeof address.sun_path || (*path != '/' && *path != '@')) return;
    memcpy(address.sun_path, path, bytes);
    if (*path == '@') address.sun_path[0] = 0; /* an abstract socket */
    int socket_file = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (socket_file < 0) return;
    socklen_t address_bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + bytes);
    (void)!sendto(socket_file, state, strlen(state), MSG_DONTWAIT | MSG_NOSIGNAL,
                  (const struct sockaddr *)&address, address_bytes);
    close(socket_file);
}
