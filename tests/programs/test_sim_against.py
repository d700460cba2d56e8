#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_sim_against.py FATHOM: the requests of a real run come again in the twin: as many tokens, the same hits, and the
same figures of both. How near the times are is no test's business: bench/twin_against.py says it."""
import json
import re
import tempfile

from command import refuse, run
from server import Server

HARDWARE = """
name: by-hand
gpus_per_node: 1
hbm_bytes: 1e9
hbm_gbps: 10
nic_gbps: 10
nvlink_gbps: 1
network_latency_us: 100
host_memory_bytes: 0
storage_gbps: 1
storage_latency_us: 0
step_gap_us: 50
request_us: 500
token_us: 0
node_price: 0
steps:
  source: "made up"
  model: tiny-r1
  weight_bytes: 14000000
  page_count: 500
  columns: [ranks, busy, prompt_tokens, attended, cached, answer_rows, answer_tokens, context, us]
  rows:
  - [1, 1, 0, 0, 0, 1, 1, 64, 300]
  - [1, 1, 0, 0, 0, 4, 4, 1024, 1200]
  - [1, 1, 64, 2080, 0, 0, 0, 0, 5000]
  - [1, 1, 256, 32896, 0, 0, 0, 0, 20000]
  - [1, 1, 256, 49280, 64, 0, 0, 0, 22000]
"""
SCENARIO = """
model: tiny-r1
hardware: hardware.yaml
fleet:
  through_api: true
  units:
  - {role: both, count: 1, ranks: 1, rows: 4, step_tokens: 256, pages: 500, context_tokens: 2048}
load:
  mix: {requests_per_s: 1, requests: 1, tokens: {answer: 8, text: 64}}
"""


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
        with open(folder + "/hardware.yaml", "w", encoding="utf-8") as file:
            file.write(HARDWARE)
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
        steps = twin["steps"]
        assert steps["fathom_step_compute_seconds_count"] >= twin["output_tokens"] / 4, steps  # of at most four rows
        assert steps["fathom_step_compute_seconds_sum"] >= 300e-6 * steps["fathom_step_compute_seconds_count"], steps
        table = run(*against)
        for name in ("output tokens/s", "TPOT p50, ms", "TTFT p99, ms", "hits, % of prompt tokens"):
            assert re.search(r"(?m)^%s +[\d.]+ +[\d.]+ +[-+][\d.]+ " % re.escape(name), table), table
        with open(folder + "/empty.json", "w", encoding="utf-8") as file:
            file.write("{}")
        refuse(1, "`each` is missing", "sim", folder + "/one.yaml", "--against", folder + "/empty.json")
        refuse(1, "nothing.json", "sim", folder + "/one.yaml", "--against", folder + "/nothing.json")


main()
