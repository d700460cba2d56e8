#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""reference_glm5.py FOLDER: writes FOLDER/golden.json, the outputs of a checkpoint of GLM-5's form in float64.

Written from the text of transformers' modular_glm_moe_dsa.py and modular_deepseek_v32.py, apart from the engine and
before it ran this model; it shares no code with it. Needs numpy, and no test runs it. Each token is computed from
the whole prefix at once: there is no cache. The MTP layer is V3's, as transformers leaves it out."""
import json
import struct
import sys

import numpy

PROMPTS = [1, 16, 17, 40]
NEW_TOKENS = 24
LATENT_EPSILON = 1e-6


def read_tensors(path, wanted=lambda entry: True):
    """The wanted tensors of a safetensors file, with BF16 and F32 values, as float64."""
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header, data = json.loads(file.read(size)), file.read()
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__" or not wanted(entry):
            continue
        begin, end = entry["data_offsets"]
        raw = data[begin:end]
        if entry["dtype"] == "BF16":
            values = (numpy.frombuffer(raw, numpy.uint16).astype(numpy.uint32) << 16).view(numpy.float32)
        else:
            values = numpy.frombuffer(raw, numpy.float32)
        tensors[name] = values.astype(numpy.float64).reshape(entry["shape"])
    return tensors


def rms_norm(x, weight, epsilon):
    return x / numpy.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * weight


def layer_norm(x, weight, bias):
    centred = x - x.mean(-1, keepdims=True)
    return centred / numpy.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-6) * weight + bias


def silu(x):
    return x / (1 + numpy.exp(-x))


