#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_bench_front.py FATHOM: `fathom bench front` drives a real gateway: every request and every stream is answered,
and what they cost is told."""
import json

from command import run

found = json.loads(run("bench", "front", "--streams", "50,100", "--connections", "8", "--seconds", "0.5",
                       "--tokens-a-second", "2000", "--json"))
assert found["requests"]["a_second"] > 0 and found["requests"]["failed"] == 0, found
assert [row["streams"] for row in found["streams"]] == [50, 50, 100], found
for row in found["streams"]:
    assert row["failed"] == 0 and row["tokens_a_second"] > 0 and row["p50_ms"] > 0, row
