#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_sim_files.py FATHOM: where `fathom sim` finds what a scenario names: built in, by a path from the scenario's own
folder, or not at all."""
import os
import subprocess
import sys
import tempfile

fathom = sys.argv[1]
failures = []
folder = tempfile.TemporaryDirectory()
SCENARIO = ("hardware: h800\nmodel: tiny-r1\nprices: %s\nmeasure_s: 1\nfleet:\n  units:\n    - {role: both, ranks: 1, rows: 32, "
            "requests: 64, step_tokens: 2048, context_tokens: 4096, pages: 1024}\nload:\n  mix: {requests_per_s: 5, tokens_max: 2048, "
            "think_s: 1, tokens: {answer: 20, text: 100}}\n")


def check(prices, code, says):
    path = os.path.join(folder.name, "mine.yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(SCENARIO % prices)
    done = subprocess.run([fathom, "sim", path], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)
    if done.returncode != code or says not in done.stdout + done.stderr:
        failures.append("%s: exit %d, %s%s" % (prices, done.returncode, done.stdout, done.stderr))


with open(os.path.join(folder.name, "own.yaml"), "w", encoding="utf-8") as file:
    file.write("currency: shells\nnode_hour: 1\ninput_hit: 1\ninput_miss: 2\noutput: 3\n")
check("deepseek-2025-02", 0, "USD an hour")
check("own.yaml", 0, "shells an hour")
check("./none.yaml", 1, "none.yaml")
check("dear", 1, "no prices is called 'dear'; there are deepseek-2025-02")
for failure in failures:
    print(failure)
sys.exit(1 if failures else 0)
