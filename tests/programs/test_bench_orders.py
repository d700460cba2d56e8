#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_bench_orders.py FATHOM GOLDENS MODEL SERVING: `fathom bench orders` brings each of ten ranks its order by both
ways, and counts rank 0's messages: eight down a tree, nine one by one."""
from test_ranks import run

found = run("bench", "orders", "--ranks", 10, "--rows", 4, "--context", 640, "--rounds", 3, "--json")
assert found["ranks"] == 10 and found["plans_bytes"] > 9 * 4 * 10 * 4 and found["results_bytes"] > 0, found
assert [way["messages"] for way in found["ways"]] == [8, 9, 8, 9], found
for way in found["ways"]:
    assert 0 < way["last_us"] <= way["whole_us"] and way["sending_us"] > 0 and way["taking_us"] > 0, found
assert "--ranks" in run("bench", "orders", code=2)
