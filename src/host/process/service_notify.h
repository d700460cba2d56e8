/* SPDX-License-Identifier: Apache-2.0
 * Tells the service manager that started this process how far it is (systemd's Type=notify): a
 * datagram to the socket that NOTIFY_SOCKET names. sd_notify(3) has the protocol, which is promised to
 * stay; it is a few lines, so libsystemd is not linked for it.
 */
#ifndef HOST_PROCESS_SERVICE_NOTIFY_H
#define HOST_PROCESS_SERVICE_NOTIFY_H

/* "READY=1": what it serves can be asked for. "STOPPING=1": it takes nothing new. Does nothing where
 * nobody asked to be told; a manager that cannot be told stops nobody. */
void service_notify(const char *state);

#endif
