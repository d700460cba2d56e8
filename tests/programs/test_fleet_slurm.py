#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_fleet_slurm.py FATHOM: a fleet under Slurm, with several slurmd on this machine: a unit is a job; the fleet grows
and shrinks by an operator's pins and answers meanwhile; a manager that is killed is followed by one that submits nothing
twice; while Slurm's controller is down nothing changes; a job that is told to end drains, and another one takes its
place. Left out where Slurm is not installed."""
import signal
import tempfile
import time

from fleets import Fleet
from slurm import Slurm

FILE = """name: %(folder)s
folder: %(folder)s/state
launcher: slurm
slurm: ["--ntasks", "1", "--cpus-per-task", "1"]
connect: %(address)s
gateways: ["%(admin)s"]
program: %(program)s
nodes: 6
decide_s: 0.5
start_s: 10
start_max_s: 3600
drain_s: 5
rest_s: 1
roles:
  prefill: {tokens_per_s: 100000, most: 2}
  decode: {tokens_per_s: 100000, most: 4}
arguments: ["--kv-memory", "16MiB", "--threads", "1", "--mtp", "off"]
"""


class Night(Fleet):
    def __init__(self, folder, cluster):
        super().__init__(folder, FILE, cluster.environment)
        self.cluster = cluster

    def jobs(self):
        return sorted(self.cluster.run("squeue", "-h", "-t", "PENDING,RUNNING", "-o", "%i").split(), key=int)

    def answer(self):
        return self.ask({"prompt": "One and one make", "max_tokens": 8, "temperature": 0, "ignore_eos": True})


def check(night):
    night.wait("serves", lambda: night.count("decode") == 1 and night.count("prefill") == 1)
    answer = night.answer()
    status = night.status()
    assert {unit["launcher"] for unit in status["units"]} == {"slurm"}, status
    assert sorted(unit["job"].split()[1] for unit in status["units"]) == sorted(night.jobs()), (status, night.jobs())

    night.run("pin", "decode=3")
    night.wait("grows", lambda: night.count("decode") == 3)
    assert len(night.jobs()) == 4 and night.answer() == answer

    before = night.jobs()
    night.manager.kill()
    night.manage()
    night.wait("takes over", lambda: night.manager.said().count("takes a unit over") + night.count("decode") >= 3)
    time.sleep(3)
    assert night.jobs() == before and night.answer() == answer

    controller = night.cluster.started[1]  # behind munged
    controller.send_signal(signal.SIGSTOP)  # it does not answer
    night.manager.wait_for("cannot be seen whole.*squeue")
    assert night.count("decode") == 3 and night.answer() == answer
    controller.send_signal(signal.SIGCONT)
    night.manager.wait_for("can be seen whole again")
    assert night.jobs() == before

    lost = before[-1]  # Slurm takes it back: the unit drains, ends, and is replaced
    night.cluster.run("scancel", "--batch", "--signal", "TERM", lost)
    night.wait("is replaced", lambda: lost not in night.jobs() and night.count("decode") == 3 and
               night.count("prefill") == 1)
    assert night.answer() == answer

    night.run("pin", "decode=auto")
    night.wait("shrinks", lambda: night.count("decode") == 1 and len(night.jobs()) == 2)
    assert night.answer() == answer


def main():
    if not Slurm.is_there():
        print("Slurm is not there, or this is not root")
        return
    cluster = Slurm(["n1", "n2", "n3", "n4", "n5", "n6"])
    with tempfile.TemporaryDirectory() as folder:
        night = Night(folder, cluster)
        night.manage()
        try:
            check(night)
        finally:
            night.stop()
            cluster.stop()


main()
