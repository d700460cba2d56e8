#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_survivors_emulated.py FATHOM [hosts]: of two ranks with an emulated device each, whose rows go from device to device,
one is killed: the other goes on without its memory, the dead one comes back with other memory, and all answers are those of
a server on a CPU. With `hosts` there are two ranks on each of two hosts (hosts.py), and rows go over links, once to each
host; the links break with the dead rank and are made anew."""
import os
import signal
import sys

from hosts import Hosts
from server import Server
from streams import ALL, Tokens, ask_all

SAME = ("--cpu-mask", "avx512", "--mtp", "off")
ON_HOSTS = "hosts" in sys.argv[2:]
FEW = ALL[:1 if ON_HOSTS else 3]  # four ranks share what CPUs there are

alone = Server(*SAME)
wanted = ask_all(alone, Tokens(), FEW)
alone.stop()
hosts = Hosts(2) if ON_HOSTS else None
ranks = ["--ranks", "4", *hosts.options(2), "--experiment", "levels=two"] if hosts else ["--ranks", "2"]
if hosts:
    hosts.enter("h0")
server = Server("--device", "emulated", *SAME, *ranks, "--redundant-experts", "64", "--rebalance", "off", "--rank-timeout", "20",
                wrap=hosts.on("h0") if hosts else ())
assert ask_all(server, Tokens(), FEW) == wanted
os.kill(server.units()[0][1], signal.SIGKILL)
server.wait_for("a rank died, the others go on without it rank=1")
assert ask_all(server, Tokens(), FEW) == wanted
server.wait_for("a rank is there again job=1 rank=1")
assert ask_all(server, Tokens(), FEW) == wanted
server.stop()
print("ok survivors on devices")
