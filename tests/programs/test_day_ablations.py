#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_day_ablations.py FATHOM SCRIPT: bench/day_ablations.py on a small day. The nodes of each hour are the
scenario's, a change touches its own role alone, units are whole and bear their hours' loads, money follows the nodes
also where the day is lived, and what was run is told again without running."""
import json
import os
import subprocess
import sys
import tempfile

from command import expect, fathom, finish

script = sys.argv[2]
folder = tempfile.TemporaryDirectory()

DAY = """
hardware: h800
model: deepseek-v3
prices: deepseek-2025-02
settle_s: 0.5
warm_s: 1
measure_s: 1
fleet:
  gateways: 1
  gateway_requests: 4096
  storage_bytes: 1.0e+15
  expert_skew: 0.6
  units:
    - {role: prefill, ranks: 16, ranks_per_node: 8, overlap: prefill-dual-batch, step_tokens: 4096, rows: 64, requests: 64, context_tokens: 32768}
    - {role: decode, ranks: 16, ranks_per_node: 8, overlap: decode-five-stage, rows: 64, requests: 80, step_tokens: 256, context_tokens: 32768}
load:
  day:
    input_tokens: 5.2e+9
    output_tokens: {value: 1.4e+9, source: assumed}
    # Twice as much in six hours.
    hours: [1,1,1,1,1,1,1,1,1,1,1,1,2,2,2,2,2,2,1,1,1,1,1,1]
    nodes:
      - {hour: 0, decode_units: 1, prefill_units: 2}
      - {hour: 12.5, decode_units: 3, prefill_units: 4}
      - {hour: 18, decode_units: 1, prefill_units: 2}
    moments:
      prompt_answer_ratio: {value: 3.7, source: assumed}
      hit_share: 0.5
      kv_tokens: 1500
    prompt_max: 8192
    answer_max: 2048
    prompt_cv: 0.5
    answer_cv: 0.5
"""
SHORT = ["--prefill-window", "1,2", "--decode-window", "1,1"]


def run(program, *more):
    scenario = os.path.join(folder.name, "day.yaml")
    with open(scenario, "w", encoding="utf-8") as file:
        file.write(DAY)
    done = subprocess.run([sys.executable, script, program, os.path.join(folder.name, "runs"), "--scenario", scenario,
                           "--changes", "MTP always", *SHORT, *more], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        sys.exit("exit %d: %s" % (done.returncode, done.stderr))
    return done.stdout


found = json.loads(run(fathom, "--json", "--live"))
built, changed = found["rows"]
expect([row["change"] for row in found["rows"]] == ["as built", "MTP always"], "rows: %s" % found["rows"])
expect(set(built["roles"]) == {"p", "d"} and set(changed["roles"]) == {"d"}, "roles: %s" % changed["roles"].keys())
expect(changed["loads"]["worst"]["p"] == built["loads"]["worst"]["p"], "a change of decode changed prefill")
expect(changed["loads"]["worst"]["d"] > built["loads"]["worst"]["d"], "with drafts a unit bears no more")
speeds = [row["roles"]["d"]["at_mean"]["speed"] for row in (built, changed)]
expect(speeds[1] > speeds[0], "speeds: %s" % speeds)

# 30 hours' worth; three decode units from half past twelve to six, one before.
hour = 1.4e9 / 30 / 3600  # output tokens a second
ways = {way["way"]: way for way in found["ways"]}
scenario = ways["the scenario's curve"]
expect(scenario["units"]["d"] == [1] * 12 + [2] + [3] * 5 + [1] * 6, "units: %s" % scenario["units"]["d"])
expect(abs(scenario["node_hours"] - (2 * 35 + 2 * 59)) < 1e-9, "node-hours: %s" % scenario["node_hours"])
expect(ways["static, the peak's nodes"]["node_hours"] == 24 * (2 * 3 + 2 * 4), "static: %s" % ways)
for way in (way for name, way in ways.items() if name.startswith("follows the load, as built")):
    name = way["way"].rsplit(" ", 1)[1]
    for units, load in zip(way["units"]["d"], [hour] * 12 + [2 * hour] * 6 + [hour] * 6):
        bears = built["loads"][name]["d"]
        expect(units * bears * 1.001 >= load > (units - 1) * bears, "%d units of %.0f bear %.0f" % (units, bears, load))
price = scenario["cost"] / scenario["node_hours"]
expect(abs(price - 16) < 1e-6, "a node-hour costs %s" % price)
lived = found["days"][0]
expect(abs(lived["figures"]["cost_usd_per_day"] - ways[lived["way"]]["cost"]) < 1e-3, "lived: %s" % lived)

text = run("/bin/false")
expect("MTP always" in text and "the scenario's curve" in text, "told again: %s" % text)
finish()
