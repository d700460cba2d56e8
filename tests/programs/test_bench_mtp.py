#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_bench_mtp.py FATHOM GOLDENS: `fathom bench mtp` on two questions to the embedded model: it fails by itself if drafts
change a token."""
import json
import sys

from command import refuse, run

figures = json.loads(run("bench", "mtp", "--streams", "2,1", "--questions", "2", "--answer", "40", "--runs", "1",
                         "--json"))
assert [row["streams"] for row in figures["streams"]] == [2, 1], figures
for row in figures["streams"]:
    assert 0.5 < row["accepted"] <= 1 and row["byte_bound"] > 0.5, figures
    assert min(row[way + "_tokens_per_second"] for way in ("with", "without", "chosen")) > 0, figures
figures = json.loads(run("bench", "mtp", "--streams", "2", "--questions", "2", "--answer", "60", "--runs", "1", "--right",
                         "60", "--json"))
assert 0.4 < figures["streams"][0]["accepted"] < 0.8, figures  # of some 70 drafts that the MTP layer would have right
refuse(1, "--streams", "bench", "mtp", "--streams", "0")
refuse(1, "has no MTP layer", "bench", "mtp", "--model", sys.argv[2] + "/v2lite-softmax-greedy-yarn")