class Reference:
    def __init__(self, folder, read=read_tensors):
        with open(folder + "/config.json", encoding="utf-8") as file:
            self.config = json.load(file)
        self.tensors = read(folder + "/model.safetensors")
        self.layers = self.config["num_hidden_layers"]

    def weight(self, name):
        return self.tensors[name + ".weight"]

    def rotate(self, x, positions):
        """Neighbouring pairs of the last axis; x [T, ..., rope]."""
        width = x.shape[-1]
        theta = self.config["rope_parameters"]["rope_theta"]
        frequency = theta ** (-numpy.arange(0, width, 2) / width)
        angle = positions.reshape([-1] + [1] * (x.ndim - 1)) * frequency
        a, b = x[..., 0::2], x[..., 1::2]
        out = numpy.empty_like(x)
        out[..., 0::2] = a * numpy.cos(angle) - b * numpy.sin(angle)
        out[..., 1::2] = a * numpy.sin(angle) + b * numpy.cos(angle)
        return out

    def choose(self, prefix, x, latent, positions):
        """The rows that each token attends to, and the margin behind the last one (None: all)."""
        config, prefix = self.config, prefix + "indexer."
        heads, width, rope = config["index_n_heads"], config["index_head_dim"], config["qk_rope_head_dim"]
        q = (latent @ self.weight(prefix + "wq_b").T).reshape(len(x), heads, width)
        k = layer_norm(x @ self.weight(prefix + "wk").T, self.tensors[prefix + "k_norm.weight"],
                       self.tensors[prefix + "k_norm.bias"])
        q[..., :rope] = self.rotate(q[..., :rope], positions)
        k[..., :rope] = self.rotate(k[..., :rope], positions)
        weights = x @ self.weight(prefix + "weights_proj").T * heads ** -0.5
        products = numpy.maximum(numpy.einsum("shd,td->sht", q, k) * width ** -0.5, 0)
        scores = numpy.einsum("sh,sht->st", weights, products)
        chosen, margins = [], []
        for token in range(len(x)):
            order = numpy.argsort(-scores[token, :token + 1], kind="stable")
            count = min(config["index_topk"], token + 1)
            chosen.append(numpy.sort(order[:count]))
            margins.append(None if count == token + 1
                           else float(scores[token, order[count - 1]] - scores[token, order[count]]))
        return chosen, margins, float(scores[numpy.tril_indices(len(x))].std())

    def attention(self, layer, x, positions, before):
        """The output, and the choice, which is `before` in layers that share it."""
        config, prefix = self.config, f"model.layers.{layer}.self_attn."
        heads, nope, rope = (config[key] for key in ("num_attention_heads", "qk_nope_head_dim", "qk_rope_head_dim"))
        value, rank = config["v_head_dim"], config["kv_lora_rank"]
        latent = rms_norm(x @ self.weight(prefix + "q_a_proj").T, self.weight(prefix + "q_a_layernorm"), LATENT_EPSILON)
        q = (latent @ self.weight(prefix + "q_b_proj").T).reshape(len(x), heads, nope + rope)
        compressed = x @ self.weight(prefix + "kv_a_proj_with_mqa").T
        c = rms_norm(compressed[:, :rank], self.weight(prefix + "kv_a_layernorm"), LATENT_EPSILON)
        kv = (c @ self.weight(prefix + "kv_b_proj").T).reshape(len(x), heads, nope + value)
        q[..., nope:] = self.rotate(q[..., nope:], positions)
        shared_key = self.rotate(compressed[:, rank:], positions)
        if layer < self.layers and config["indexer_types"][layer] == "shared":
            choice = before
        else:
            choice = self.choose(prefix, x, latent, positions)
        out = numpy.zeros((len(x), heads, value))
        for token, rows in enumerate(choice[0]):
            score = numpy.einsum("hd,thd->ht", q[token, :, :nope], kv[rows][:, :, :nope])
            score += q[token, :, nope:] @ shared_key[rows].T
            score *= (nope + rope) ** -0.5
            share = numpy.exp(score - score.max(-1, keepdims=True))
            share /= share.sum(-1, keepdims=True)
            out[token] = numpy.einsum("ht,thd->hd", share, kv[rows][:, :, nope:])
        return out.reshape(len(x), -1) @ self.weight(prefix + "o_proj").T, choice

    def mlp(self, prefix, x):
        hidden = silu(x @ self.weight(prefix + "gate_proj").T) * (x @ self.weight(prefix + "up_proj").T)
        return hidden @ self.weight(prefix + "down_proj").T

    def experts(self, layer, x):
        """The result, and the last token's experts."""
        config, prefix = self.config, f"model.layers.{layer}.mlp."
        scores = 1 / (1 + numpy.exp(-(x @ self.weight(prefix + "gate").T)))
        biased = scores + self.tensors[prefix + "gate.e_score_correction_bias"]
        out = self.mlp(prefix + "shared_experts.", x)
        for token in range(len(x)):
            experts = numpy.argsort(-biased[token], kind="stable")[:config["num_experts_per_tok"]]
            share = scores[token, experts] / scores[token, experts].sum() * config["routed_scaling_factor"]
            for expert, factor in zip(experts, share):
                out[token] += factor * self.mlp(f"{prefix}experts.{expert}.", x[token])
        order = numpy.sort(-biased, -1)
        margin = float((order[:, len(experts)] - order[:, len(experts) - 1]).min())
        return out, sorted(map(int, experts)), margin

    def block(self, layer, x, positions, before, found):
        epsilon, prefix = self.config["rms_norm_eps"], f"model.layers.{layer}."
        attended, choice = self.attention(layer, rms_norm(x, self.weight(prefix + "input_layernorm"), epsilon),
                                          positions, before)
        x = x + attended
        normed = rms_norm(x, self.weight(prefix + "post_attention_layernorm"), epsilon)
        if layer < self.layers and self.config["mlp_layer_types"][layer] == "dense":
            return x + self.mlp(prefix + "mlp.", normed), choice
        out, experts, margin = self.experts(layer, normed)
        found["router"][layer] = experts
        found["router_margin"] = min(found["router_margin"], margin)
        return x + out, choice

    def run(self, tokens):
        """Logits of all positions, MTP's logits, and what was chosen."""
        positions, before = numpy.arange(len(tokens)), None
        found = {"router": {}, "index": {}, "router_margin": 1e9}
        x = self.weight("model.embed_tokens")[tokens]
        for layer in range(self.layers):
            x, before = self.block(layer, x, positions, before, found)
            found["index"][layer] = before
        hidden = rms_norm(x, self.weight("model.norm"), self.config["rms_norm_eps"])
        return hidden @ self.weight("lm_head").T, hidden, found

    def drafts(self, tokens, hidden, following):
        """MTP's logits: position i from the output i and token i + 1."""
        epsilon, prefix = self.config["rms_norm_eps"], f"model.layers.{self.layers}."
        embedded = self.weight("model.embed_tokens")[tokens[1:] + [following]]
        pair = numpy.concatenate([rms_norm(embedded, self.weight(prefix + "enorm"), epsilon),
                                  rms_norm(hidden, self.weight(prefix + "hnorm"), epsilon)], -1)
        found = {"router": {}, "router_margin": 1e9}
        x, _ = self.block(self.layers, pair @ self.weight(prefix + "eh_proj").T, numpy.arange(len(tokens)), None, found)
        return rms_norm(x, self.weight(prefix + "shared_head.norm"), epsilon) @ self.weight("lm_head").T


