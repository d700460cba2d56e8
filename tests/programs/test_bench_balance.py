#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_bench_balance.py FATHOM: `fathom bench balance`: one line a method, JSON, and clear refusals."""
import json
import subprocess
import sys
import tempfile

fathom = sys.argv[1]
METHODS = ["work", "round-robin", "least-requests", "least-tokens", "power-of-two"]


def run(*options):
    return subprocess.run([fathom, "bench", "balance", *options], text=True, capture_output=True, timeout=1800)


def trace_file(folder):
    """Prompts that share blocks, a few of them long, one request each 100 ms."""
    path = folder + "/trace.jsonl"
    with open(path, "w", encoding="utf-8") as file:
        for i in range(400):
            length = 50000 if i % 40 == 0 else 600 + 37 * (i * i % 97)
            ids = [7] + [1000 + 100 * i + k for k in range(length // 512)]
            file.write(json.dumps({"timestamp": 100 * i, "input_length": length,
                                   "output_length": 20 + i % 300, "hash_ids": ids}) + "\n")
    return path


with tempfile.TemporaryDirectory() as folder:
    trace = trace_file(folder)
    few = ("--prefill-ranks", "8", "--decode-ranks", "8", "--step-tokens", "2048")
    done = run(trace, *few, "--json")
    assert done.returncode == 0, done
    lines = json.loads(done.stdout)
    assert [line["method"] for line in lines] == METHODS * 2, lines
    for line in lines:
        spreads = [value for key, value in line.items() if key.endswith("_spread")]
        assert len(spreads) == 2 and all(1 <= value <= 8 for value in spreads), line
    prefill = {line["method"]: line for line in lines[:len(METHODS)]}
    assert prefill["work"]["cached_tokens"] > 0, prefill
    assert prefill["work"]["attention_spread"] < prefill["round-robin"]["attention_spread"], prefill
    assert run(trace, *few, "--json").stdout == done.stdout, "virtual time has no noise"
    # Levelled steps are everybody's, or nobody's; and a load that the weakest method can bear.
    full = json.loads(run(trace, *few, "--decode-ranks", "0", "--rank-steps", "full", "--json").stdout)
    assert [line["method"] for line in full] == METHODS, full
    for line in full:
        assert line["token_spread"] != prefill[line["method"]]["token_spread"], (line, prefill)
    half, most = (json.loads(run(trace, *few, "--decode-ranks", "0", "--load-of", "weakest", "--load", load,
                                 "--json").stdout) for load in ("50", "200"))
    for at_half, at_most in zip(half, most):
        assert at_half["ttft_p50_ms"] < at_most["ttft_p50_ms"], (half, most)
    assert run(trace, "--load-of", "everybody").returncode == 2
    table = run(trace, *few, "--decode-ranks", "0").stdout
    assert all(method in table for method in METHODS) and "decode" not in table, table
    # stage times that were measured here, of a very small layer
    stages = folder + "/stages.csv"
    subprocess.run([fathom, "bench", "layer", "--shape", "tiny", "--rounds", "1", "--phase", "decode", "--tokens",
                    "1", "--context", "0", "--sweep-tokens", "1,8", "--sweep-context", "0,512", "--sweep-rows", "1,16",
                    "--table", stages], check=True, capture_output=True, timeout=300)
    done = run(trace, *few, "--hardware", stages, "--json")
    assert done.returncode == 0, done
    measured = json.loads(done.stdout)
    assert [line["method"] for line in measured] == METHODS * 2 and measured != lines, measured
    with open(stages, encoding="utf-8") as file:
        text = file.read()
    for broken, words in ((text.replace("decode,core,8,512", "decode,core,8,513"), "stages.csv: expected a line"),
                          (text.replace("phase,part", "part,phase"), "stages.csv, line 4"), ("", "stages.csv")):
        with open(stages, "w", encoding="utf-8") as file:
            file.write(broken)
        done = run(trace, *few, "--hardware", stages)
        assert done.returncode and words in done.stderr, done
    for options, words in (((trace + "x",), "trace.jsonlx"), (("/dev/null",), "/dev/null"), ((), "TRACE")):
        done = run(*options)
        assert done.returncode and words in done.stderr, done
print("ok bench balance")
