#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""export.py CHECKPOINT FOLDER: writes the model as Hugging Face's DeepseekV3ForCausalLM reads it.

Matrices become FP8 (E4M3) with a scale for each block of 128 x 128, as DeepSeek-V3's own files have them. The
tokenizer and the configuration are copied from models/tiny-r1: the training does not change them.
tokenizer_config.json, with the chat template that lists tools, is copied."""
import argparse
import json
import os
import shutil

import numpy
import torch

from tokenizer import MODEL_DIR

BLOCK = 128
FP8_MAX = 448.0
COPIED = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json")
BYTES_OF = {"F32": 4, "BF16": 2, "F8_E4M3": 1}
NORMS = ("input_layernorm", "post_attention_layernorm", "self_attn.q_a_layernorm", "self_attn.kv_a_layernorm")
PROJECTIONS = ("q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj")


def fp8_values():
    """The finite E4M3 numbers that are not negative, by their code."""
    values = []
    for code in range(127):
        exponent, mantissa = code >> 3, code & 7
        if exponent == 0:
            values.append(mantissa * 2.0 ** -9)
        else:
            values.append((1 + mantissa / 8) * 2.0 ** (exponent - 7))
    return numpy.array(values)


MIDDLES = (fp8_values()[1:] + fp8_values()[:-1]) / 2


def to_fp8(x):
    """Rounds to the nearest E4M3 number, ties to the even code."""
    size = numpy.minimum(numpy.abs(x).astype(numpy.float64), FP8_MAX)
    code = numpy.searchsorted(MIDDLES, size, side="left")
    tie = (code < 126) & (size == MIDDLES[numpy.minimum(code, 125)]) & (code % 2 == 1)
    return (code + tie).astype(numpy.uint8) | (numpy.signbit(x).astype(numpy.uint8) << 7)


def to_bf16(x):
    """Rounds to the nearest bfloat16, ties to even."""
    bits = numpy.ascontiguousarray(x, numpy.float32).view(numpy.uint32).astype(numpy.uint64)
    return ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16).astype(numpy.uint16)


class Export:
    """The tensors of the file: name -> (type, shape, bytes)."""

    def __init__(self, state, config):
        self.state, self.config, self.tensors = state, config, {}
        layers, dense = config["num_hidden_layers"], config["first_k_dense_replace"]
        self.put("model.embed_tokens.weight", "embed")
        for layer in range(layers):
            self.put_block(f"model.layers.{layer}.", f"layers.{layer}.", layer < dense)
        self.put("model.norm.weight", "norm.weight")
        self.put("lm_head.weight", "head")
        mtp = f"model.layers.{layers}."
        self.put(mtp + "embed_tokens.weight", "embed")
        for name in ("enorm", "hnorm", "eh_proj"):
            self.put(f"{mtp}{name}.weight", name + ".weight")
        self.put_block(mtp, "mtp.", False)
        self.put(mtp + "shared_head.norm.weight", "mtp_norm.weight")
        self.put(mtp + "shared_head.head.weight", "head")

    def put(self, name, source):
        """A tensor in bfloat16."""
        x = self.state[source].float().numpy()
        self.tensors[name] = ("BF16", x.shape, to_bf16(x).tobytes())

    def put_float(self, name, source):
        """A tensor in float."""
        x = numpy.ascontiguousarray(self.state[source].float().numpy())
        self.tensors[name] = ("F32", x.shape, x.tobytes())

    def put_fp8(self, name, x):
        """A matrix in FP8, and the scales of its blocks."""
        x = x.float().numpy()
        blocks = [-(-size // BLOCK) for size in x.shape]
        scales, codes = numpy.zeros(blocks, numpy.float32), numpy.zeros(x.shape, numpy.uint8)
        for i in range(blocks[0]):
            for j in range(blocks[1]):
                rows, columns = (slice(k * BLOCK, k * BLOCK + BLOCK) for k in (i, j))
                block = x[rows, columns]
                scales[i, j] = max(numpy.abs(block).max() / FP8_MAX, 1e-12)
                codes[rows, columns] = to_fp8(block / scales[i, j])
        self.tensors[name] = ("F8_E4M3", x.shape, codes.tobytes())
        self.tensors[name + "_scale_inv"] = ("F32", scales.shape, scales.tobytes())

    def put_mlp(self, target, gate_up, down):
        """An MLP; the training has its gate and up in one tensor."""
        gate, up = gate_up.chunk(2, 0)
        self.put_fp8(target + "gate_proj.weight", gate)
        self.put_fp8(target + "up_proj.weight", up)
        self.put_fp8(target + "down_proj.weight", down)

    def put_block(self, target, source, dense):
        """A layer."""
        for name in NORMS:
            self.put(f"{target}{name}.weight", f"{source}{name}.weight")
        for name in PROJECTIONS:
            self.put_fp8(f"{target}self_attn.{name}.weight", self.state[f"{source}self_attn.{name}.weight"])
        source, target = source + "mlp.", target + "mlp."
        if dense:
            self.put_mlp(target, self.state[source + "gate_up.weight"],
                         self.state[source + "down_proj.weight"])
            return
        self.put(target + "gate.weight", source + "gate")
        self.put_float(target + "gate.e_score_correction_bias", source + "bias")
        for expert in range(self.config["n_routed_experts"]):
            gate_up, down = self.state[source + "w13"][expert], self.state[source + "w2"][expert]
            self.put_mlp(f"{target}experts.{expert}.", gate_up, down)
        source += "shared."
        self.put_mlp(target + "shared_experts.", self.state[source + "gate_up.weight"],
                     self.state[source + "down_proj.weight"])

    def write(self, path):
        """Writes the safetensors file, the widest types first, so that each tensor is aligned."""
        header, offset = {"__metadata__": {"format": "pt"}}, 0
        order = sorted(self.tensors, key=lambda name: (-BYTES_OF[self.tensors[name][0]], name))
        for name in order:
            kind, shape, data = self.tensors[name]
            header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [offset, offset + len(data)]}
            offset += len(data)
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        with open(path, "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for name in order:
                file.write(self.tensors[name][2])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("checkpoint")
    parser.add_argument("folder")
    options = parser.parse_args()
    checkpoint = torch.load(options.checkpoint, map_location="cpu")
    with open(os.path.join(MODEL_DIR, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    different = [key for key, value in checkpoint["cfg"].items() if config[key] != value]
    if different:
        raise SystemExit(f"export: config.json and the checkpoint differ in {', '.join(different)}")
    os.makedirs(options.folder, exist_ok=True)
    for name in COPIED:
        if os.path.realpath(options.folder) != os.path.realpath(MODEL_DIR):
            shutil.copy(os.path.join(MODEL_DIR, name), options.folder)
    Export(checkpoint["model"], config).write(os.path.join(options.folder, "model.safetensors"))


if __name__ == "__main__":
    main()
