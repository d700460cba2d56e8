#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_roles.py FATHOM 1: units change between prefill and decode under load, by order and by themselves: every
answer is the very one of a single process, no request is lost, no page is held at the end. A unit that dies and is
started again by its supervisor has the role that it had, not the one that it was started with."""
import os
import signal
import threading
import time

import test_faults as faults
from server import PATIENCE

# Several blocks, with common beginnings.
STORY = "The bell ringer climbed %s steps up to the tower and wrote the number into her book. "
for i in range(8):
    text = "".join(STORY % (7 * j % (90 + i // 3)) for j in range(6 + 3 * i))
    faults.ALL.append({"question": text + "How many steps?", "stream": i % 2 == 0, "seed": i, "temperature": 0.7})


def assign(server, unit, role):
    with server.open("/debug/fleet/role", {"unit": unit, "role": role}) as answer:
        assert answer.status == 200, answer.read()


def change_places(server, stop, turns):
    """The units swap their roles, over all ways to have them, until told to stop; then as at first."""
    units = [unit["id"] for unit in server.fleet()["units"]]
    ways = [("decode", "prefill"), ("both", "prefill"), ("prefill", "prefill"), ("prefill", "decode")]
    while not stop.wait(0.15):
        for unit, role in zip(units, ways[len(turns) % len(ways)]):
            assign(server, unit, role)
        told = {unit["id"]: unit["role"] for unit in server.fleet()["units"]}
        assert [told[unit] for unit in units] == list(ways[len(turns) % len(ways)]), told
        turns.append(1)


def comes_back_as_it_was(server):
    """Roles by order, then the unit is killed."""
    for unit, role in zip(server.fleet()["units"], ("both", "decode")):
        assign(server, unit["id"], role)
    for _ in range(2):  # also when it has come back once already
        (changed,) = [unit for unit in server.fleet()["units"] if unit["role"] == "both"]
        os.kill(changed["ranks"][0]["pid"], signal.SIGKILL)
        until = time.monotonic() + PATIENCE
        while changed["id"] in [unit["id"] for unit in server.fleet()["units"]]:
            assert time.monotonic() < until
            time.sleep(0.01)
        server.wait_for_units(2)
        roles = sorted(unit["role"] for unit in server.fleet()["units"])
        assert roles == ["both", "decode"], roles


def main():
    alone = faults.Server()
    wanted = faults.ask_all(alone, faults.Tokens())
    alone.stop()
    server = faults.Server("--prefill-units", "1", "--decode-units", "1")
    server.wait_for_units(2)
    stop, turns = threading.Event(), []
    changes = threading.Thread(target=change_places, args=(server, stop, turns))
    changes.start()
    for _ in range(2):
        assert faults.ask_all(server, faults.Tokens()) == wanted
    stop.set()
    changes.join(PATIENCE)
    handed = server.fleet()["handed_over_total"]
    print("%d changes by order, %d requests handed over" % (len(turns), handed), flush=True)
    assert turns and handed, (turns, handed)
    server.no_page_is_held()
    comes_back_as_it_was(server)
    assert faults.ask(server, faults.ALL[-1], faults.Tokens()) == wanted[-1]
    server.stop()
    server = faults.Server("--prefill-units", "1", "--decode-units", "2", "--roles", "auto", "--role-seconds", "0.05",
                           "--max-batch-rows", "4", "--max-batch-tokens", "128")
    server.wait_for_units(3)
    for _ in range(2):
        assert faults.ask_all(server, faults.Tokens()) == wanted
    print("%d changes by load" % server.fleet()["role_changes_total"], flush=True)
    roles = {unit["role"] for unit in server.fleet()["units"]}
    assert roles == {"prefill", "decode"}, roles
    server.no_page_is_held()
    server.stop()


main()
