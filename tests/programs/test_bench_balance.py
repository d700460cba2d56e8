#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_bench_balance.py FATHOM [GOLDENS [long]]: `fathom bench balance`: one line a method, JSON, and clear refusals.
`long`: also what other loads, disks, units, hardware and steps do."""
import gzip
import json
import pathlib
import subprocess
import sys
import tempfile

fathom = sys.argv[1]
H800 = pathlib.Path(__file__).resolve().parents[2] / "twin" / "hardware" / "h800.yaml"
METHODS = ["work", "round-robin", "least-requests", "least-tokens", "power-of-two"]
PROMPT_METHODS = METHODS[:1] + ["work-on-arrival"] + METHODS[1:]


def run(*options):
    return subprocess.run([fathom, "bench", "balance", *options], text=True, capture_output=True, timeout=1800)


def lines_of(*options):
    done = run(*options, "--json")
    assert done.returncode == 0, done
    return json.loads(done.stdout)


def trace_file(folder):
    """Prompts of 23 conversations, a few of them long, one request each 100 ms; packed, as the tree has its traces."""
    path = folder + "/trace.jsonl.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        for i in range(200):
            length = 20000 if i % 40 == 0 else 600 + 37 * (i * i % 97)
            ids = [1000 * (i % 23) + k for k in range(length // 512)]
            file.write(json.dumps({"timestamp": 100 * i, "input_length": length,
                                   "output_length": 20 + i % 100, "hash_ids": ids}) + "\n")
    return path


def table_hardware(folder):
    """The H800's file with one layer's parts as they were measured here, of a very small layer."""
    stages = folder + "/stages.csv"
    subprocess.run([fathom, "bench", "layer", "--shape", "tiny", "--rounds", "1", "--phase", "decode", "--tokens",
                    "1", "--context", "0", "--sweep-tokens", "1,8", "--sweep-context", "0,512", "--sweep-rows", "1,16",
                    "--table", stages], check=True, capture_output=True, timeout=300)
    node, rates = H800.read_text(encoding="utf-8").split("\nstages:\n")
    links = rates[rates.index("  links:\n"):]
    table = "".join("    " + line for line in open(stages, encoding="utf-8"))
    path = folder + "/here.yaml"
    pathlib.Path(path).write_text(node + "\nstages:\n  table: |\n" + table + links, encoding="utf-8")
    return path


with tempfile.TemporaryDirectory() as folder:
    trace = trace_file(folder)
    few = ("--prefill-ranks", "4", "--decode-ranks", "4", "--requests", "300", "--step-tokens", "2048")
    prompts, answers = (*few, "--decode-ranks", "0"), (*few, "--prefill-ranks", "0")
    lines = lines_of(trace, *few)
    assert [line["method"] for line in lines] == PROMPT_METHODS + METHODS, lines
    for line in lines:
        spreads = [value for key, value in line.items() if key.endswith("_spread")]
        assert len(spreads) == 2 and all(1 <= value <= 4 for value in spreads), line
        assert line["tokens_per_second"] > 0, line
    prefill = {line["method"]: line for line in lines[:len(PROMPT_METHODS)]}
    assert prefill["work"]["hit_rate"] > prefill["round-robin"]["hit_rate"], "prompts go where their beginnings are"
    assert lines_of(trace, *few) == lines, "virtual time has no noise"
    if "long" in sys.argv:
        # Levelled steps are everybody's, or nobody's; at a load that the weakest method can bear all keep up.
        full = lines_of(trace, *prompts, "--rank-steps", "full")
        assert [line["method"] for line in full] == PROMPT_METHODS and full != lines[:len(PROMPT_METHODS)], full
        half, most = (lines_of(trace, *prompts, "--load", load) for load in ("40", "200"))
        for at_half, at_most in zip(half, most):
            assert at_half["ttft_p50_ms"] < at_most["ttft_p50_ms"], (half, most)
            assert at_half["keeps_up"], at_half
        # Disks that all ranks share find for everybody what a rank's pages find for who chooses by them.
        shared = {line["method"]: line for line in lines_of(trace, *prompts, "--disk-tokens", "4000000")}
        assert shared["round-robin"]["hit_rate"] > prefill["round-robin"]["hit_rate"], (shared, prefill)
        units = {line["method"]: line for line in lines_of(trace, *prompts, "--units", "2")[len(PROMPT_METHODS):]}
        assert list(units) == ["prefix", "load"] and units["prefix"]["hit_rate"] > units["load"]["hit_rate"], units
        here = lines_of(trace, *few, "--requests", "40", "--hardware", table_hardware(folder))
        assert [line["method"] for line in here] == PROMPT_METHODS + METHODS and here != lines, here
        assert "prefill: 1 of 8 ranks" in run(trace, "--quick", "--requests", "2000", "--decode-ranks", "0").stdout
    table = run(trace, *prompts).stdout
    assert all(method in table for method in METHODS) and "decode" not in table, table
    for options, words in (((trace + "x",), "trace.jsonl.gzx"), (("/dev/null",), "/dev/null"), ((), "TRACE"),
                           ((trace, "--hardware", "nowhere.yaml"), "nowhere.yaml")):
        done = run(*options)
        assert done.returncode and words in done.stderr, done
print("ok bench balance")
