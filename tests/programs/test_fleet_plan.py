#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_fleet_plan.py FATHOM: what fleets would do, in virtual time: the published day's nodes come out within 3 % and
fewer do at the same limits; a fleet's next day follows its history, and without one that is said."""
import math
import os
import re
import subprocess
import tempfile

from server import environment, fathom

FILE = """name: plan
folder: %s
connect: ipc:///nowhere
gateways: ["http://127.0.0.1:1"]
nodes: 40
roles:
  prefill: {tokens_per_s: 1000, most: 20}
  decode: {tokens_per_s: 500, most: 20}
"""


def run(*words, code=0):
    done = subprocess.run([fathom, "fleet", *words], capture_output=True, text=True, env=environment)
    assert done.returncode == code, done
    return done.stdout if code == 0 else done.stderr


def mean_nodes(said):
    return float(re.search(r"([\d.]+) nodes on average", said).group(1))


def main():
    said = run("twin")
    mean, missed = (re.search(r"^%s +(.*)$" % word, said, re.M).group(1).split() for word in ("mean", "missed"))
    assert float(mean[0]) == 226.75 and abs(float(mean[1]) / 226.75 - 1) < 0.03 and float(mean[2]) < float(mean[0]), said
    assert all(float(share.rstrip("%")) < 1 for share in missed), said
    assert len(re.findall(r" (?:fathom|reactive|dynamo|static|clairvoyant) ", said)) == 70, said
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "fleet.yaml")
        with open(path, "w") as file:
            file.write(FILE % folder)
        assert "0 of 288 parts are known" in run("plan", path, code=1)
        with open(os.path.join(folder, "history.csv"), "w") as file:
            for part in range(288):
                rate = 3000 - 2500 * math.cos(part / 288 * 2 * math.pi)
                file.write("%d,%g,%g,0,0,0,0,0\n" % (86400 * 20000 + part * 300, 2 * rate, rate))
        said = run("plan", path)
        nodes, mean = [int(line.split()[3]) for line in said.splitlines()[1:25]], mean_nodes(said)
        assert nodes[12] > 3 * nodes[1] and max(nodes) == nodes[12] or nodes[11] == max(nodes), said
        assert re.search(r"limits missed in 0\.\d+ %", said), said
        # A day of ten minutes with so few tokens that requests of a whole day's length would come in lumps.
        with open(path, "w") as file:
            file.write((FILE % folder).replace("1000", "100").replace("500", "50") + "day_s: 600\n")
        with open(os.path.join(folder, "history.csv"), "w") as file:
            for part in range(288):
                rate = 300 - 250 * math.cos(part / 288 * 2 * math.pi)
                file.write("%.3f,%g,%g,0,0,0,0,0\n" % (600 * 20000 + part * 600 / 288, 2 * rate, rate))
        said = run("plan", path)
        assert abs(mean_nodes(said) / mean - 1) < 0.1, (mean, said)


main()
