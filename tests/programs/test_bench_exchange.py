#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_bench_exchange.py FATHOM GOLDENS MODEL SERVING: `fathom bench exchange` counts what it sends: every token once to
the other rank, unless no expert is there."""
from test_ranks import run

found = run("bench", "exchange", "--ranks", 2, "--tokens", 16, "--hidden", 256, "--experts", 8,
            "--experts-per-token", 7, "--rounds", 7, "--json")
assert found["ranks"] == 2 and found["rounds"] == 7, found
# 256 codes and two scales a token; the heads of messages besides
assert 16 * 264 < found["dispatch"]["bytes"] < 16 * 264 + 1024, found
assert 16 * 3 * 512 <= found["combine"]["bytes"] <= 16 * 4 * 512, found
for part in ("dispatch", "combine"):
    figures = found[part]
    assert 0 < figures["low"] <= figures["seconds"] <= figures["high"], found
    assert figures["floor_seconds"] > 0 and figures["ratio"] > 0, found
assert "--ranks" in run("bench", "exchange", code=2)
