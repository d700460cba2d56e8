#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""infer.py FOLDER QUESTION...: answers questions with a plain implementation of the model, in float.

It shares no code with the training: it reads the exported file and computes the attention in its absorbed
form on the latent KV cache. Several prompts run at once, padded on the left."""
import argparse
import json
import math
import os

import numpy
import torch
from torch.nn import functional

from tokenizer import ASSISTANT, BOS, USER, tokenizer

BLOCK = 128
EOS_ID, PAD_ID = 1, 2
MASKED = -1e9


# ---- the file

def fp8_table():
    """The value of each E4M3 code."""
    table = numpy.zeros(256, numpy.float32)
    for code in range(256):
        exponent, mantissa = (code >> 3) & 15, code & 7
        value = mantissa * 2.0 ** -9 if exponent == 0 else (1 + mantissa / 8) * 2.0 ** (exponent - 7)
        table[code] = -value if code >> 7 else value
    table[[127, 255]] = numpy.nan
    return table


def decode(kind, data):
    """A tensor's bytes as float."""
    if kind == "F32":
        return data.view(numpy.float32).copy()
    if kind == "BF16":
        return (data.view(numpy.uint16).astype(numpy.uint32) << 16).view(numpy.float32)
    return fp8_table()[data]


def read_model(folder):
    """(config, tensors by name), all in float, with FP8's scales applied."""
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    with open(os.path.join(folder, "model.safetensors"), "rb") as file:
        raw = file.read()
    data = 8 + int.from_bytes(raw[:8], "little")
    tensors = {}
    for name, entry in json.loads(raw[8:data]).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            part = numpy.frombuffer(raw, numpy.uint8, end - begin, data + begin)
            tensors[name] = torch.from_numpy(decode(entry["dtype"], part).reshape(entry["shape"]))
    for name in [name for name in tensors if name.endswith("_scale_inv")]:
        scales = tensors.pop(name).repeat_interleave(BLOCK, 0).repeat_interleave(BLOCK, 1)
        weight = tensors[name[:-len("_scale_inv")]]
        weight *= scales[:weight.shape[0], :weight.shape[1]]
    return config, tensors


# ---- the model

