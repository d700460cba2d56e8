/* SPDX-License-Identifier: Apache-2.0
 * Reports the state of this process to the service manager that started it (systemd's Type=notify)
 * by a datagram to the socket in NOTIFY_SOCKET. sd_notify(3) documents the protocol and promises
 * that it is stable. It takes a few lines, so libsystemd is not linked.
 */
#pragma once

/* "READY=1": the service accepts requests. "STOPPING=1": it accepts no new ones. Does nothing if no
 * service manager asked for notifications; a failure to send is ignored. */
void service_notify(const char *state);
