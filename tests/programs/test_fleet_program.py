#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_fleet_program.py FATHOM: a fleet that follows its load, with units as processes of this machine: it grows and
shrinks, no request fails, answers are those of an undisturbed server; its manager is killed, and another one takes
over what runs; a second one is refused; an operator drains, resumes and pins; a launch that fails is told."""
import concurrent.futures
import json
import os
import re
import signal
import subprocess
import tempfile
import time

from server import PATIENCE, Process, environment, fathom, open_url

UNIT = ["--kv-memory", "16MiB", "--threads", "1", "--mtp", "off", "--experiment", "step-ms-min=50"]
FILE = """name: %(folder)s
folder: %(folder)s/state
connect: ipc://%(folder)s/wire
gateways: ["%(admin)s"]
program: %(program)s
nodes: 8
day_s: 600
decide_s: 0.3
start_s: 1
start_max_s: 3600
drain_s: 5
rest_s: 2
limits: {ttft_s: 2.5, tpot_s: 0.25, missed: 0.2}
roles:
  prefill: {tokens_per_s: 600, most: 3}
  decode: {tokens_per_s: 80, most: 4, arguments: ["--max-batch-rows", "4"]}
arguments: %(arguments)s
"""


def ask(url, number):
    body = {"prompt": "%d and %d make " % (number % 10, number % 7) * 6, "max_tokens": 24, "temperature": 0,
            "ignore_eos": True}
    with open_url(url + "/v1/completions", body) as response:
        return json.load(response)["choices"][0]["text"]


class Fleet:
    def __init__(self, folder):
        self.folder, self.path = folder, os.path.join(folder, "fleet.yaml")
        self.gateway = Process("gateway", "--listen", "ipc://%s/wire" % folder, "--port", "0")
        self.url = self.gateway.wait_for_url()
        self.write([fathom])

    def write(self, program):
        with open(self.path, "w") as file:
            file.write(FILE % {"folder": self.folder, "admin": self.gateway.admin, "program": json.dumps(program),
                               "arguments": json.dumps(UNIT)})

    def manage(self):
        self.manager = Process("fleet", "run", self.path)

    def run(self, *words, code=0):
        done = subprocess.run([fathom, "fleet", *words, self.path], capture_output=True, text=True, env=environment)
        assert done.returncode == code, done
        return done

    def status(self):
        done = subprocess.run([fathom, "fleet", "status", "--json", self.path], capture_output=True, text=True,
                              env=environment)
        return json.loads(done.stdout) if done.returncode == 0 else {"units": [], "wanted": {}}

    def count(self, role, state="serving"):
        return sum(unit["role"] == role and unit["state"] == state for unit in self.status()["units"])

    def wait(self, what, condition):
        until = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < until, (what, self.status(), self.manager.said())
            time.sleep(0.1)

    def stop(self):
        self.manager.kill()
        for pid in find_units(self.folder):
            os.kill(pid, signal.SIGKILL)
        self.gateway.kill()


def find_units(folder):
    """Processes of units that connect to the folder's gateway."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % pid, "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if b"--instance" in words and b"ipc://%s/wire" % folder.encode() in words:
            found.append(int(pid))
    return sorted(found)


def check_load(fleet, wanted):
    """Sixteen ask at a time, again and again, until the fleet has grown; then nobody does, until it has shrunk."""
    asked = iter(range(1 << 30))

    def ask_on():
        answers = []
        while fleet.count("decode") < 3:
            number = next(asked)
            answers.append((number % 70, ask(fleet.url, number % 70)))
        return answers

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        for future in [pool.submit(ask_on) for _ in range(16)]:
            for number, answer in future.result():
                assert answer == wanted[number], (number, answer, wanted[number])
    fleet.wait("shrinks", lambda: len(fleet.status()["units"]) == 2 and fleet.count("decode") == 1)
    said = fleet.manager.said()
    assert "starts a unit" in said and "act=drain" in said, said


def check_adoption(fleet):
    """What runs does not end with its manager; the next one starts nothing beside it."""
    fleet.run("pin", "decode=2")
    fleet.wait("is pinned", lambda: fleet.count("decode") == 2)
    before = find_units(fleet.folder)
    for _ in range(3):
        fleet.manager.kill()
        assert "no manager runs" in fleet.run("status").stderr
        assert find_units(fleet.folder) == before
        fleet.manage()
        fleet.wait("takes over", lambda: "no manager runs" not in fleet.run("status").stderr and
                   fleet.count("decode") == 2 and fleet.count("prefill") == 1)
    second = fleet.run("run", code=1)
    assert re.search(r"another manager runs this fleet, process %d" % fleet.manager.process.pid, second.stderr), second
    time.sleep(1)
    assert find_units(fleet.folder) == before
    assert ask(fleet.url, 3)


def check_operator(fleet):
    unit = next(unit["id"] for unit in fleet.status()["units"] if unit["role"] == "decode")
    fleet.run("drain", str(unit))
    fleet.wait("drains", lambda: any(each["id"] == unit and each["state"] == "draining"
                                     for each in fleet.status()["units"]))
    fleet.wait("is replaced", lambda: fleet.count("decode") == 2)
    assert "drained by an operator" in fleet.run("status").stdout
    fleet.run("resume", str(unit))
    fleet.wait("is back", lambda: fleet.count("decode", "draining") == 0 and fleet.count("decode") == 2)
    assert fleet.run("history").stdout == "" or fleet.run("history").stdout.count(",") >= 7
    assert "expected a unit's number" in fleet.run("drain", code=2).stderr
    assert "expected prefill=UNITS" in fleet.run("pin", "decode", code=2).stderr


def check_killed_unit(fleet):
    """A unit that dies is replaced, and a program that is not there is told in one line."""
    before = find_units(fleet.folder)
    os.kill(before[0], signal.SIGKILL)
    fleet.wait("is replaced", lambda: len(find_units(fleet.folder)) == len(before) and
               fleet.count("decode") == 2 and fleet.count("prefill") == 1)
    fleet.manager.stop()
    fleet.write(["/nowhere/fathom"])
    fleet.manage()
    os.kill(find_units(fleet.folder)[0], signal.SIGKILL)
    fleet.manager.wait_for(r'could not be launched unit=\d+ why="/nowhere/fathom: No such file')


def main():
    with tempfile.TemporaryDirectory() as folder:
        alone = Process("serve", "--port", "0", "--kv-memory", "64MiB", "--mtp", "off")
        url = alone.wait_for_url()
        wanted = [ask(url, number) for number in range(70)]
        alone.stop()
        fleet = Fleet(folder)
        fleet.manage()
        try:
            fleet.wait("serves", lambda: fleet.count("decode") == 1 and fleet.count("prefill") == 1)
            check_load(fleet, wanted)
            check_adoption(fleet)
            check_operator(fleet)
            check_killed_unit(fleet)
        finally:
            fleet.stop()


main()
