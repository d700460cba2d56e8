#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_fleet_faults.py FATHOM [KILLS]: a fleet of processes of this machine, under load all the time, among faults: its
manager is killed again and again (KILLS times) while units come and go; one launch in three fails, and one in ten hangs; a
unit stands still; the gateway ends and comes back. No request fails but those that a dead gateway had, each answer is that
of a server that nobody disturbed, no unit runs twice, and none is there that its manager does not know."""
import os
import random
import signal
import stat
import sys
import tempfile
import time

from fleets import Fleet, undisturbed
from server import Process
from tide import Tide

kills = int(sys.argv[2])
NODES = 8
BODIES = [{"prompt": [5 + i, 90 + 7 * i, 300 - i] * 16, "max_tokens": 24, "temperature": 0, "ignore_eos": True}
          for i in range(20)]
FILE = """name: %(folder)s
folder: %(folder)s/state
connect: %(address)s
gateways: ["%(admin)s"]
program: %(program)s
nodes: %(nodes)d
day_s: 600
decide_s: 0.3
start_s: 3
start_max_s: %(start_max)d
drain_s: 5
rest_s: 0.5
limits: {ttft_s: 2.5, tpot_s: 0.25, missed: 0.2}
roles:
  prefill: {tokens_per_s: 900, most: 2}
  decode: {tokens_per_s: 70, most: 5, arguments: ["--max-batch-rows", "4"]}
arguments: ["--kv-memory", "16MiB", "--threads", "1", "--mtp", "off", "--no-prefix-cache", "--experiment", "step-ms-min=50"]
"""
# Each start is counted in a file: every third ends at once, every tenth does nothing, for ever.
FAILING = """#!/bin/sh
count=0; [ -e %(folder)s/starts ] && read -r count <%(folder)s/starts
echo $((count + 1)) >%(folder)s/starts
[ $((count %% 3)) = 1 ] && exit 3
[ $((count %% 10)) = 9 ] && exec sleep 100000
exec %(fathom)s "$@"
"""


def waves(begin):
    """From two requests a second to nine, and back, in twenty seconds."""
    return lambda now: 9 if (now - begin) % 20 >= 10 else 2


def check_answers(fleet, tide, wanted, spared=lambda answer: False):
    failed = [answer for answer in tide.answers if answer.error and not spared(answer)]
    assert not failed, (len(failed), len(tide.answers), failed[0].error, fleet.manager.said())
    for answer in tide.answers:
        assert answer.error or answer.tokens == wanted[answer.number], (answer.number, answer.tokens)


def check_units(fleet, what):
    """Sooner or later exactly those run that the manager knows."""
    fleet.wait(what, lambda: set(fleet.units()) == {unit["id"] for unit in fleet.status()["units"]})
    assert len(fleet.units()) <= NODES


def kill_managers(fleet, wanted):
    """Each lives for up to two seconds: some die before their first look, some in mid-start, some in mid-drain."""
    dice, begin = random.Random(7), time.time()
    tide = Tide(fleet.url, BODIES, waves(begin), begin, begin + kills * 1.6)
    tide.start()
    starts = drains = 0
    for _ in range(kills):
        time.sleep(dice.uniform(0.1, 2))
        assert len(fleet.units()) <= NODES, fleet.units()
        fleet.manager.kill()
        starts += fleet.manager.said().count("starts a unit")
        drains += fleet.manager.said().count("act=drain")
        fleet.manager.forget()
        fleet.manage()
    tide.join()
    check_answers(fleet, tide, wanted)
    check_units(fleet, "all are known")
    fleet.wait("shrinks", lambda: len(fleet.units()) == 2)
    check_units(fleet, "none is left")
    assert starts >= 3 and drains >= 1, (starts, drains)
    print("%d managers killed, %d requests, %d starts, %d drains" % (kills, len(tide.answers), starts, drains), flush=True)


def fail_launches(fleet, wanted):
    with open(fleet.folder + "/failing", "w", encoding="utf-8") as file:
        file.write(FAILING % {"folder": fleet.folder, "fathom": os.path.abspath(sys.argv[1])})
    os.chmod(file.name, stat.S_IRWXU)
    fleet.manager.stop()
    fleet.words["start_max"] = 5
    fleet.write([file.name])
    fleet.manage()
    begin = time.time()
    tide = Tide(fleet.url, BODIES, lambda now: 3, begin, begin + 15)
    tide.start()
    for count in (5, 1, 5):
        fleet.run("pin", "decode=%d" % count)
        fleet.wait("%d serve" % count, lambda: fleet.count("decode") == count)
    tide.join()
    check_answers(fleet, tide, wanted)
    check_units(fleet, "those that hung are gone")
    with open(fleet.folder + "/starts", encoding="utf-8") as file:
        print("%s starts for %d units; %s" % (file.read().strip(), 8, fleet.run("status").stdout.splitlines()[0]), flush=True)
    assert " 0 failed" not in fleet.run("status").stdout.splitlines()[0]


def stop_unit(fleet, wanted):
    """A process that stands still is there for its launcher, and lost all the same."""
    fleet.run("pin", "decode=3")
    fleet.wait("three", lambda: fleet.count("decode") == 3 and len(fleet.units()) == 4)
    begin = time.time()
    tide = Tide(fleet.url, BODIES, lambda now: 3, begin, begin + 10)
    tide.start()
    number = max(unit["id"] for unit in fleet.status()["units"] if (unit["role"], unit["state"]) == ("decode", "serving"))
    os.kill(fleet.units()[number], signal.SIGSTOP)
    fleet.wait("is replaced", lambda: number not in fleet.units() and fleet.count("decode") == 3)
    tide.join()
    check_answers(fleet, tide, wanted)
    check_units(fleet, "it is gone")


def lose_gateway(fleet, wanted):
    """Units come back to the next one at its address: the manager ends none of them."""
    before, port = fleet.units(), fleet.url.rsplit(":", 1)[1]
    admin = fleet.gateway.admin.rsplit(":", 1)[1]
    fleet.gateway.kill()
    fleet.manager.wait_for("cannot be seen whole")
    time.sleep(4)  # longer than units have to come back while gateways are heard
    fleet.gateway = Process("gateway", "--listen", "ipc://%s/wire" % fleet.folder, "--port", port, "--admin-port", admin)
    fleet.gateway.wait_for_url()
    fleet.manager.wait_for("can be seen whole again")
    begin = time.time()
    tide = Tide(fleet.url, BODIES, lambda now: 3, begin, begin + 5)
    tide.start()
    tide.join()
    check_answers(fleet, tide, wanted)
    assert fleet.units() == before, (fleet.units(), before)


def main():
    wanted = undisturbed(BODIES)
    with tempfile.TemporaryDirectory() as folder:
        fleet = Fleet(folder, FILE, nodes=NODES, start_max=3600)
        fleet.manage()
        try:
            fleet.wait("serves", lambda: fleet.count("decode") == 1 and fleet.count("prefill") == 1)
            kill_managers(fleet, wanted)
            fail_launches(fleet, wanted)
            stop_unit(fleet, wanted)
            lose_gateway(fleet, wanted)
        finally:
            fleet.stop()


main()
