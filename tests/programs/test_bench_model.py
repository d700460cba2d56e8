#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_bench_model.py FATHOM GOLDENS: `fathom bench model` reports memory, a prompt and each batch that it was asked for."""
import json
import sys

from command import refuse, run

case = sys.argv[2] + "/v3-bf16-negbias-dense0-mtp"
figures = json.loads(run("bench", "model", "--model", case, "--prompt", "70", "--gen", "3", "--batch", "2,1", "--runs",
                         "1", "--json"))
assert figures["weight_bytes"] > 1000000 and figures["peak_rss_bytes"] > figures["weight_bytes"], figures
assert figures["prefill"]["tokens"] == 70 and figures["prefill"]["tokens_per_second"] > 0, figures
assert [row["batch"] for row in figures["decode"]] == [2, 1], figures
assert all(row["tokens_per_second"] > 0 for row in figures["decode"]), figures
assert figures["context"] == 70, figures
deep = json.loads(run("bench", "model", "--model", case, "--prompt", "70", "--context", "200", "--gen", "3", "--batch",
                      "2", "--runs", "1", "--json"))
assert deep["prefill"]["tokens"] == 70 and deep["context"] == 200 and deep["decode"][0]["tokens_per_second"] > 0, deep
after = json.loads(run("bench", "model", "--model", case, "--prompt", "5", "--after", "64", "--gen", "3", "--batch", "1", "--runs",
                       "1", "--json"))
assert after["after"] == 64 and after["context"] == 5 and after["prefill"]["tokens"] == 5, after
assert figures["after"] == 0 and min(after["prefill"]["of_read"], after["prefill"]["of_flops"]) > 0, after
refuse(1, "--batch", "bench", "model", "--model", case, "--batch", "0")
