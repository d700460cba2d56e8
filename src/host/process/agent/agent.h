/* SPDX-License-Identifier: Apache-2.0
 * An agent: the process of a unit on one host. It checks the host, launches the unit's ranks there,
 * forwards the frames of their rendezvous, and reports their heartbeats and their ends. Its machine
 * (serving/supervision/supervise_agent.h) decides when. The supervisor talks to it over two files
 * (host/process/agent/agent_frame.h), and decides which rank is stuck and what is restarted.
 *
 * Ranks die with their agent. The agent ends when the files are closed, or after twice the timeout
 * without a PING. Its private room has the files that ranks of the host share (packed weights) over
 * all starts of the unit.
 */
#pragma once

#include "base/status.h"

/* Serves the supervisor until it has gone, which is no error. Closes both files. */
enum status agent_run(int in, int out, struct error *error) MUST_USE;
