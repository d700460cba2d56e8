#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_fleet_slurm_faults.py FATHOM SECONDS: a fleet under Slurm, with several slurmd on this machine, among faults: a node
on which no unit starts; Slurm's controller down for so many seconds, the manager killed meanwhile; a node lost while its
unit drains. Under load all the time: no request fails, each answer is that of a server that nobody disturbed, no job is
submitted twice, and nothing is left that the manager does not know. Left out (77) where Slurm is not installed."""
import os
import signal
import stat
import sys
import tempfile
import time

from fleets import Fleet, undisturbed
from slurm import Slurm
from tide import Tide

down_s = float(sys.argv[2])
BAD = "n2"
BODIES = [{"prompt": [5 + i, 90 + 7 * i, 300 - i] * 16, "max_tokens": 48, "temperature": 0, "ignore_eos": True}
          for i in range(20)]
FILE = """name: %(folder)s
folder: %(folder)s/state
launcher: slurm
connect: %(address)s
gateways: ["%(admin)s"]
program: %(program)s
nodes: 7
decide_s: 1
start_s: 10
start_max_s: 3600
drain_s: 3600
rest_s: 1
roles:
  prefill: {tokens_per_s: 100000, most: 2}
  decode: {tokens_per_s: 100000, most: 5}
arguments: ["--kv-memory", "16MiB", "--threads", "1", "--mtp", "off", "--no-prefix-cache", "--experiment", "step-ms-min=50"]
"""
PROGRAM = """#!/bin/sh
[ "$SLURMD_NODENAME" = %s ] && exit 3
exec %s "$@"
"""


class Load:
    """Three requests a second until it ends; then none may have failed."""

    def __init__(self, fleet, wanted):
        self.wanted, now = wanted, time.time()
        self.tide = Tide(fleet.url, BODIES, lambda now: 3, now, now + 86400)
        self.tide.start()

    def end(self):
        self.tide.end = time.time()
        self.tide.join()
        failed = [answer for answer in self.tide.answers if answer.error]
        assert not failed, (len(failed), failed[0].error)
        for answer in self.tide.answers:
            assert answer.tokens == self.wanted[answer.number], (answer.number, answer.tokens)
        return len(self.tide.answers)


def nodes_of(fleet):
    return {unit["id"]: unit["job"].split()[-1] for unit in fleet.status()["units"]}


def jobs(cluster):
    return sorted(cluster.run("squeue", "-h", "-t", "PENDING,RUNNING", "-o", "%i").split(), key=int)


def avoid_bad_node(fleet, cluster):
    fleet.wait("begins", lambda: fleet.status()["wanted"])
    fleet.run("pin", "decode=4")
    fleet.wait("serves", lambda: fleet.count("decode") == 4 and fleet.count("prefill") == 1)
    assert BAD not in nodes_of(fleet).values(), fleet.status()
    tried = cluster.run("scontrol", "show", "job", "-o").count("NodeList=%s " % BAD)
    assert 1 <= tried <= 3, (tried, cluster.run("scontrol", "show", "job", "-o"))
    print("the bad node was tried %d times" % tried, flush=True)


def lose_controller(fleet, cluster):
    before, units = jobs(cluster), fleet.units()
    controller = cluster.started.pop(1)  # behind munged
    controller.kill()
    controller.wait()
    began = time.monotonic()
    fleet.manager.wait_for("cannot be seen whole.*squeue")
    fleet.run("pin", "decode=5")  # waits until somebody can start it
    for _ in range(2):
        time.sleep(down_s / 2)
        fleet.manager.kill()
        fleet.manage()
        fleet.manager.wait_for("cannot be seen whole.*squeue")
        assert fleet.units() == units
    cluster.start(cluster.names[0], "slurmctld", "-D")
    fleet.manager.wait_for("can be seen whole again")
    print("the controller was down for %.0f s" % (time.monotonic() - began), flush=True)
    fleet.wait("the fifth", lambda: fleet.count("decode") == 5)
    assert set(before) < set(jobs(cluster)) and len(jobs(cluster)) == 6, (before, jobs(cluster))
    # By number: of a job that began a moment before, a controller that was killed may not know, and Slurm starts it again.
    assert set(units) < set(fleet.units()), (units, fleet.units())


def kill_node(cluster, fleet, number, node):
    """As if its power had gone: nobody there says anything to anybody."""
    [slurmd] = [process for process in cluster.started if process.args[-1] == node]
    cluster.started.remove(slurmd)
    pid = fleet.units()[number]
    with open("/proc/%d/stat" % pid, encoding="utf-8") as file:
        step = int(file.read().rsplit(")", 1)[1].split()[1])
    slurmd.kill()
    for each in (step, pid):
        os.kill(each, signal.SIGKILL)
    slurmd.wait()


def lose_in_drain(fleet, cluster):
    number = max(unit["id"] for unit in fleet.status()["units"] if unit["role"] == "decode")
    node = nodes_of(fleet)[number]
    fleet.run("pin", "decode=4")
    fleet.run("drain", str(number))
    fleet.wait("drains", lambda: any(unit["id"] == number and unit["state"] == "draining" for unit in fleet.status()["units"]))
    kill_node(cluster, fleet, number, node)
    fleet.wait("is gone", lambda: number not in nodes_of(fleet))
    fleet.wait("four", lambda: fleet.count("decode") == 4)
    cluster.start_node(node)
    fleet.run("pin", "decode=5")
    fleet.wait("five", lambda: fleet.count("decode") == 5)
    fleet.wait("all known", lambda: set(fleet.units()) == set(nodes_of(fleet)) and len(jobs(cluster)) == 6)


def main():
    if not Slurm.is_there():
        print("Slurm is not there, or this is not root")
        sys.exit(77)
    wanted = undisturbed(BODIES)
    cluster = Slurm(["n%d" % i for i in range(1, 8)], cpus=1, more="SlurmdTimeout=10\nMinJobAge=3600")
    with tempfile.TemporaryDirectory() as folder:
        fleet = Fleet(folder, FILE, cluster.environment)
        with open(folder + "/program", "w", encoding="utf-8") as file:
            file.write(PROGRAM % (BAD, os.path.abspath(sys.argv[1])))
        os.chmod(file.name, stat.S_IRWXU)
        fleet.write([file.name])
        fleet.manage()
        try:
            avoid_bad_node(fleet, cluster)
            load = Load(fleet, wanted)
            lose_controller(fleet, cluster)
            lose_in_drain(fleet, cluster)
            print("%d requests, none failed" % load.end())
        except BaseException:
            print(fleet.manager.said()[-4000:], flush=True)
            raise
        finally:
            fleet.stop()
            cluster.stop()


main()
