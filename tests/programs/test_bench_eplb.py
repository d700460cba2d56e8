#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_bench_eplb.py FATHOM: by `fathom bench eplb`, placements are never worse than DeepSeek's greedy, reach the bound at 32
ranks, and tokens that choose replicas by flow are spread no worse than by turns."""
import json

from command import run

rows = json.loads(run("bench", "eplb", "--tokens", "8", "--json"))["eplb"]
assert len(rows) == 14, "7 kinds of load at 32 and 144 ranks"
for row in rows:
    assert row["below_greedy"] == 0 and row["greedy"] <= row["balance"] <= row["bound"] + 1e-4, row
    assert row["ranks"] > 32 or row["balance"] > 0.99 * row["bound"], row
    assert 1 <= row["batch_split"] <= row["batch_in_turn"], row
