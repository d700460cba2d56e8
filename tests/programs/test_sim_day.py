#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_sim_day.py FATHOM: a small day from outside. Identities are what the day says, the same seed gives the same
JSON, a window makes the tokens that are asked of it, the step clock's profile steps follow the hardware, one hour runs
whole beside its sample, and wrong days end with a line that names the key."""
import json
import os
import tempfile

from command import attempt, expect, failures, finish

folder = tempfile.TemporaryDirectory()

DAY = """
hardware: h800
model: deepseek-v3
prices: deepseek-2025-02
settle_s: 0.5
warm_s: 2
measure_s: 2
fleet:
  gateways: 1
  gateway_requests: 2048
  storage_bytes: 1.0e+15
  units:
    - {role: prefill, ranks: 16, ranks_per_node: 8, overlap: prefill-dual-batch, step_tokens: 4096, rows: 64, requests: 64, context_tokens: 32768}
    - {role: decode, ranks: 32, ranks_per_node: 8, overlap: decode-five-stage, rows: 32, requests: 40, step_tokens: 256, context_tokens: 32768}
load:
  day:
    input_tokens: 5.2e+9
    output_tokens: 1.4e+9
    hours: [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]
    nodes: [{hour: 0, decode_units: 2, prefill_units: 2}]
    moments: {prompt_answer_ratio: 3.7, hit_share: 0.5, kv_tokens: 1500}
    prompt_max: 8192
    answer_max: 2048
    prompt_cv: 0.5
    answer_cv: 0.5
"""


def run(*arguments):
    return attempt("sim", *arguments)


def write(name, text):
    path = os.path.join(folder.name, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def figures(done):
    if done.returncode:
        failures.append("exit %d: %s" % (done.returncode, done.stderr))
        return {}
    return {figure["name"]: figure["simulated"] for figure in json.loads(done.stdout)["figures"]}


day = write("day.yaml", DAY)
first, again = run(day, "--json"), run(day, "--json")
base = figures(first)
expect(first.stdout == again.stdout, "the same seed gives another day")
expect(abs(base.get("nodes_average", 0) - 12) < 1e-6, "nodes: %s" % base.get("nodes_average"))
expect(abs(base.get("cost_usd_per_day", 0) - 12 * 24 * 16) < 1e-3, "cost: %s" % base.get("cost_usd_per_day"))
expect(abs(base.get("input_tokens", 0) - 5.2) < 1e-6, "input: %s" % base.get("input_tokens"))
expect(abs(base.get("cache_hit_percent", 0) - 50) < 6, "hits: %s" % base.get("cache_hit_percent"))
expect(base.get("tokens_per_s_per_user", 0) > 0, "speed: %s" % base)
began = json.loads(first.stdout)["windows"][0] if first.returncode == 0 else {}
expect(abs(began.get("output_of_offered", 0) - 1) < 0.03, "too few or too many requests at the start: %s" % began)
slower = figures(run(day, "--json", "--set", "hardware.nic_gbps=100"))
expect(slower.get("decode_profile_step_ms", 0) > base.get("decode_profile_step_ms", 1e9), "a slower link is no slower")
expect(slower.get("nodes_average") == base.get("nodes_average"), "a link changed the nodes")

page = os.path.join(folder.name, "day.html")
whole = run(day, "--whole-hour", "3", "--json", "--report", page)
windows = json.loads(whole.stdout)["windows"] if whole.returncode == 0 else []
expect([window["whole"] for window in windows] == [False, True], "one hour: %s %s" % (windows, whole.stderr))
expect(os.path.exists(page) and "</html>" in open(page, encoding="utf-8").read(), "no page")

for setting, says in (("load.day.hours=[1]", "load.day.hours: expected a list of 24 numbers"),
                      ("measure_s=0", "a day's windows need measure_s"),
                      ("fleet.units[1].role=both", "prefill first, then decode")):
    done = run(day, "--set", setting)
    expect(done.returncode and says in done.stderr, "%s: %s" % (setting, done.stderr))

finish()
