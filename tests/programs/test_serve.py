#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_serve.py FATHOM GOLDENS: what `fathom serve` cannot do it says in one line at the start. What it does is told by
test_serve_*.py and by tests/web."""
import sys

from command import has_gpu, refuse, run

no_mtp = sys.argv[2] + "/v2lite-softmax-greedy-yarn"
refuse(1, "has no MTP layer", "serve", "--model", no_mtp, "--port", "0", "--mtp", "on")
if not has_gpu():
    refuse(1, "--device cpu", "serve", "--units", "2", "--device", "cuda")
for words, options in (("--prefill-units and --decode-units go together", ["--prefill-units", "1"]),
                       ("--prefill-units and --decode-units go together", ["--decode-units", "1"]),
                       ("--units is for units that do both", ["--units", "2", "--prefill-units", "1", "--decode-units", "1"]),
                       (r"at most \d+ units", ["--prefill-units", "40", "--decode-units", "40"])):
    refuse(2, words, "serve", "--port", "0", *options)
