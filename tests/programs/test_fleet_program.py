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
import tempfile
import time

from fleets import Fleet
from server import Process, open_url

FILE = """name: %(folder)s
folder: %(folder)s/state
connect: %(address)s
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
arguments: ["--kv-memory", "16MiB", "--threads", "1", "--mtp", "off", "--experiment", "step-ms-min=50"]
"""


def ask(url, number):
    body = {"prompt": "%d and %d make " % (number % 10, number % 7) * 6, "max_tokens": 24, "temperature": 0,
            "ignore_eos": True}
    with open_url(url + "/v1/completions", body) as response:
        return json.load(response)["choices"][0]["text"]


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
    before = sorted(fleet.units().values())
    for _ in range(3):
        fleet.manager.kill()
        assert "no manager runs" in fleet.run("status").stderr
        assert sorted(fleet.units().values()) == before
        fleet.manage()
        fleet.wait("takes over", lambda: "no manager runs" not in fleet.run("status").stderr and
                   fleet.count("decode") == 2 and fleet.count("prefill") == 1)
    second = fleet.run("run", code=1)
    assert re.search(r"another manager runs this fleet, process %d" % fleet.manager.process.pid, second.stderr), second
    time.sleep(1)
    assert sorted(fleet.units().values()) == before
    assert ask(fleet.url, 3)


def gateway_units(fleet):
    """The states of the gateway's units by their numbers; each that has sent its hello has the number in its instance."""
    with open_url(fleet.gateway.admin + "/debug/fleet") as response:
        units = [unit for unit in json.load(response)["units"] if unit["state"] != "joining"]
    for unit in units:
        assert unit["id"] == int(unit["instance"][6:12], 16), units
    return {unit["id"]: unit["state"] for unit in units}


def check_numbers(fleet):
    """A unit has one number, at the manager and at the gateway. Another unit connected first, so no unit of the fleet has the
    connection 1."""
    fleet.wait("agree", lambda: {unit["id"] for unit in fleet.status()["units"]} == set(gateway_units(fleet)))
    for number in gateway_units(fleet):
        fleet.gateway.wait_for("serves unit=%d " % number)


def check_operator(fleet):
    unit = next(unit["id"] for unit in fleet.status()["units"] if unit["role"] == "decode")
    fleet.run("drain", str(unit))
    fleet.wait("drains", lambda: any(each["id"] == unit and each["state"] == "draining"
                                     for each in fleet.status()["units"]))
    assert gateway_units(fleet)[unit] == "draining"
    fleet.wait("is replaced", lambda: fleet.count("decode") == 2)
    assert "drained by an operator" in fleet.run("status").stdout
    fleet.run("resume", str(unit))
    # One is too many now, and has ended by then: else it would be counted, or killed, below.
    fleet.wait("is back", lambda: len(fleet.status()["units"]) == 3 and fleet.count("decode") == 2)
    assert json.loads(fleet.run("status", "--json").stdout)["wanted"]["decode"] == 2
    assert fleet.run("history").stdout == "" or fleet.run("history").stdout.count(",") >= 7
    assert "expected a unit's number" in fleet.run("drain", code=2).stderr
    assert "expected prefill=UNITS" in fleet.run("pin", "decode", code=2).stderr


def check_killed_unit(fleet):
    """A unit that dies is replaced, and a program that is not there is told in one line."""
    before = sorted(fleet.units().values())
    os.kill(before[0], signal.SIGKILL)
    fleet.wait("is replaced", lambda: len(sorted(fleet.units().values())) == len(before) and
               fleet.count("decode") == 2 and fleet.count("prefill") == 1)
    fleet.manager.stop()
    fleet.write(["/nowhere/fathom"])
    fleet.manage()
    os.kill(sorted(fleet.units().values())[0], signal.SIGKILL)
    fleet.manager.wait_for(r'could not be launched unit=\d+ why="/nowhere/fathom: No such file')


def main():
    with tempfile.TemporaryDirectory() as folder:
        alone = Process("serve", "--port", "0", "--kv-memory", "64MiB", "--mtp", "off")
        url = alone.wait_for_url()
        wanted = [ask(url, number) for number in range(70)]
        alone.stop()
        fleet = Fleet(folder, FILE)
        early = Process("unit", "--connect", fleet.address, "--kv-memory", "16MiB", "--threads", "1")
        fleet.gateway.wait_for("serves unit=1 ")
        early.kill()
        fleet.gateway.wait_for("is gone unit=1 ")
        fleet.manage()
        try:
            fleet.wait("serves", lambda: fleet.count("decode") == 1 and fleet.count("prefill") == 1)
            check_numbers(fleet)
            check_load(fleet, wanted)
            check_adoption(fleet)
            check_numbers(fleet)
            check_operator(fleet)
            check_killed_unit(fleet)
        finally:
            fleet.stop()


main()
