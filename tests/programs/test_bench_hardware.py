#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_bench_hardware.py FATHOM: by `fathom bench hardware`, the twin's clock of steps has DeepSeek's two profile steps
within 3 %, and SGLang's published runs on H100 nodes within 8 %, those with its own EPLB by a balance that was chosen."""
import json

from command import run

anchors = json.loads(run("bench", "hardware", "--json"))["anchors"]
assert len(anchors) == 13 and all(anchor["remark"] for anchor in anchors)
for anchor in anchors:
    assert abs(anchor["model"] / anchor["published"] - 1 - anchor["error"]) < 1e-4, anchor
    limit = 0.03 if "profile" in anchor["anchor"] or "trace" in anchor["anchor"] else 0.08
    assert abs(anchor["error"]) < limit, anchor
text = run("bench", "hardware")
assert len(text.splitlines()) == 14 and all(anchor["anchor"] in text for anchor in anchors), text
