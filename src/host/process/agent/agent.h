/* SPDX-License-Identifier: Apache-2.0
 * An agent: a unit's hand on one host. It looks what the host has, launches the unit's ranks there,
 * passes on what they say to meet one another, and tells their signs of life and their ends, as its
 * machine decides (serving/supervision/supervise_agent.h). Its supervisor speaks with it over two
 * files (host/process/agent/agent_frame.h), and decides who is stuck, and what starts again.
 *
 * Ranks live as long as their agent, and an agent as long as its supervisor is heard: an end of the
 * files, or twice the timeout without a PING, ends both. The agent's private room holds what ranks
 * of the host share (packed weights), over all starts of the unit.
 */
#pragma once

#include "base/status.h"

/* Serves the supervisor behind the files until it is gone, which is no error. Files are closed. */
enum status agent_run(int in, int out, struct error *error) MUST_USE;
