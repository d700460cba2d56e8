#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_counts.py ROOT: what `bench/counts.py` reads out of callgrind's output, and when it says that a path has changed."""
import json
import os
import sys

root = sys.argv[1]
sys.path.insert(0, os.path.join(root, "bench"))
import counts  # noqa: E402

PROFILE = """# callgrind format
version: 1
cmd: fathom tokenize
events: Ir

fl=???
fn=tokenizer_encode
0 100
cob=???
cfi=???
cfn=merges_apply
calls=3 0
0 900
0 20

fn=merges_apply
0 700
cfn=merges_apply'2
calls=1 0
0 200

fn=merges_apply'2
0 200

ob=/usr/lib/libcrypto.so.3
fn=0x000000000029ad80
0 30

totals: 1050
"""


def a_call_is_counted_where_it_was_made():
    found = counts.read_profile(PROFILE)
    assert found == {"tokenizer_encode": 120, "merges_apply": 900, "in libcrypto.so.3": 30}, found
    assert sum(found.values()) == 1050


def a_change_beyond_the_bound_names_its_functions():
    before = counts.baseline_of({"a": 1000000, "b": 500000, "small": 10})
    assert before == {"instructions": 1500010, "functions": {"a": 1000000, "b": 500000}}, before
    assert not counts.changes("decode", before, {"a": 1000000, "b": 529000})
    more = counts.changes("decode", before, {"a": 1000000, "b": 540000, "c": 6000})
    assert [line.split(":")[0] for line in more] == ["decode", "    +2.7 %  b", "    +0.4 %  c"], more
    assert "1,546,000 instead of 1,500,010" in more[0] and "540,000 instead of 500,000" in more[1], more
    less = counts.changes("decode", before, {"a": 900000, "b": 500000})
    assert less[0].startswith("decode: -6.7 %") and "a: 900,000 instead" in less[1], less


def the_baseline_has_every_path():
    with open(os.path.join(root, "bench/counts.json"), encoding="utf-8") as file:
        baseline = json.load(file)
    assert list(baseline["paths"]) == list(counts.PATHS)
    assert all(path["instructions"] >= sum(path["functions"].values()) > 0 for path in baseline["paths"].values())


a_call_is_counted_where_it_was_made()
a_change_beyond_the_bound_names_its_functions()
the_baseline_has_every_path()
