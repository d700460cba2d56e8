#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_roles.py FATHOM 1: units change between prefill and decode under load, by order and by themselves: every
answer is the very one of a single process, no request is lost, no page is held at the end. By themselves: prompts
alone come until a decode unit computes prompts, then long answers until a unit makes answers again. A unit that dies
and is started again by its supervisor has the role that it had, not the one that it was started with."""
import concurrent.futures
import json
import os
import signal
import threading
import time

import streams
import test_faults as faults
from server import PATIENCE, wait_until

# Several blocks, with common beginnings.
STORY = "The bell ringer climbed %s steps up to the tower and wrote the number into her book. "
for i in range(8):
    text = "".join(STORY % (7 * j % (90 + i // 3)) for j in range(6 + 3 * i))
    streams.ALL.append({"question": text + "How many steps?", "stream": i % 2 == 0, "seed": i, "temperature": 0.7})


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
    streams.ask(server, streams.ALL[-1], faults.Tokens())  # a unit that answers has heard of its role
    for _ in range(2):  # also when it has come back once already
        (changed,) = [unit for unit in server.fleet()["units"] if unit["role"] == "both"]
        os.kill(changed["ranks"][0]["pid"], signal.SIGKILL)
        wait_until(lambda: changed["id"] not in [unit["id"] for unit in server.fleet()["units"]])
        server.wait_for_units(2)
        roles = sorted(unit["role"] for unit in server.fleet()["units"])
        assert roles == ["both", "decode"], roles


# What presses a kind of unit whose pages hold six of these prompts, and half of the answers. Prompts alone stay where
# they are computed, so they take nothing from those who make answers.
PROMPTS = [{"prompt": "".join(STORY % ((7 * j + i) % (90 + i)) for j in range(30)), "max_tokens": 0, "echo": True,
            "logprobs": 0, "temperature": 0} for i in range(14)]
ANSWERS = [{"prompt": "Tell me of the bell number %d." % i, "max_tokens": 250, "temperature": 0, "ignore_eos": True}
           for i in range(32)]
SMALL = ("--max-batch-rows", "32", "--max-batch-tokens", "128", "--no-prefix-cache")


def complete(server, body):
    with server.open("/v1/completions", body) as answer:
        return json.load(answer)["choices"]


def complete_all(server, bodies):
    with concurrent.futures.ThreadPoolExecutor(len(bodies)) as pool:
        return list(pool.map(lambda body: complete(server, body), bodies))


def press(server, bodies, wanted, kind, count):
    """Load comes until this kind has so many units."""
    before, rounds, until = server.fleet()["role_changes_total"], 0, time.monotonic() + PATIENCE
    while sum(unit["role"] == kind for unit in server.fleet()["units"]) < count:
        assert time.monotonic() < until, server.fleet()
        assert complete_all(server, bodies) == wanted
        rounds += 1
    changes = server.fleet()["role_changes_total"] - before
    print("%d changes by load until %d units were %s, %d rounds" % (changes, count, kind, rounds), flush=True)
    assert changes > 0, changes


def by_order(wanted):
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
    assert streams.ask(server, streams.ALL[-1], faults.Tokens()) == wanted[-1]
    server.stop()


def main():
    alone = faults.Server()
    wanted = faults.ask_all(alone, faults.Tokens())
    prompts, answers = complete_all(alone, PROMPTS), complete_all(alone, ANSWERS)
    alone.stop()
    by_order(wanted)
    faults.Server.kv_memory = "8MiB"
    server = faults.Server("--prefill-units", "1", "--decode-units", "2", "--roles", "auto", "--role-seconds", "0.05",
                           *SMALL)
    server.wait_for_units(3)
    for unit, role in zip(server.fleet()["units"], ("prefill", "decode", "decode")):
        assign(server, unit["id"], role)  # one that came before the others may have changed already
    press(server, PROMPTS, prompts, "prefill", 2)
    press(server, ANSWERS, answers, "decode", 2)
    assert server.fleet()["role_choice"].startswith(("stays: ", "a unit changes ")), server.fleet()
    roles = {unit["role"] for unit in server.fleet()["units"]}
    assert roles == {"prefill", "decode"}, roles
    server.no_page_is_held()
    server.stop()


main()
