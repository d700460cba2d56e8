#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_bench_overlap.py FATHOM GOLDENS MODEL SERVING: `fathom bench overlap` tells of every schedule what it hides of a slow
link, and what the automatic one takes."""
from test_ranks import goldens, run, take_ranks

found = run("bench", "overlap", "--model", goldens + "/v3-fp8-odd-noq-g1-noyarn", "--ranks", 2, "--prompt", 128, "--batch", "2", "--runs", 1,
            "--steps", 1, "--experiment", "link-gbps=0.05", "--json")
take_ranks(found, 2)
kinds = ["sequential", "prefill-dual-batch", "decode-five-stage", "quad-batch", "hexa-batch", "octo-batch"]
early = "decode-early"  # of prompts, the five stages
assert [(one["batch"], one["schedule"]) for one in found["runs"]] == (
    [(0, kind) for kind in kinds + ["auto"]] + [(2, kind) for kind in kinds + [early, "auto"]])
for one in found["runs"]:
    assert one["comm_seconds"] > 0 and one["seconds"] > one["exposed_seconds"] >= 0, one
    assert one["least"] <= one["seconds"] <= one["most"] and one["hidden"] <= 1, one
    assert one["schedule"] != "auto" or (one["takes"] in kinds + [early] and one["best"] in kinds + [early] and one["reason"]), one
assert found["runs"][0]["seconds"] > found["runs"][0]["comm_seconds"] * 0.9, found["runs"][0]
assert "--ranks" in run("bench", "overlap", code=2)
