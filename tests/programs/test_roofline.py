#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_roofline.py FATHOM SCRIPT: bench/roofline.py draws every measurement that has arithmetic once, where an SVG reader
finds it, in a panel for each kernel and for each case of a layer."""
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

SVG = "{http://www.w3.org/2000/svg}"


def read(path):
    """The points' kinds, and all words."""
    root = xml.etree.ElementTree.parse(path).getroot()
    wide, tall = float(root.get("width")), float(root.get("height"))
    points = [each for each in root.iter(SVG + "circle")]
    for point in points:
        assert 0 < float(point.get("cx")) < wide and 0 < float(point.get("cy")) < tall, point.attrib
    return [point.get("class").split()[1] for point in points], " ".join(text.text or "" for text in root.iter(SVG + "text"))


def main():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, sys.argv[2], sys.argv[1], folder, "--kernels",
                        "--filter e --rows 2,64 --runs 1 --threads 1", "--layer",
                        "--shape tiny --rounds 1 --tokens 3 --context 100 --prompt-tokens 70 --prompt-context 70"],
                       check=True, stdout=subprocess.DEVNULL)
        kinds, words = read(os.path.join(folder, "kernels.svg"))
        # expert_gate, expert_down and head of two types and two row counts; four products of attention, or eight
        assert [kinds.count(kind) for kind in ("fp8", "f32")] == [6, 4] and kinds.count("bf16") in (6, 10), kinds
        assert "expert_gate" in words and "gemm values" in words and "rmsnorm" not in words, words
        kinds, words = read(os.path.join(folder, "layer.svg"))
        assert len(kinds) > 10 and "decode of 3 tokens" in words and "core_prompt" in words, (kinds, words)


main()
