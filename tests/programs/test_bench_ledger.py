#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_bench_ledger.py FATHOM: `fathom bench ledger` settles every entry, shares commits where many come, and leaves
nothing in its directory."""
import json
import os
import tempfile

from command import refuse, run

with tempfile.TemporaryDirectory() as folder:
    found = json.loads(run("bench", "ledger", "--dir", folder, "--rates", "20,0", "--seconds", "0.5", "--accounts", "10",
                           "--json"))["rates"]
    assert [each["asked"] for each in found] == [20, 0], found
    for each in found:
        assert 0 < each["p50_ms"] <= each["p99_ms"] and each["writer_us"] > 0 and each["flush_p50_ms"] > 0, each
        assert each["flush_cpu_us"] > 0, each
    assert found[0]["entries"] == 10 and found[1]["together"] > 2, found
    text = run("bench", "ledger", "--dir", folder, "--rates", "0", "--seconds", "0.1", "--accounts", "1")
    assert "reached/s" in text and " any " in text, text
    refuse(1, "--rates: expected", "bench", "ledger", "--dir", folder, "--rates", "5,x", "--seconds", "0.05")
    refuse(1, "cannot make", "bench", "ledger", "--dir", os.path.join(folder, "none"))
    assert os.listdir(folder) == [], os.listdir(folder)
print("ok bench ledger")
