#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_fleet_hosts.py FATHOM: a fleet whose units run on hosts of their own, which are network namespaces, reached by a
stand-in for ssh: prompts' KV blocks go from host to host; a host is lost while its unit drains; another one is cut off for
a while, and what runs there is replaced, and ended when it is back. Under load all the time: no request fails, and answers
are those of a server that nobody disturbed. Left out (77) where there are no namespaces."""
import os
import stat
import sys
import tempfile
import time

from fleets import Fleet, undisturbed
from hosts import Hosts
from tide import Tide

BODIES = [{"prompt": [5 + i, 90 + 7 * i, 300 - i] * 16, "max_tokens": 48, "temperature": 0, "ignore_eos": True}
          for i in range(20)]
FILE = """name: %(folder)s
folder: %(folder)s/state
launcher: hosts
hosts: [h1, h2, h3, h4, h5]
remote_shell: ["%(folder)s/shell"]
connect: %(address)s
kv_listen: net0
gateways: ["%(admin)s"]
program: %(program)s
nodes: 5
decide_s: 0.5
start_s: 4
start_max_s: 3600
drain_s: 3600
rest_s: 1
roles:
  prefill: {tokens_per_s: 100000, most: 2}
  decode: {tokens_per_s: 100000, most: 4}
arguments: ["--wire-plain", "--kv-memory", "16MiB", "--threads", "1", "--mtp", "off", "--no-prefix-cache", "--experiment",
            "step-ms-min=50"]
"""
# What `ps` says on a host are the host's own processes; `ssh` gives its words to a shell.
SHELL = """#!/bin/sh
host=$1; shift
PATH=%(folder)s/bin:$PATH SPACE=%(prefix)s-$host exec %(shell)s "$host" sh -c "$*"
"""
PS = """#!/bin/sh
exec %(ps)s -ww -o pid=,args= -p "$(ip netns pids "$SPACE" | paste -sd,)"
"""


def write_program(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, stat.S_IRWXU)


def host_of(fleet, number):
    [job] = [unit["job"] for unit in fleet.status()["units"] if unit["id"] == number]
    return job.split()[-1]


def check_answers(fleet, tide, wanted):
    tide.join()
    failed = [answer for answer in tide.answers if answer.error]
    assert not failed, (len(failed), failed[0].error, fleet.manager.said())
    for answer in tide.answers:
        assert answer.tokens == wanted[answer.number], (answer.number, answer.tokens)


def flow(fleet, seconds):
    begin = time.time()
    tide = Tide(fleet.url, BODIES, lambda now: 3, begin, begin + seconds)
    tide.start()
    return tide


def newest(fleet, role="decode"):
    return max(unit["id"] for unit in fleet.status()["units"] if unit["role"] == role and unit["state"] == "serving")


def lose_in_drain(fleet, hosts, wanted):
    """A host of which a unit drains is switched off: what it had goes on elsewhere."""
    tide, number = flow(fleet, 8), newest(fleet)
    time.sleep(3)
    host = host_of(fleet, number)
    fleet.run("drain", str(number))
    fleet.wait("drains", lambda: any(unit["id"] == number and unit["state"] == "draining" for unit in fleet.status()["units"]))
    hosts.take_down(host)
    fleet.wait("is given up", lambda: all(unit["id"] != number or unit["state"] == "ending"
                                          for unit in fleet.status()["units"]))
    fleet.wait("is replaced", lambda: fleet.count("decode") == 2)
    check_answers(fleet, tide, wanted)
    hosts.bring_up(host)
    fleet.wait("is gone", lambda: all(unit["id"] != number for unit in fleet.status()["units"]))


def cut_off(fleet, hosts, wanted):
    """A host whose cable is pulled, so that neither a gateway nor the shell reaches it."""
    tide, number = flow(fleet, 8), newest(fleet)
    host = host_of(fleet, number)
    down = os.path.join(hosts.folder, "down-" + host)
    with open(down, "w", encoding="utf-8"):
        pass
    hosts.pull(host)
    fleet.wait("is replaced", lambda: fleet.count("decode") == 2 and newest(fleet) != number)
    check_answers(fleet, tide, wanted)
    assert number in fleet.units()
    hosts.plug(host)
    os.unlink(down)
    fleet.wait("is ended", lambda: number not in fleet.units())
    fleet.wait("is gone", lambda: all(unit["id"] != number for unit in fleet.status()["units"]))


def main():
    hosts = Hosts(6)
    if not hosts.are_apart:
        print("network namespaces are not there, or this is not root")
        sys.exit(77)
    wanted = undisturbed(BODIES)
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(folder + "/bin")
        write_program(folder + "/shell", SHELL % {"folder": folder, "prefix": hosts.prefix, "shell": hosts.shell})
        write_program(folder + "/bin/ps", PS % {"ps": "/bin/ps"})
        hosts.enter("h0")
        fleet = Fleet(folder, FILE, address="tcp://%s:5555" % hosts.address("h0"), more=["--wire-plain"])
        fleet.manage()
        try:
            fleet.wait("begins", lambda: fleet.status()["wanted"])
            fleet.run("pin", "decode=2")
            fleet.wait("serves", lambda: fleet.count("decode") == 2 and fleet.count("prefill") == 1)
            assert {host_of(fleet, unit["id"]) for unit in fleet.status()["units"]} == {"h1", "h2", "h3"}
            check_answers(fleet, flow(fleet, 4), wanted)
            lose_in_drain(fleet, hosts, wanted)
            cut_off(fleet, hosts, wanted)
            assert set(fleet.units()) == {unit["id"] for unit in fleet.status()["units"]}
        finally:
            fleet.stop()


main()