def lead(logits):
    """The first token, and how far it leads."""
    order = numpy.argsort(-logits)
    return int(order[0]), float(logits[order[0]] - logits[order[1]])


def index_of(found, token):
    """What a token attends to, by layer."""
    return {str(layer): {"selected": found["index"][layer][0][token].tolist(),
                         "margin": found["index"][layer][1][token]} for layer in found["index"]}


def prompt_of(reference, tokens):
    """One prompt of golden.json; None if a choice is too close to call."""
    logits, hidden, found = reference.run(tokens)
    count = len(tokens)
    top = []
    for position in range(max(0, count - 8), count):
        ids = numpy.argsort(-logits[position])[:20]
        top.append({"pos": position, "ids": ids.tolist(), "logits": [round(float(logits[position][i]), 6) for i in ids]})
    largest = logits.max(-1)
    lse = largest + numpy.log(numpy.exp(logits - largest[:, None]).sum(-1))
    drafts = [lead(row) for row in reference.drafts(tokens, hidden, lead(logits[-1])[0])]
    answer, margins, leaders, steps = [], [], [], found
    for _ in range(NEW_TOKENS):
        if answer:
            logits, hidden, steps = reference.run(tokens + answer)
        token, margin = lead(logits[-1])
        leaders.append(round(float(logits[-1][token]), 6))
        answer.append(token)
        margins.append(margin)
    places = sorted({0, 15, 16, count // 2, count - 2, count - 1} & set(range(count)))
    index_margins = [margin for layer in steps["index"].values() for margin in layer[1] if margin is not None]
    deviation = min(layer[2] for layer in steps["index"].values())
    if min(margins) < .02 or min(index_margins, default=1) < 2e-4 * deviation or steps["router_margin"] < 3e-5:
        return None
    greedy = [lead(row) for row in reference.drafts(tokens + answer[:-1], hidden, answer[-1])][count - 1:]
    return {
        "n": count, "tokens": tokens, "top20": top, "stats": {"lse": [round(float(each), 6) for each in lse]},
        "greedy": {"tokens": answer, "margins": margins, "top_logit": leaders},
        "router_last": {str(layer): {"experts": experts} for layer, experts in found["router"].items()},
        "index": [{"pos": place, "layers": index_of(found, place)} for place in places],
        "greedy_last_step_selected": {layer: each["selected"] for layer, each in index_of(steps, count + 22).items()},
        "mtp": {"argmax_all": [token for token, _ in drafts], "margin_all": [margin for _, margin in drafts],
                "greedy_drafts": [token for token, _ in greedy], "greedy_draft_margins": [each for _, each in greedy]},
    }


def main():
    folder = sys.argv[1]
    reference = Reference(folder)
    draw = numpy.random.default_rng(5)
    prompts = []
    for count in PROMPTS:
        prompt = None
        while prompt is None:
            prompt = prompt_of(reference, draw.integers(4, reference.config["vocab_size"], count).tolist())
        prompts.append(prompt)
        print(count, flush=True)
    with open(folder + "/golden.json", "w", encoding="utf-8") as file:
        json.dump({"case": "glm5-bf16-dsa-shared", "reference": "reference_glm5.py, float64", "prompts": prompts}, file)


if __name__ == "__main__":
    main()
