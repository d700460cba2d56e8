#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_bench_eplb.py FATHOM: by `fathom bench eplb`, placements are never worse than DeepSeek's greedy, reach the bound
at 32 ranks, and tokens that choose replicas by flow are spread no worse than by turns. By `fathom bench eplb --parts`
each part of the balancer brings what is said of it: pairs at 144 ranks, and the moves that each way of keeping saves."""
import json

from command import run

rows = json.loads(run("bench", "eplb", "--tokens", "8", "--json"))["eplb"]
assert len(rows) == 14, "7 kinds of load at 32 and 144 ranks"
for row in rows:
    assert row["below_greedy"] == 0 and row["greedy"] <= row["balance"] <= row["bound"] + 1e-4, row
    assert row["ranks"] > 32 or row["balance"] > 0.99 * row["bound"], row
    assert 1 <= row["batch_split"] <= row["batch_in_turn"], row

report = json.loads(run("bench", "eplb", "--parts", "--rounds", "1", "--tokens", "8", "--json"))["eplb"]
parts = {(row["ranks"], row["part"], row["loads"]): row for row in report}
loads = {row[2] for row in parts}
assert len(loads) == 7 and len(parts) == 3 * 7 * len({row[1] for row in parts}), "every part on every kind of load"


def count(ranks, part, measure, holds):
    return sum(holds(parts[ranks, part, kind][measure], parts[ranks, "all parts", kind][measure]) for kind in loads)


for ranks, part in ((144, "- pairs"), (72, "- second start"), (32, "- exchange")):
    assert count(ranks, part, "balance", lambda without, whole: without < 0.995 * whole) >= 2, part
for ranks, part in ((32, "- repair"), (144, "- names"), (144, "- keep pairs")):
    assert count(ranks, part, "moves", lambda without, whole: without >= 2 * whole) >= 2, part
