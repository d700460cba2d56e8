#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_memory.py FATHOM: what a process takes at most beside its weights and its KV blocks, on a checkpoint of 800 million
parameters: nothing that grows with the weights while it loads them, and one step's values while it runs."""
import json
import tempfile

from command import run

LOADING, RUNNING = 1.05, 1.12  # times weights and KV blocks; measured: 1.03, 1.10 (docs/performance/model.md)


def share(figures, peak):
    return figures[peak] / (figures["weight_bytes"] + figures["kv_bytes"])


def main():
    with tempfile.TemporaryDirectory() as folder:
        run("make-checkpoint", folder + "/dsv3b", "--shape", "dsv3b")
        figures = json.loads(run("bench", "model", "--model", folder + "/dsv3b", "--prompt", "512", "--gen", "8", "--batch",
                                 "1,8", "--runs", "1", "--json"))
    print("weights %.0f MB, KV %.0f MB, peak %.0f MB loading, %.0f MB running: %.3f" % (
        figures["weight_bytes"] / 1e6, figures["kv_bytes"] / 1e6, figures["load_peak_rss_bytes"] / 1e6,
        figures["peak_rss_bytes"] / 1e6, share(figures, "peak_rss_bytes")))
    assert share(figures, "load_peak_rss_bytes") <= LOADING, figures
    assert share(figures, "peak_rss_bytes") <= RUNNING, figures


main()
