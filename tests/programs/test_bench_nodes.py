#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_bench_nodes.py FATHOM: by `fathom bench nodes`, a prefill unit of the twin that weighs nodes sends less between
them than one whose ranks are all alike, on each of seven kinds of load, and its steps take no longer."""
import json

from command import run

rows = json.loads(run("bench", "nodes", "--json"))["nodes"]
found = {(row["loads"], row["ranks"]): row for row in rows}
assert len(rows) == len(found) == 14, found
for loads in {row["loads"] for row in rows}:
    alike, nodes = found[loads, "alike"], found[loads, "nodes"]
    assert nodes["kilobytes"] < alike["kilobytes"], (alike, nodes)
    assert nodes["step_ms"] < alike["step_ms"] * 1.005, (alike, nodes)
    assert 0 < nodes["moves_far"] < nodes["moves"], nodes
