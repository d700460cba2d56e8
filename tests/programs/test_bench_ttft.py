#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_bench_ttft.py FATHOM: `fathom bench ttft` asks in every way and finds what it should, which it checks itself;
nothing is left behind. What follows a cache hit is measured with its floor."""
import json
import os
import tempfile

from command import run

with tempfile.TemporaryDirectory() as directory:
    report = json.loads(run("bench", "ttft", "--dir", directory, "--prompt", "200", "--rounds", "1", "--starts", "1", "--json"))
    assert report["start_to_first_token_ms"] >= report["ready_ms"] > 0, report
    assert report["worst_step_ms"] >= report["step_ms"] > 0, report
    for side in "computed", "disk", "host", "auto", "slow_in_step", "slow_auto":
        assert report[side + "_ms"] > 0, (side, report)
    assert [name for name in os.listdir(directory) if "ttft" in name] == []
    # After a cache hit: a step is part of the wait, and no faster than its floor.
    report = json.loads(run("bench", "ttft", "--prompt", "130", "--lengths", "1,8", "--rounds", "3", "--json"))
    assert report["cached_tokens"] == 128 and [row["tokens"] for row in report["lengths"]] == [1, 8], report
    for row in report["lengths"]:
        assert 0 < row["floor_ms"] <= row["step_ms"] and 0 < row["least_ms"] <= row["first_token_ms"], row
        assert max(row["of_flops"], row["of_read"]) < 1, row
