#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_trace_picture.py FATHOM GOLDENS: `fathom trace report --svg` draws rank 0's middle layer of the last step to
scale: waits before work, transfers in rows of their own, and nothing of other ranks, layers or steps."""
import json
import re
import tempfile

from command import run

LEFT, WIDTH = 84, 960 - 84 - 8  # where a layer begins, and how wide it is


def stage(name, lane, at, length, layer, waited=0, rank=0):
    return {"ph": "X", "cat": "stage", "name": "%s %s" % (name, lane), "pid": rank, "tid": 1, "ts": at, "dur": length,
            "args": {"layer": layer, "waited_us": waited}}


def transfer(name, lane, at, end, layer, number):
    common = {"cat": "communication", "name": "%s %s" % (name, lane), "pid": 0, "tid": 2, "id": number}
    return [{"ph": "b", "ts": at, **common, "args": {"layer": layer, "link_us": end - at, "bytes": 8}},
            {"ph": "e", "ts": end, **common}]


def draw(events):
    """The bars, as (row, name, begin and length in shares of the layer)."""
    with tempfile.TemporaryDirectory() as place:
        with open(place + "/trace.json", "w", encoding="utf-8") as file:
            file.write('{"traceEvents":[\n%s\n]}\n' % ",\n".join(map(json.dumps, events)))
        run("trace", "report", place + "/trace.json", "--json", "--svg", place + "/layer.svg")
        with open(place + "/layer.svg", encoding="utf-8") as file:
            text = file.read()
    bars = re.findall(r'<rect class="(\w+)" x="([\d.]+)" y="(\d+)" width="([\d.]+)" height="24"/>\n'
                      r'(?:<text [^>]*>([^<]*)</text>)?', text)
    return [((int(y) - 24) // 34, name, round((float(x) - LEFT) / WIDTH, 2), round(float(width) / WIDTH, 2))
            for _, x, y, width, name in bars]


# Two steps of two layers; the second layer of the second step takes 100 us.
events = [stage("ATTN-0", "a", 0, 50, 0), stage("ATTN-0", "a", 50, 50, 1), stage("ATTN-0", "a", 200, 100, 0),
          stage("ATTN-0", "a", 300, 30, 1), *transfer("DISPATCH", "a", 330, 360, 1, 7),
          stage("ATTN-0", "b", 330, 10, 1), stage("MLP", "a", 340, 60, 1, waited=20),
          stage("MLP", "a", 300, 100, 1, rank=1)]
assert draw(events) == [(0, "ATTN-0 a", 0, 0.3), (1, "DISPATCH a", 0.3, 0.3), (0, "ATTN-0 b", 0.3, 0.1),
                        (0, "waits", 0.4, 0.2), (0, "MLP a", 0.6, 0.4)], draw(events)
# Of three layers the middle one ends where the next begins.
events.append(stage("ATTN-0", "a", 500, 40, 2))
assert draw(events)[0] == (0, "ATTN-0 a", 0, 0.15), draw(events)
# What is too narrow for its name has an initial, or nothing.
for length, name in (4, "S"), (1, ""):
    events[6:] = [stage("SHARED", "b", 340, length, 1), stage("MLP", "a", 360, 140, 1), stage("ATTN-0", "a", 500, 40, 2)]
    assert [bar[1] for bar in draw(events) if bar[0] == 0][1] == name, draw(events)
