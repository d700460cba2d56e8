/* SPDX-License-Identifier: Apache-2.0
 * Tells the service manager that started this process how far it is (systemd's Type=notify): a
 * datagram to the socket that NOTIFY_SOCKET names. sd_notify(3) has the protocol, which is promised to
 * stay; it is a few lines, so libsystemd is not linked for it.
 */
#pragma once

/* "READY=1": the service accepts requests. "STOPPING=1": it accepts no new ones. Does nothing if no
 * service manager asked for notifications; a failure to send is ignored. */
void service_notify(const char *state);
