#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_plan_program.py FATHOM: `fathom plan` gives the same plan for the same seed, runs only what a bound does not
rule out, counts the prompts that can be in time at all, and exits with 1 where no fleet holds, naming the nearest."""
import json
import subprocess
import sys
import tempfile

fathom = sys.argv[1]


def plan(*options):
    return subprocess.run([fathom, "plan", *options], capture_output=True, text=True)


with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as trace:
    for i in range(200):
        trace.write(json.dumps({"timestamp": 500 * i, "input_length": 900, "output_length": 40,
                                "hash_ids": [i % 7, 1000 + i]}) + "\n")
    trace.flush()
    easy = ("--trace", trace.name, "--ttft-p99", "5s", "--tpot-p99", "200ms", "--json")
    first, second = plan(*easy), plan(*easy)
    assert first.returncode == 0, first.stderr
    assert first.stdout == second.stdout
    found = json.loads(first.stdout)
    best = found["fleets"][0]
    assert best["verdict"] == "holds" and best["ttft_p99_s"] <= 5 and best["tpot_p99_s"] <= 0.2, best
    assert all(fleet["nodes_least"] >= best["nodes"] for fleet in found["fleets"] if fleet["verdict"] == "bound")
    assert all(fleet["why"] for fleet in found["fleets"][1:])
    assert not found["cut"] and found["ttft_counted_prompt_tokens"] == 0, found
    never = plan("--trace", trace.name, "--tpot-p99", "1ms")
    assert never.returncode == 1 and "TPOT" in never.stdout and "nearest" in never.stderr, never

with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as trace: # one prompt in ten takes a minute on any rank
    for i in range(100):
        trace.write(json.dumps({"timestamp": 1000 * i, "input_length": 100000 if i % 10 == 9 else 900,
                                "output_length": 40, "hash_ids": [1000 + i]}) + "\n")
    trace.flush()
    sieved = plan("--trace", trace.name, "--ttft-p99", "4s", "--json")
    found = json.loads(sieved.stdout)
    assert 900 < found["ttft_counted_prompt_tokens"] < 100000, found
    assert abs(found["ttft_counted_share"] - 0.9) < 0.02 and found["ttft_s_of_long_prompt"] > 10, found
    assert not any("100000 tokens" in fleet["why"] for fleet in found["fleets"]), found
assert plan().returncode == 2
assert plan("--rate", "1", "--ttft-p99", "soon").returncode == 2
