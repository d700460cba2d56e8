#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_sim_faults.py FATHOM: what faults cost. A fleet's requests with faults are told beside the same requests without
any; a fault that befalls nobody costs nothing; limits are the scenario's; a scenario without faults has no such table."""
import json
import os
import tempfile

from command import run

SCENARIO = """
hardware: h800
model: tiny-r1
warm_s: 1
fleet:
  units:
    - {role: both, count: 2, ranks: 1, rows: 128, requests: 256, step_tokens: 1024, context_tokens: 4096, pages: 2048}
load:
  mix: {requests_per_s: 10, requests: 100, tokens: {answer: 100, text: 400}}
"""


def costs(path, faults, *more):
    found = json.loads(run("sim", path, "--json", *(["--set", "faults=" + json.dumps(faults)] if faults else []), *more))
    assert found["breach"] == "", found["breach"]
    table = found.get("faults")
    return found, table and {row["kind"]: row for row in table["kinds"]}


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "mine.yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(SCENARIO)
    calm, table = costs(path, None)
    assert table is None and "faults" not in run("sim", path).split(), "a table of no faults"

    # the first token after a second without one unit, and the pause of a fleet that has lost both
    dies = [{"kind": "unit-dies", "at_s": 3, "lasts_s": 2, "unit": unit} for unit in (0, 1)]
    harmed, table = costs(path, {"list": dies, "ttft_limit_s": 0.5})
    assert set(table) == {"unit-dies"} and harmed["faults"]["ttft_limit_s"] == 0.5, table
    row = table["unit-dies"]
    assert row["times"] == 2 and row["requests"] > 40, row
    assert row["ttft_missed"] > row["ttft_missed_without"], row
    # who could not wait so long can wait longer
    assert costs(path, {"list": dies, "ttft_limit_s": 60})[1]["unit-dies"]["ttft_missed"] == row["failed"]

    # without a storage nobody feels its disks, and the run is the calm one
    idle, table = costs(path, [{"kind": "disks-slow", "at_s": 3, "lasts_s": 2, "factor": 9}])
    assert idle["counts"]["answered"] == calm["counts"]["answered"]
    row = table["disks-slow"]
    assert (row["ttft_missed"], row["tpot_missed"]) == (row["ttft_missed_without"], row["tpot_missed_without"]), row

    page = os.path.join(folder, "page.html")
    text = run("sim", path, "--set", "faults=" + json.dumps(dies), "--report", page)
    assert "unit-dies" in text and "TTFT missed" in text, text
    with open(page, encoding="utf-8") as file:
        assert "What faults cost" in file.read()
