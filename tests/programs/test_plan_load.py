#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_plan_load.py FATHOM: the moments that `fathom plan` takes of a trace are those of its busiest five minutes."""
import json
import subprocess
import sys
import tempfile

with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as trace:
    for second in range(0, 1200):
        busy = 600 <= second < 900
        trace.write(json.dumps({"timestamp": 1000 * second, "input_length": 1024 if busy else 100,
                                "output_length": 10, "hash_ids": [1, 2] if busy else [second + 10]}) + "\n")
    trace.flush()
    out = subprocess.run([sys.argv[1], "plan", "--trace", trace.name, "--tpot-p99", "1ms", "--json"],
                         capture_output=True, text=True).stdout
found = json.loads(out)
assert found["prompt_tokens"] == 1024 and found["answer_tokens"] == 10, found
assert abs(found["requests_per_s"] - 1) < 0.01, found
assert found["hit_share"] > 0.98, found # all but the first prompt, and the last token of each
