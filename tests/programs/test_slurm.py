#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_slurm.py FATHOM: `fathom serve` in an allocation of a real Slurm (slurm.py), whose nodes are network namespaces: it finds
hosts and slots by itself, answers as one process does, and goes on after a rank, an srun and a node are killed. A SIGTERM for
the batch script has it finish what has begun; scancel ends all of it at once. Without root or without Slurm's programs nothing
is run."""
import concurrent.futures
import os
import re
import signal
import sys
import time

from hosts import Hosts
from server import PATIENCE, Server, fathom
from slurm import Slurm
from streams import Tokens, ask_all

NAMES = ["n1", "n2", "n3"]
REQUESTS = [{"question": "What is %d + %d?" % (17 * i, 29 * i + 5), "stream": True, "max_tokens": 60, "ignore_eos": True}
            for i in range(1, 5)]
SCRIPT = """#!/bin/sh
#SBATCH -N 3 --ntasks-per-node 2 --exclusive --no-kill
exec %s serve --ranks 6 --interface eth1 --port 0 --admin-port 0 --kv-memory 64MiB --rank-timeout 2
"""


class Job(Server):
    """A server that a batch script starts on the first node."""

    def __init__(self, cluster):
        self.cluster, self.log = cluster, cluster.folder + "/job.out"
        with open(cluster.folder + "/job.sh", "w", encoding="utf-8") as script:
            script.write(SCRIPT % os.path.realpath(fathom))
        self.number = cluster.submit("-o", self.log, script.name)
        self.url = self.wait_for(r"listening on (\S+)\n").group(1)
        self.admin = self.wait_for(r"operator is listened to url=(\S+)\n").group(1)

    def said(self):
        if not os.path.exists(self.log):
            return ""
        with open(self.log, encoding="utf-8") as file:
            return file.read()

    def wait_for(self, pattern, count=1):
        until = time.monotonic() + PATIENCE
        while len(found := list(re.finditer(pattern, self.said()))) < count:
            assert time.monotonic() < until, (pattern, self.said(), self.cluster.said())
            assert self.cluster.state(self.number) in ("PENDING", "CONFIGURING", "RUNNING"), self.said()
            time.sleep(0.1)
        return found[-1]

    def cancel(self, state, *options):
        """scancel, and waits until all of Fathom has ended, and the job with that state."""
        self.cluster.run("scancel", *options, str(self.number))
        until = time.monotonic() + PATIENCE
        while self.cluster.state(self.number) != state or any(self.processes(name) for name in NAMES):
            assert time.monotonic() < until, (self.cluster.state(self.number), self.said(), self.cluster.said())
            time.sleep(0.1)

    def processes(self, name):
        """Fathom's on a node."""
        return [pid for pid in self.cluster.hosts.pids(name) if command_of(pid)[0].endswith("fathom")]


def command_of(pid):
    try:
        with open("/proc/%d/cmdline" % pid, encoding="utf-8") as file:
            return file.read().split("\0")
    except (FileNotFoundError, ProcessLookupError):
        return [""]


def lose(job, wanted, what, harm, heal, line):
    """Waits until it is seen and all are there again; answers are the same afterwards."""
    back = len(re.findall("is there again", job.said()))
    began = time.monotonic()
    harm()
    job.wait_for(line)
    seen = time.monotonic()
    heal()
    job.wait_for("is there again", back + 1)
    print("%s: seen after %.1f s, there again after %.1f s" % (what, seen - began, time.monotonic() - began), flush=True)
    assert ask_all(job, Tokens(), REQUESTS) == wanted, what


def shell_of(job, name):
    """The srun that leads to a node."""
    return next(pid for pid in job.cluster.hosts.pids("n1") if "srun" in command_of(pid)[0] and name in command_of(pid))


def end_well(job, wanted):
    tokens = Tokens()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answers = pool.submit(ask_all, job, tokens, REQUESTS)
        tokens.wait_for(12, answers)
        began = time.monotonic()
        job.cancel("COMPLETED", "--batch", "--signal", "TERM")
        print("the script is sent SIGTERM among answers: all has ended after %.1f s" % (time.monotonic() - began), flush=True)
        assert answers.result() == wanted


def main():
    hosts = Hosts(0, NAMES, "eth1")
    if not hosts.are_apart or not Slurm.is_there():
        print("this takes root, network namespaces and Slurm (Debian's slurmctld, slurmd, slurm-client, munge): nothing is run")
        sys.exit(77)
    alone = Server()
    wanted = ask_all(alone, Tokens(), REQUESTS)
    alone.stop()
    cluster = Slurm(NAMES, hosts=hosts)
    hosts.enter("n1")
    began = time.monotonic()
    job = Job(cluster)
    print("3 nodes of 2 ranks: ready %.1f s after sbatch" % (time.monotonic() - began), flush=True)
    there = [next(name for name in NAMES if pid in hosts.pids(name)) for pid in job.units()[0]]
    assert [name for name in NAMES for _ in range(2)] == there, there
    assert ask_all(job, Tokens(), REQUESTS) == wanted
    lose(job, wanted, "a rank of the last node killed", lambda: os.kill(job.units()[0][5], signal.SIGKILL), lambda: None,
         "a rank died, its unit starts again job=1 rank=5 ")
    lose(job, wanted, "the srun to the last node killed", lambda: os.kill(shell_of(job, "n3"), signal.SIGKILL), lambda: None,
         "a host is lost, its unit starts again job=1 host=n3 ")
    lose(job, wanted, "the second node down", lambda: hosts.take_down("n2"), lambda: cluster.start_node("n2"),
         "a host is lost, its unit starts again job=1 host=n2 ")
    end_well(job, wanted)
    job = Job(cluster)
    began = time.monotonic()
    job.cancel("CANCELLED")
    print("scancel: all has ended after %.1f s" % (time.monotonic() - began), flush=True)


if __name__ == "__main__":
    main()
