#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_bench_gateway.py FATHOM: `fathom bench gateway` has every request answered, in either way, and tells of the
memory of each no more than twice what its tokens take, beside its own table's entry."""
import json

from command import run

rows = json.loads(run("bench", "gateway", "--requests", "3000", "--units", "3", "--ranks", "32", "--steps", "2",
                      "--json"))["gateway"]
assert [row["answers"] for row in rows] == ["whole", "stream"], rows
for row in rows:
    assert row["tokens_records_per_s"] > 0 and row["tokens_record_ns"] > 0, row
    assert row["floor_bytes"] == 4 * (5000 + 1200) < row["request_bytes"] < 2 * row["floor_bytes"] + 8192, row
