#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""reference_mxfp4.py FOLDER: writes FOLDER/golden.json, the outputs in float64 of a checkpoint of V3's form with dense
attention, one group of experts, and routed experts in MXFP4 as compressed-tensors publishes them.

E2M1 and E8M0 are written from the OCP Microscaling Formats v1.0 (5.3.3, 5.4.1, 6.3), the order of codes from
compressed-tensors' pack_fp4_to_uint8, apart from the engine. Layers, experts and the search for prompts whose choices
are clear are those of reference_glm5.py, here with all rows chosen. Needs numpy, and no test runs it.

The checkpoint: `fathom make-checkpoint FOLDER --shape FOLDER/config.json --seed 11 --bias-deviation 0.05`."""
import json
import struct
import sys

import numpy

from reference_glm5 import Reference, prompt_of, read_tensors

PROMPTS = [1, 17, 40, 65]
PACKED, SCALE = ".weight_packed", ".weight_scale"
MAGNITUDES = numpy.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])  # of two bits of exponent (bias 1) and one of fraction
GROUP = 32


def e2m1(packed):
    """Bytes of two codes, the first in the lower half; the highest bit of a code is its sign."""
    codes = numpy.stack([packed & 15, packed >> 4], -1).reshape(packed.shape[0], -1)
    return MAGNITUDES[codes & 7] * numpy.where(codes & 8, -1, 1)


def read_all(path):
    """The tensors of a safetensors file; bytes (U8) are the experts' codes and scales."""
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header, data = json.loads(file.read(size)), file.read()
    tensors = read_tensors(path, lambda entry: entry["dtype"] != "U8")

    def bytes_of(name):
        begin, end = header[name]["data_offsets"]
        return numpy.frombuffer(data[begin:end], numpy.uint8).reshape(header[name]["shape"])

    for name in header:
        if name.endswith(PACKED):
            stem = name[:-len(PACKED)]
            powers = 2.0 ** (bytes_of(stem + SCALE).astype(int) - 127)
            tensors[stem + ".weight"] = e2m1(bytes_of(name)) * numpy.repeat(powers, GROUP, -1)
    return tensors


class Packed(Reference):
    def __init__(self, folder):
        super().__init__(folder, read_all)
        dense = self.config["first_k_dense_replace"]
        self.config["mlp_layer_types"] = ["dense"] * dense + ["sparse"] * (self.layers - dense)
        self.config["indexer_types"] = ["full"] * self.layers
        self.config["rope_parameters"] = {"rope_theta": self.config["rope_theta"]}
        assert self.config["n_group"] == 1 and "rope_scaling" not in self.config

    def choose(self, prefix, x, latent, positions):
        """All rows up to a token's own."""
        return [numpy.arange(token + 1) for token in range(len(x))], [None] * len(x), 1.0

    def drafts(self, tokens, hidden, following):
        """No MTP layer."""
        return numpy.zeros((len(tokens), 2))


def main():
    folder = sys.argv[1]
    reference = Packed(folder)
    draw = numpy.random.default_rng(7)
    prompts = []
    for count in PROMPTS:
        prompt = None
        while prompt is None:
            prompt = prompt_of(reference, draw.integers(4, reference.config["vocab_size"], count).tolist())
        for key in "index", "greedy_last_step_selected", "mtp":
            del prompt[key]
        prompts.append(prompt)
        print(count, flush=True)
    with open(folder + "/golden.json", "w", encoding="utf-8") as file:
        json.dump({"case": "v3-mxfp4-experts", "reference": "reference_mxfp4.py, float64", "prompts": prompts}, file)


if __name__ == "__main__":
    main()