def yarn_angles(config):
    """RoPE's factors as complex numbers [positions, rope / 2], and the scale of the scores."""
    width, base, scaling = config["qk_rope_head_dim"], config["rope_theta"], config["rope_scaling"]
    original = scaling["original_max_position_embeddings"]
    frequency = 1.0 / (base ** (torch.arange(0, width, 2, dtype=torch.float32) / width))

    def dimension(rotations):
        return width * math.log(original / (rotations * 2 * math.pi)) / (2 * math.log(base))
    low = max(math.floor(dimension(scaling["beta_fast"])), 0)
    high = min(math.ceil(dimension(scaling["beta_slow"])), width - 1)
    smooth = 1 - torch.clamp((torch.arange(width // 2).float() - low) / (high - low), 0, 1)
    frequency = frequency / scaling["factor"] * (1 - smooth) + frequency * smooth
    angle = torch.outer(torch.arange(config["max_position_embeddings"]).float(), frequency)
    stretch = 0.1 * scaling["mscale_all_dim"] * math.log(scaling["factor"]) + 1
    scale = (config["qk_nope_head_dim"] + width) ** -0.5 * stretch * stretch
    return torch.polar(torch.ones_like(angle), angle), scale


def rotate(x, angle):
    """RoPE, pairs interleaved."""
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2).contiguous())
    return torch.view_as_real(pairs * angle).flatten(-2)


class Net:
    """The model of a folder. `load` counts the tokens of each expert in each layer."""

    def __init__(self, folder):
        self.config, self.weights = read_model(folder)
        self.angles, self.scale = yarn_angles(self.config)
        self.layers = self.config["num_hidden_layers"]
        count = self.config["n_routed_experts"]
        self.experts = {}
        for layer in range(self.layers + self.config["num_nextn_predict_layers"]):
            place = f"model.layers.{layer}.mlp."
            if place + "gate.weight" in self.weights:
                self.experts[layer] = [self.stack(place, kind, count) for kind in ("gate", "up", "down")]
        self.load = {layer: torch.zeros(count) for layer in self.experts}

    def stack(self, place, kind, count):
        """The matrices of all experts of a layer."""
        return torch.stack([self.weights[f"{place}experts.{i}.{kind}_proj.weight"] for i in range(count)])

    def linear(self, x, name):
        """x times a matrix."""
        return functional.linear(x, self.weights[name + ".weight"])

    def norm(self, x, name):
        """RMSNorm."""
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.config["rms_norm_eps"])
        return x * scale * self.weights[name + ".weight"]

    def attention(self, x, layer, cache, position, mask):
        """x [B, S, D], position [B, S], mask [B, S, T] -> [B, S, D]; the cache has the past's latents."""
        config, place = self.config, f"model.layers.{layer}.self_attn."
        heads, plain = config["num_attention_heads"], config["qk_nope_head_dim"]
        latent = config["kv_lora_rank"]
        query = self.norm(self.linear(x, place + "q_a_proj"), place + "q_a_layernorm")
        query = self.linear(query, place + "q_b_proj").view(*x.shape[:2], heads, -1)
        query_rope = rotate(query[..., plain:], self.angles[position][:, :, None])
        compressed = self.linear(x, place + "kv_a_proj_with_mqa")
        key = self.norm(compressed[..., :latent], place + "kv_a_layernorm")
        key_rope = rotate(compressed[..., latent:], self.angles[position])
        if cache is not None:
            if layer in cache:
                key, key_rope = (torch.cat(pair, 1) for pair in zip(cache[layer], (key, key_rope)))
            cache[layer] = (key, key_rope)
        expand = self.weights[place + "kv_b_proj.weight"].view(heads, -1, latent)
        query = torch.einsum("bshn,hnc->bshc", query[..., :plain], expand[:, :plain])
        scores = torch.einsum("bshc,btc->bsht", query, key)
        scores = scores + torch.einsum("bshr,btr->bsht", query_rope, key_rope)
        share = (scores * self.scale + mask[:, :, None]).softmax(-1)
        output = torch.einsum("bshc,hvc->bshv", torch.einsum("bsht,btc->bshc", share, key), expand[:, plain:])
        return self.linear(output.flatten(2), place + "o_proj")

    def mlp(self, x, place):
        """A dense SwiGLU."""
        hidden = functional.silu(self.linear(x, place + "gate_proj")) * self.linear(x, place + "up_proj")
        return self.linear(hidden, place + "down_proj")

    def route(self, x, layer):
        """The experts of each token [T, K] and their weights."""
        config, place = self.config, f"model.layers.{layer}.mlp.gate"
        groups, chosen = config["n_group"], config["num_experts_per_tok"]
        scores = torch.sigmoid(self.linear(x, place))
        biased = scores + self.weights[place + ".e_score_correction_bias"]
        best = biased.view(len(x), groups, -1).topk(2, -1)[0].sum(-1).topk(config["topk_group"], -1)[1]
        on = torch.zeros(len(x), groups).scatter_(1, best, 1.0)
        on = on.repeat_interleave(scores.shape[1] // groups, 1)
        index = biased.masked_fill(on == 0, float("-inf")).topk(chosen, -1)[1]
        weight = scores.gather(1, index)
        self.load[layer] += torch.bincount(index.flatten(), minlength=scores.shape[1])
        return index, weight / (weight.sum(-1, keepdim=True) + 1e-20) * config["routed_scaling_factor"]

    def moe(self, x, layer):
        """Routed experts and the shared one."""
        shape = x.shape
        x = x.reshape(-1, shape[-1])
        index, weight = self.route(x, layer)
        gates, ups, downs = self.experts[layer]
        y = torch.zeros_like(x)
        for expert in index.unique().tolist():
            token, slot = torch.where(index == expert)
            rows = x[token]
            hidden = functional.silu(rows @ gates[expert].t()) * (rows @ ups[expert].t())
            y[token] += hidden @ downs[expert].t() * weight[token, slot, None]
        return (y + self.mlp(x, f"model.layers.{layer}.mlp.shared_experts.")).view(shape)

    def block(self, x, layer, cache, position, mask):
        """A layer."""
        place = f"model.layers.{layer}."
        x = x + self.attention(self.norm(x, place + "input_layernorm"), layer, cache, position, mask)
        hidden = self.norm(x, place + "post_attention_layernorm")
        return x + (self.moe(hidden, layer) if layer in self.experts else self.mlp(hidden, place + "mlp."))

    def trunk(self, ids, cache, position, mask):
        """The hidden states after the last norm."""
        x = self.weights["model.embed_tokens.weight"][ids]
        for layer in range(self.layers):
            x = self.block(x, layer, cache, position, mask)
        return self.norm(x, "model.norm")

    def logits(self, hidden):
        """The scores of all tokens."""
        return self.linear(hidden, "lm_head")

    def mtp(self, hidden, following, position, mask):
        """From a token's hidden state and the token after it: the scores of the token after that."""
        place = f"model.layers.{self.layers}."
        embedded = self.norm(self.weights[place + "embed_tokens.weight"][following], place + "enorm")
        joined = torch.cat([embedded, self.norm(hidden, place + "hnorm")], -1)
        x = self.block(self.linear(joined, place + "eh_proj"), self.layers, None, position, mask)
        return self.linear(self.norm(x, place + "shared_head.norm"), place + "shared_head.head")

    def generate(self, prompts, most=700):
        """The most probable answers to prompts of ids, each without its end."""
        length = max(map(len, prompts))
        pad = torch.tensor([length - len(prompt) for prompt in prompts])
        x = torch.tensor([[PAD_ID] * (length - len(prompt)) + prompt for prompt in prompts])
        column = torch.arange(length)
        position = (column[None] - pad[:, None]).clamp(min=0)
        visible = (column[None, None] <= column[None, :, None]) & (column[None, None] >= pad[:, None, None])
        mask = torch.where(visible, 0.0, MASKED)
        cache, answers, alive = {}, [[] for _ in prompts], torch.arange(len(prompts))
        for _ in range(most):
            token = self.logits(self.trunk(x, cache, position, mask)[:, -1]).argmax(-1)
            going = token != EOS_ID
            alive, token, pad = alive[going], token[going], pad[going]
            cache = {layer: (key[going], rope[going]) for layer, (key, rope) in cache.items()}
            for answer, each in zip(alive.tolist(), token.tolist()):
                answers[answer].append(each)
            if not len(alive):
                break
            x, position = token[:, None], (length - pad)[:, None]
            length += 1
            mask = torch.where(torch.arange(length)[None, None] >= pad[:, None, None], 0.0, MASKED)
        return answers


torch.set_grad_enabled(False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("questions", nargs="+")
    options = parser.parse_args()
    prompts = [BOS + USER + question + ASSISTANT for question in options.questions]
    answers = Net(options.folder).generate([tokenizer.encode(prompt) for prompt in prompts])
    for prompt, answer in zip(prompts, answers):
        print(prompt + tokenizer.decode(answer) + "\n------")


if __name__ == "__main__":
    main()
