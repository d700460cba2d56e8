#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_bench_calibrate.py FATHOM RANKS: `fathom bench calibrate` measures this machine into a hardware file that the
twin reads: steps of one rank and of RANKS, all or one of them busy, and what lies around steps; it leaves no other
file."""
import json
import os
import re
import subprocess
import sys
import tempfile

from command import fathom, run

RANKS = sys.argv[2]
SMALL = ["--rounds", "4", "--answers", "4", "--max-batch-rows", "4", "--max-batch-tokens", "128", "--context", "128",
         "--kv-memory", "64MiB", "--threads", "1"]
SCENARIO = """
model: tiny-r1
hardware: calibrated.yaml
fleet:
  units:
  - {role: both, count: 1, ranks: %s, rows: 4, step_tokens: 128, pages: 100, context_tokens: 2048}
load:
  mix: {requests_per_s: 5, requests: 20, tokens: {answer: 8, text: 64}}
"""


def calibrate(folder):
    path = folder + "/calibrated.yaml"
    done = subprocess.run([fathom, "bench", "calibrate", *SMALL, "--ranks", RANKS, "--dir", folder, "--out", path],
                          text=True, capture_output=True, timeout=900, check=False)
    assert done.returncode == 0 and not done.stdout, done
    assert "half of a shape's times lie within" in done.stderr, done.stderr
    with open(path, encoding="utf-8") as file:
        rows = [json.loads(row) for row in re.findall(r"^  - (\[.*\])$", file.read(), re.M)]
    assert {(row[0], row[1]) for row in rows} == {(1, 1)} | ({(2, 2), (2, 1)} if RANKS == "2" else set()), rows
    assert all(len(row) == 9 and row[8] > 0 for row in rows), rows
    assert os.listdir(folder) == ["calibrated.yaml"], os.listdir(folder)


def main():
    with tempfile.TemporaryDirectory() as folder:
        calibrate(folder)
        for ranks in {"1", RANKS}:
            with open(folder + "/fleet.yaml", "w", encoding="utf-8") as file:
                file.write(SCENARIO % ranks)
            run("sim", folder + "/fleet.yaml", "--json")


main()
