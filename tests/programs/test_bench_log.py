#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_bench_log.py FATHOM: `fathom bench log` says every line of an answer, counts nearly all of a flood, and tells
what each costs."""
import json
import os
import tempfile

from command import run

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "log")
    found = json.loads(run("bench", "log", "--lines", "50", "--file", path, "--rate", "1000", "--json"))
    with open(path) as file:
        lines = file.read().splitlines()
    for kind in ("text", "json", "counted"):
        assert found[kind + "_ns"] > 0 and found[kind + "_percent"] >= 0, found
    assert sum(" access  ended " in line for line in lines) == 9 * 50, len(lines)
    answers = [json.loads(line) for line in lines if line.startswith("{")]
    assert len(answers) == 9 * 50 and all(line["status"] == 200 and line["unit"] == 18 for line in answers)
    refused = [line for line in lines if " access  refused " in line]
    assert 10 <= len(refused) < 9 * 50 and " more=" in refused[-1], refused
text = run("bench", "log", "--lines", "5")
assert "% of a core at rate" in text and "counted" in text, text
print("ok bench log")
