#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_trace_report.py FATHOM GOLDENS MODEL SERVING: every rank's stages and transfers are in a trace, each layer's, and
`fathom trace report` adds them up; a file that is no trace is refused."""
import json
import tempfile

from test_ranks import goldens, ids, run, take_ranks

with tempfile.TemporaryDirectory() as place:
    path = place + "/trace.json"
    take_ranks(run("logits", "--model", goldens + "/v3-bf16-negbias-dense0-mtp", "--tokens", ids(range(20, 90)), "--json", "--ranks", 2,
                   "--schedule", "quad-batch", "--experiment", "link-gbps=1", "--trace", path), 2)
    with open(path, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    stages = [event for event in events if event["ph"] == "X"]
    layers = {event["args"]["layer"] for event in stages}
    for rank in (0, 1):
        for lane in "abcd":
            names = [event["name"] for event in stages if event["pid"] == rank and event["name"][-1] == lane]
            assert len(names) % (6 * len(layers)) == 0 and len(set(names)) == 6, names  # perhaps two steps
    begins = {event["id"]: event["ts"] for event in events if event["ph"] == "b"}
    ends = {event["id"]: event["ts"] for event in events if event["ph"] == "e"}
    assert begins.keys() == ends.keys() and all(begins[i] <= ends[i] for i in begins), (begins, ends)
    report = run("trace", "report", path, "--json")
    assert report["ranks"] == 2 and report["bytes"] > 0, report
    travelled = sum(event["args"]["link_us"] for event in events if event["ph"] == "b")
    assert abs(report["transfer_us"] - travelled) < 1, report
    assert 0 < travelled <= sum(ends[i] - begins[i] for i in begins) + 1, report
    work = sum(event["dur"] - event["args"]["waited_us"] for event in stages)
    assert abs(report["work_us"] - work) < 1, (report, work)
    with open(path, "w", encoding="utf-8") as file:
        file.write('{"traceEvents":[\n{"ph":}\n]}\n')
    assert "line 2" in run("trace", "report", path, code=1)
assert "/nowhere" in run("trace", "report", "/nowhere", code=1)
