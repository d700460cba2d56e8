#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_inspect_cpu.py FATHOM: `fathom inspect cpu` names the kernels' levels, threads and memory, and obeys the mask."""
import re

from command import run

found = run("inspect", "cpu", "--cpu-mask", "c")
assert re.search(r"(?s)levels available +c\b.*level chosen +c \(.*threads +\d+ of.*memory +[\d.]+ [KMGT]iB", found), found
assert "one of auto|c|avx2|avx512|avx512bf16" in run("inspect", "cpu", "--cpu-mask", "mmx", code=2)
