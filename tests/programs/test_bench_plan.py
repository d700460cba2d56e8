#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_bench_plan.py FATHOM: `fathom bench plan` runs every request in every step, its JSON adds up, and a step's load
reports grow with the ranks, never with their square."""
import json

from command import run

found = {}
for ranks in (4, 16):
    found[ranks] = json.loads(run("bench", "plan", "--ranks", str(ranks), "--rows", "5", "--context", "200", "--steps",
                                  "5", "--json"))
    report = found[ranks]
    assert report["ranks"] == ranks and report["rows"] == 5 * ranks, report
    for part in ("plan", "results", "step"):
        assert 0 < report[part + "_least_ms"] <= report[part + "_ms"], report
    assert report["plan_bytes"] + report["load_bytes"] < report["said_bytes"], report
    assert report["outbox_bytes"] < report["memory_bytes"], report
assert found[16]["load_bytes"] < 4 * found[4]["load_bytes"], "one report a step"
text = run("bench", "plan", "--ranks", "2", "--rows", "3", "--context", "100", "--steps", "3")
assert "planning, from the last result on" in text and "floor" in text, text
print("ok bench plan")
