#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_bench_calibrate.py FATHOM RANKS: `fathom bench calibrate` measures this machine into a hardware file that the
twin reads; then a server's requests come again in the twin: as many tokens, the same hits, and the same figures are told
of both. How near the times are is no test's business: bench/twin_against.py says it."""
import json
import os
import re
import subprocess
import sys
import tempfile

from command import environment, fathom, refuse, run
from server import Server

RANKS = sys.argv[2]
SMALL = ["--rounds", "4", "--answers", "4", "--max-batch-rows", "4", "--max-batch-tokens", "256", "--context", "256",
         "--kv-memory", "64MiB", "--threads", "1"]
SCENARIO = """
model: tiny-r1
hardware: calibrated.yaml
fleet:
  through_api: true
  units:
  - {role: both, count: 1, ranks: 1, rows: 4, step_tokens: 256, pages: 500, context_tokens: 2048}
load:
  mix: {requests_per_s: 1, requests: 1, tokens: {answer: 8, text: 64}}
"""


def calibrate(folder):
    """The rows of the file, by ranks and busy ranks."""
    path = folder + "/calibrated.yaml"
    done = subprocess.run([fathom, "bench", "calibrate", *SMALL, "--ranks", RANKS, "--dir", folder, "--out", path],
                          text=True, capture_output=True, timeout=900, env=environment, check=False)
    assert done.returncode == 0 and not done.stdout, done
    assert "half of a shape's times lie within" in done.stderr, done.stderr
    with open(path, encoding="utf-8") as file:
        rows = [json.loads(row) for row in re.findall(r"^  - (\[.*\])$", file.read(), re.M)]
    assert {(row[0], row[1]) for row in rows} == {(1, 1)} | ({(2, 2), (2, 1)} if RANKS == "2" else set()), rows
    assert all(len(row) == 9 and row[8] > 0 for row in rows), rows
    assert not [name for name in os.listdir(folder) if name != "calibrated.yaml"], os.listdir(folder)


def run_for_real(folder):
    server = Server("--mtp", "off", "--threads", "1", "--max-batch-rows", "4", "--max-batch-tokens", "256")
    with open(folder + "/trace.jsonl", "w", encoding="utf-8") as file:
        for i in range(12):  # every second one begins like the first
            ids = [1, 2] if i % 2 == 0 else [10 + i, 20 + i]
            file.write(json.dumps({"timestamp": 60 * i, "input_length": 1000, "output_length": 40, "hash_ids": ids}) + "\n")
    found = run("bench", "serve", server.url, "--trace", folder + "/trace.jsonl", "--scale-tokens", "0.25", "--json", "--each",
                "--extra", '{"return_token_ids":true}')
    server.stop()
    with open(folder + "/run.json", "w", encoding="utf-8") as file:
        file.write(found)
    return json.loads(found)


def main():
    with tempfile.TemporaryDirectory() as folder:
        calibrate(folder)
        with open(folder + "/one.yaml", "w", encoding="utf-8") as file:
            file.write(SCENARIO)
        real = run_for_real(folder)
        assert len(real["each"]) == 12 and all(one["outcome"] == "ok" for one in real["each"]), real["each"]
        against = ["sim", folder + "/one.yaml", "--against", folder + "/run.json"]
        twin = json.loads(run(*against, "--json"))
        for name in ("requests", "failed", "prompt_tokens", "output_tokens"):
            assert twin[name] == real[name], (name, twin, real[name])
        assert 5 * 192 >= twin["cached_tokens"] > 0 and real["cached_tokens"] > 0, (twin, real["cached_tokens"])
        for name in ("ttft_seconds", "tpot_seconds"):
            assert twin[name].keys() == real[name].keys() and twin[name]["p50"] > 0, twin
        table = run(*against)
        for name in ("output tokens/s", "TPOT p50, ms", "TTFT p99, ms", "hits, % of prompt tokens"):
            assert re.search(r"(?m)^%s +[\d.]+ +[\d.]+ +[-+][\d.]+ " % re.escape(name), table), table
        with open(folder + "/empty.json", "w", encoding="utf-8") as file:
            file.write("{}")
        refuse(1, "`each` is missing", "sim", folder + "/one.yaml", "--against", folder + "/empty.json")
        refuse(1, "nothing.json", "sim", folder + "/one.yaml", "--against", folder + "/nothing.json")


main()
