#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_bench_machines.py BENCH_MACHINES: `gateway` answers every request, whole and streamed, and a request takes at most
twice its tokens' memory plus its table entry. `plan` runs every request in every step, its JSON adds up, and a step's
load reports grow with the ranks, not with their square."""
import json
import sys

from command import run

rows = json.loads(run("gateway", "--model", sys.argv[2], "--requests", "3000", "--units", "3", "--ranks", "32", "--steps", "2", "--json"))["gateway"]
assert [row["answers"] for row in rows] == ["whole", "stream"], rows
for row in rows:
    assert row["tokens_records_per_s"] > 0 and row["tokens_record_ns"] > 0, row
    assert row["floor_bytes"] == 4 * (5000 + 1200) < row["request_bytes"] < 2 * row["floor_bytes"] + 8192, row

found = {}
for ranks in (4, 16):
    found[ranks] = json.loads(run("plan", "--ranks", str(ranks), "--rows", "5", "--context", "200", "--steps", "5", "--json"))
    report = found[ranks]
    assert report["ranks"] == ranks and report["rows"] == 5 * ranks, report
    for part in ("plan", "results", "step"):
        assert 0 < report[part + "_least_ms"] <= report[part + "_ms"], report
    assert report["plan_bytes"] + report["load_bytes"] < report["said_bytes"], report
    assert report["outbox_bytes"] < report["memory_bytes"], report
assert found[16]["load_bytes"] < 4 * found[4]["load_bytes"], "one report a step"
text = run("plan", "--ranks", "2", "--rows", "3", "--context", "100", "--steps", "3")
assert "planning, from the last result on" in text and "floor" in text, text
