#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_bench_exchange.py FATHOM GOLDENS MODEL SERVING: `fathom bench exchange` counts what it sends: every token once to
the other rank, unless no expert is there; and with a sum by groups one row back for a group on the other rank."""
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
    assert figures["whole_seconds"] >= figures["seconds"], found
    assert figures["whole_floor_seconds"] >= figures["floor_seconds"], found
found = run("bench", "exchange", "--ranks", 2, "--tokens", 16, "--hidden", 256, "--experts", 8, "--groups", 2,
            "--experts-per-token", 5, "--rounds", 7, "--json")
assert found["combine_by_groups"]["bytes"] == 16 * 512 < found["combine"]["bytes"], found  # 5 of 8: of either group
assert 0 <= found["dispatch_by_groups"]["bytes"] - found["dispatch"]["bytes"] <= 16 * 4 * 4 + 64, found  # the weights
kept = ["bench", "exchange", "--ranks", 2, "--tokens", 16, "--experts", 8, "--groups", 4, "--experts-per-token", 3]
found = run(*kept, "--groups-kept", 2, "--rounds", 7, "--json")
assert found["combine_by_groups"]["bytes"] < found["combine"]["bytes"], found
assert "--groups" in run(*kept, "--groups-kept", 1, code=2)
assert "--ranks" in run("bench", "exchange", code=2)
