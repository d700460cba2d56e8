#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_bench_rebalance.py FATHOM GOLDENS MODEL SERVING: `fathom bench rebalance` moves experts in the background, splits
replicas no worse by flow, and notices a damaged expert on every rank."""
import json
import subprocess

from test_ranks import fathom, goldens, run, take_ranks

command = ["bench", "rebalance", "--model", goldens + "/v3-bf16-negbias-dense0-mtp", "--ranks", "2", "--runs", "1", "--steps", "64",
           "--sequences", "2", "--batch", "4", "--rebalance-mbps", "0", "--json"]
done = subprocess.run([fathom, *command, "--redundant-experts", "8", "--damage"], stdin=subprocess.DEVNULL,
                      capture_output=True, text=True, timeout=900)
assert done.returncode == 0, done
assert done.stderr.count("\n") == 2 and done.stderr.count("checksum differs") == 2, done.stderr
found = json.loads(done.stdout)
take_ranks(found, 2)
assert found["damage_noticed"] == 2, found
(replicas,) = found["replicas"]
assert 1 <= replicas["flow_max_by_mean"] <= replicas["turns_max_by_mean"], replicas
drained = run(*command, "--redundant-experts", "32", "--drain")
for part, what in ((found, "moving"), (drained, "draining")):
    part = part[what + "_and_quiet"]
    assert part["adoptions"] > 0 and part["bytes_moved"] > 0 and part[what]["median_ms"] > 0, part
    assert 0 < part["quiet"]["median_ms"] <= part["quiet"]["p99_ms"], part
assert "--ranks" in run("bench", "rebalance", code=2)
