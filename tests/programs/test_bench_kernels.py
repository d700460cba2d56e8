#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_bench_kernels.py FATHOM: `fathom bench kernels` measures the kernels and rows that it was asked for, beside the
machine's limits."""
import json

from command import refuse, run

common = ["bench", "kernels", "--runs", "1", "--threads", "1", "--json"]
report = json.loads(run(*common, "--filter", "rmsnorm"))
assert len(report["kernels"]) == 1 and report["kernels"][0]["seconds"] > 0, report
assert min(limit[name] for limit in report["limits"] for name in ("fma_gflops", "read_gbytes")) > 0, report
report = json.loads(run(*common, "--filter", "expert_gate", "--rows", "1,3", "--warm", "--cpu-mask", "avx2"))
rows = [(line["type"], line["m"]) for line in report["kernels"]]
assert rows == [(name, m) for name in ("fp8", "bf16", "int4-32", "int4-128", "mxfp4") for m in (1, 3)], rows
refuse(1, "--rows", "bench", "kernels", "--rows", "513")
