#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_fleet_slurm.py FATHOM: a fleet under Slurm, with several slurmd on this machine: a unit is a job; the fleet grows
and shrinks by an operator's pins and answers meanwhile; a manager that is killed is followed by one that submits nothing
twice; while Slurm's controller is down nothing changes; a job that is told to end drains, and another one takes its
place. Left out where Slurm is not installed."""
import json
import os
import signal
import subprocess
import tempfile
import time

from server import PATIENCE, Process, environment, fathom, open_url
from slurm import Slurm

UNIT = ["--kv-memory", "16MiB", "--threads", "1", "--mtp", "off"]
FILE = """name: %(folder)s
folder: %(folder)s/state
launcher: slurm
slurm: ["--ntasks", "1", "--cpus-per-task", "1"]
connect: ipc://%(folder)s/wire
gateways: ["%(admin)s"]
program: ["%(fathom)s"]
nodes: 6
decide_s: 0.5
start_s: 10
start_max_s: 3600
drain_s: 5
rest_s: 1
roles:
  prefill: {tokens_per_s: 100000, most: 2}
  decode: {tokens_per_s: 100000, most: 4}
arguments: %(arguments)s
"""


class Night:
    def __init__(self, folder, cluster):
        self.folder, self.path, self.cluster = folder, os.path.join(folder, "fleet.yaml"), cluster
        self.gateway = Process("gateway", "--listen", "ipc://%s/wire" % folder, "--port", "0")
        self.url = self.gateway.wait_for_url()
        with open(self.path, "w") as file:
            file.write(FILE % {"folder": folder, "admin": self.gateway.admin, "fathom": os.path.abspath(fathom),
                               "arguments": json.dumps(UNIT)})
        self.manage()

    def manage(self):
        self.manager = Process("fleet", "run", self.path, more_environment=self.cluster.environment.items())

    def run(self, *words):
        return subprocess.run([fathom, "fleet", *words, self.path], capture_output=True, text=True, check=True,
                              env=environment).stdout

    def count(self, role):
        try:
            units = json.loads(self.run("status", "--json"))["units"]
        except subprocess.CalledProcessError:
            return 0
        return sum(unit["role"] == role and unit["state"] == "serving" for unit in units)

    def wait(self, what, condition):
        until = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < until, (what, self.run("status"), self.manager.said(), self.cluster.said())
            time.sleep(0.2)

    def jobs(self):
        return sorted(self.cluster.run("squeue", "-h", "-t", "PENDING,RUNNING", "-o", "%i").split(), key=int)

    def ask(self):
        body = {"prompt": "One and one make", "max_tokens": 8, "temperature": 0, "ignore_eos": True}
        with open_url(self.url + "/v1/completions", body) as response:
            return json.load(response)["choices"][0]["text"]


def check(night):
    night.wait("serves", lambda: night.count("decode") == 1 and night.count("prefill") == 1)
    answer = night.ask()
    status = json.loads(night.run("status", "--json"))
    assert {unit["launcher"] for unit in status["units"]} == {"slurm"}, status
    assert sorted(unit["job"].split()[1] for unit in status["units"]) == sorted(night.jobs()), (status, night.jobs())

    night.run("pin", "decode=3")
    night.wait("grows", lambda: night.count("decode") == 3)
    assert len(night.jobs()) == 4 and night.ask() == answer

    before = night.jobs()
    night.manager.kill()
    night.manage()
    night.wait("takes over", lambda: night.manager.said().count("takes a unit over") + night.count("decode") >= 3)
    time.sleep(3)
    assert night.jobs() == before and night.ask() == answer

    controller = night.cluster.started[1]  # behind munged
    controller.send_signal(signal.SIGSTOP)  # it does not answer
    night.manager.wait_for("cannot be seen whole.*squeue")
    assert night.count("decode") == 3 and night.ask() == answer
    controller.send_signal(signal.SIGCONT)
    night.manager.wait_for("can be seen whole again")
    assert night.jobs() == before

    lost = before[-1]  # Slurm takes it back: the unit drains, ends, and is replaced
    night.cluster.run("scancel", "--batch", "--signal", "TERM", lost)
    night.wait("is replaced", lambda: lost not in night.jobs() and night.count("decode") == 3 and
               night.count("prefill") == 1)
    assert night.ask() == answer

    night.run("pin", "decode=auto")
    night.wait("shrinks", lambda: night.count("decode") == 1 and len(night.jobs()) == 2)
    assert night.ask() == answer


def main():
    if not Slurm.is_there():
        print("Slurm is not there, or this is not root")
        return
    cluster = Slurm(["n1", "n2", "n3", "n4", "n5", "n6"])
    with tempfile.TemporaryDirectory() as folder:
        night = Night(folder, cluster)
        try:
            check(night)
        finally:
            night.manager.kill()
            cluster.stop()
            night.gateway.kill()


main()
