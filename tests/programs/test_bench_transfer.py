#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_bench_transfer.py FATHOM: `fathom bench transfer` sends what it says and leaves no process behind."""
import json
import subprocess
import sys

CASES = [("64 KiB slices", blocks, 65536 * blocks) for blocks in (1, 4, 16, 64, 256, 1024)] + \
    [("V3 blocks", blocks, 61 * 64 * 576 * 2 * blocks) for blocks in (1, 4, 16, 32)]

done = subprocess.run([sys.argv[1], "bench", "transfer", "--rounds", "3", "--json"], stdin=subprocess.DEVNULL,
                      capture_output=True, text=True, check=False)
assert done.returncode == 0, done
assert done.stderr == "", done.stderr
found = json.loads(done.stdout)
assert [(c["layout"], c["blocks"], c["bytes"]) for c in found["cases"]] == CASES, found
for case in found["cases"]:
    for path in ("transfer", "tcp", "memcpy"):
        assert 0 < case[path]["low"] <= case[path]["seconds"] <= case[path]["high"], case
