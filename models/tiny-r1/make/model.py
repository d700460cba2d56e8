# SPDX-License-Identifier: Apache-2.0
"""DeepSeek-V3's architecture for the training: MLA with YaRN, experts chosen by groups with a bias, a shared
expert, and one MTP module.

A batch is a row of packed documents: tokens [T] and where each document begins. Attention never leaves a
document, and positions begin at 0 in each. The code is plain torch for any device; on a CPU the kernels of
kernels.py do the same in less time."""
import math

import torch
from torch import nn
from torch.nn import functional

import kernels

CONFIG = {
    "vocab_size": 4096, "hidden_size": 256, "num_hidden_layers": 4, "intermediate_size": 768,
    "moe_intermediate_size": 64, "n_routed_experts": 64, "num_experts_per_tok": 8, "n_group": 8,
    "topk_group": 4, "n_shared_experts": 1, "first_k_dense_replace": 1, "routed_scaling_factor": 2.5,
    "num_attention_heads": 8, "q_lora_rank": 128, "kv_lora_rank": 128, "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 16, "v_head_dim": 32, "rope_theta": 10000.0, "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-6, "num_nextn_predict_layers": 1,
    "rope_scaling": {"type": "yarn", "factor": 4, "original_max_position_embeddings": 512, "beta_fast": 32,
                     "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 1.0},
}


class Precision:
    """The type in which products are computed. Weights and the residual stream are float."""
    compute = torch.bfloat16


def yarn(config):
    """Cosines and sines [positions, rope / 2], and the scale of the scores, as in DeepSeek's model.py."""
    width, base, scaling = config["qk_rope_head_dim"], config["rope_theta"], config["rope_scaling"]
    original = scaling["original_max_position_embeddings"]
    frequency = 1.0 / (base ** (torch.arange(0, width, 2, dtype=torch.float32) / width))

    def rotations_end(rotations):
        return width * math.log(original / (rotations * 2 * math.pi)) / (2 * math.log(base))
    low = max(math.floor(rotations_end(scaling["beta_fast"])), 0)
    high = min(math.ceil(rotations_end(scaling["beta_slow"])), width - 1)
    ramp = (torch.arange(width // 2, dtype=torch.float32) - low) / (high - low if high > low else 0.001)
    smooth = 1 - torch.clamp(ramp, 0, 1)
    frequency = frequency / scaling["factor"] * (1 - smooth) + frequency * smooth
    angle = torch.outer(torch.arange(config["max_position_embeddings"]).float(), frequency)
    stretch = 0.1 * scaling["mscale_all_dim"] * math.log(scaling["factor"]) + 1.0
    scale = (config["qk_nope_head_dim"] + width) ** -0.5 * stretch * stretch
    return angle.cos().contiguous(), angle.sin().contiguous(), scale


class Norm(nn.Module):
    """RMSNorm of float rows."""

    def __init__(self, width, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        if kernels.library:
            return kernels.RmsNorm.apply(x, self.weight, self.eps)
        x = x.float()
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        return (x * scale * self.weight).to(Precision.compute)


class Linear(nn.Module):
    """A product with a matrix, without a bias."""

    def __init__(self, inputs, outputs, deviation=None):
        super().__init__()
        deviation = 0.7 * inputs ** -0.5 if deviation is None else deviation
        self.weight = nn.Parameter(torch.randn(outputs, inputs) * deviation)

    def forward(self, x):
        return functional.linear(x, self.weight.to(Precision.compute))


def swiglu(h):
    """silu(gate) * up; the first half of h is the gate."""
    if kernels.library:
        return kernels.SwiGlu.apply(h)
    gate, up = h.chunk(2, -1)
    return functional.silu(gate) * up


def rotate(v, cosine, sine):
    """RoPE of v [T, heads, rope], pairs interleaved."""
    a, b = v[..., 0::2].float(), v[..., 1::2].float()
    cosine, sine = cosine[:, None], sine[:, None]
    return torch.stack([a * cosine - b * sine, a * sine + b * cosine], -1).flatten(-2).to(v.dtype)


class Attention(nn.Module):
    """Multi-head latent attention in its expanded form."""

    def __init__(self, config):
        super().__init__()
        width, eps = config["hidden_size"], config["rms_norm_eps"]
        self.heads = config["num_attention_heads"]
        self.plain, self.rope = config["qk_nope_head_dim"], config["qk_rope_head_dim"]
        self.value, self.latent = config["v_head_dim"], config["kv_lora_rank"]
        self.q_a_proj = Linear(width, config["q_lora_rank"])
        self.q_a_layernorm = Norm(config["q_lora_rank"], eps)
        self.q_b_proj = Linear(config["q_lora_rank"], self.heads * (self.plain + self.rope))
        self.kv_a_proj_with_mqa = Linear(width, self.latent + self.rope)
        self.kv_a_layernorm = Norm(self.latent, eps)
        self.kv_b_proj = Linear(self.latent, self.heads * (self.plain + self.value))
        self.o_proj = Linear(self.heads * self.value, width, 0.2 * (self.heads * self.value) ** -0.5)

    def forward(self, x, batch):
        query = self.q_b_proj(self.q_a_layernorm(self.q_a_proj(x).float()))
        compressed = self.kv_a_proj_with_mqa(x).float()
        kv = self.kv_b_proj(self.kv_a_layernorm(compressed[:, :self.latent]))
        key_rope = compressed[:, self.latent:]
        if kernels.library:
            heads = (self.heads, self.plain, self.rope, self.value, batch["scale"])
            output = kernels.Attention.apply(query, kv, key_rope, batch["cosine"], batch["sine"],
                                             batch["first"], heads)
        else:
            output = self.attend(query, kv, key_rope, batch)
        return self.o_proj(output)

    def attend(self, query, kv, key_rope, batch):
        """The attention in plain torch: documents are padded to the longest."""
        tokens = query.shape[0]
        cosine, sine = batch["cosine"][batch["position"]], batch["sine"][batch["position"]]
        query = query.view(tokens, self.heads, -1)
        kv = kv.view(tokens, self.heads, -1)
        query = torch.cat([query[..., :self.plain], rotate(query[..., self.plain:], cosine, sine)], -1)
        key_rope = rotate(key_rope.to(Precision.compute)[:, None], cosine, sine).expand(-1, self.heads, -1)
        key, value = torch.cat([kv[..., :self.plain], key_rope], -1), kv[..., self.plain:]
        query, key, value = (part[batch["padded"]].transpose(1, 2) for part in (query, key, value))
        scores = (query @ key.transpose(-1, -2)).float() * batch["scale"] + batch["causal"]
        output = (scores.softmax(-1).to(Precision.compute) @ value).transpose(1, 2)
        return output[batch["inside"]].reshape(tokens, self.heads * self.value)


class Mlp(nn.Module):
    """A dense SwiGLU."""

    def __init__(self, width, hidden):
        super().__init__()
        self.gate_up = Linear(width, 2 * hidden)
        self.down_proj = Linear(hidden, width, 0.2 * hidden ** -0.5)

    def forward(self, x):
        return self.down_proj(swiglu(self.gate_up(x)))


class Experts(nn.Module):
    """Routed experts and a shared one."""

    def __init__(self, config):
        super().__init__()
        width, hidden = config["hidden_size"], config["moe_intermediate_size"]
        count = config["n_routed_experts"]
        self.config = config
        self.gate = nn.Parameter(torch.randn(count, width) * 0.5 * width ** -0.5)
        self.register_buffer("bias", torch.zeros(count))
        self.register_buffer("load", torch.zeros(count))
        self.w13 = nn.Parameter(torch.randn(count, 2 * hidden, width) * 0.7 * width ** -0.5)
        self.w2 = nn.Parameter(torch.randn(count, width, hidden) * 0.2 * hidden ** -0.5)
        self.shared = Mlp(width, hidden * config["n_shared_experts"])

    def route(self, scores):
        """The chosen experts [T, K] and the tokens of each [E]. The bias decides, but does not weigh."""
        groups, kept = self.config["n_group"], self.config["topk_group"]
        chosen = self.config["num_experts_per_tok"]
        if kernels.library:
            return kernels.route(scores, self.bias, groups, kept, chosen)
        tokens, experts = scores.shape
        biased = scores + self.bias
        best = biased.view(tokens, groups, -1).topk(2, -1)[0].sum(-1).topk(kept, -1)[1]
        on = torch.zeros(tokens, groups, device=scores.device).scatter_(1, best, 1.0)
        on = on.repeat_interleave(experts // groups, 1)
        index = biased.masked_fill(on == 0, float("-inf")).topk(chosen, -1)[1]
        return index, torch.bincount(index.flatten(), minlength=experts)

    def compute(self, x, weight, index, count):
        """The experts in plain torch: the rows of each are padded to the most."""
        (tokens, chosen), experts = index.shape, count.shape[0]
        flat = index.flatten()
        order = flat.argsort()
        first, most = count.cumsum(0) - count, int(count.max())
        row = torch.arange(tokens * chosen, device=x.device) - first[flat[order]]
        slot = flat[order] * most + row
        inputs = torch.zeros(experts * most, x.shape[1], dtype=x.dtype, device=x.device)
        inputs = inputs.index_copy(0, slot, x[order // chosen]).view(experts, most, -1)
        gate_up, down = (each.to(Precision.compute).transpose(1, 2) for each in (self.w13, self.w2))
        outputs = torch.bmm(swiglu(torch.bmm(inputs, gate_up)), down).view(experts * most, -1)
        slot_of = torch.empty_like(slot)
        slot_of[order] = slot
        rows = outputs[slot_of].view(tokens, chosen, -1).float()
        return (rows * weight[..., None]).sum(1).to(Precision.compute)

    def forward(self, x):
        scores = torch.sigmoid(functional.linear(x.float(), self.gate))
        index, self.count = self.route(scores.detach())
        if self.training:
            self.load += self.count
        weight = scores.gather(1, index.long())
        weight = weight / (weight.sum(-1, keepdim=True) + 1e-20) * self.config["routed_scaling_factor"]
        if kernels.library:
            y = kernels.Experts.apply(x, weight, self.w13, self.w2, index, self.count)
        else:
            y = self.compute(x, weight, index, self.count)
        return y + self.shared(x)


class Block(nn.Module):
    """Attention and an MLP, dense or of experts."""

    def __init__(self, config, dense):
        super().__init__()
        width, eps = config["hidden_size"], config["rms_norm_eps"]
        self.input_layernorm = Norm(width, eps)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = Norm(width, eps)
        self.mlp = Mlp(width, config["intermediate_size"]) if dense else Experts(config)

    def forward(self, x, batch):
        x = x + self.self_attn(self.input_layernorm(x), batch)
        return x + self.mlp(self.post_attention_layernorm(x))


def padding_plan(first, device):
    """What the plain attention needs to know of the documents that begin at `first`."""
    lengths = [end - begin for begin, end in zip(first, first[1:])]
    longest = max(lengths)
    padded = torch.zeros(len(lengths), longest, dtype=torch.long)
    inside = torch.zeros(len(lengths), longest, dtype=torch.bool)
    for row, (begin, length) in enumerate(zip(first, lengths)):
        padded[row, :length] = torch.arange(begin, begin + length)
        inside[row, :length] = True
    position = torch.cat([torch.arange(length) for length in lengths])
    causal = torch.full((longest, longest), float("-inf"), device=device).triu_(1)
    return {"position": position.to(device), "padded": padded.to(device), "inside": inside.to(device),
            "causal": causal}


class Model(nn.Module):
    """The model. Names of parameters are those of the checkpoint files of the training."""

    def __init__(self, config):
        super().__init__()
        width, vocabulary, eps = config["hidden_size"], config["vocab_size"], config["rms_norm_eps"]
        self.embed = nn.Parameter(torch.randn(vocabulary, width) * 0.1)
        self.layers = nn.ModuleList([Block(config, layer < config["first_k_dense_replace"])
                                     for layer in range(config["num_hidden_layers"])])
        self.norm = Norm(width, eps)
        self.head = nn.Parameter(torch.randn(vocabulary, width) * 0.02)
        self.enorm = Norm(width, eps)
        self.hnorm = Norm(width, eps)
        self.eh_proj = Linear(2 * width, width)
        self.mtp = Block(config, False)
        self.mtp_norm = Norm(width, eps)
        cosine, sine, self.scale = yarn(config)
        self.register_buffer("cosine", cosine, persistent=False)
        self.register_buffer("sine", sine, persistent=False)

    def batch(self, first):
        """What the attention needs to know of packed documents."""
        plan = {"first": torch.tensor(first, dtype=torch.int32), "cosine": self.cosine, "sine": self.sine,
                "scale": self.scale}
        return plan if kernels.library else {**plan, **padding_plan(first, self.embed.device)}

    def trunk(self, ids, batch):
        """The hidden states after the last norm: inputs of the head and of the MTP module."""
        x = functional.embedding(ids, self.embed)
        for layer in self.layers:
            x = layer(x, batch)
        return self.norm(x)

    def mtp_trunk(self, hidden, following, batch):
        """From a token's hidden state and the token after it: what predicts the token after that."""
        embedded = self.enorm(functional.embedding(following, self.embed))
        joined = torch.cat([embedded, self.hnorm(hidden.float())], -1)
        return self.mtp_norm(self.mtp(self.eh_proj(joined).float(), batch))

    def cross_entropy(self, hidden, right):
        """The mean loss of predicted tokens, and the share of right ones."""
        rows = hidden.shape[0]
        if kernels.library:
            padding = -rows % 512
            hidden = torch.cat([hidden, hidden.new_zeros(padding, hidden.shape[1])])
            return kernels.Head.apply(hidden, self.head, torch.cat([right, right.new_zeros(padding)]), rows)
        logits = functional.linear(hidden, self.head.to(Precision.compute)).float()
        return functional.cross_entropy(logits, right), (logits.argmax(-1) == right).float().mean()

    def loss(self, ids, batch, selected, following, mtp_selected, second):
        """(loss, accuracy, MTP loss, MTP accuracy); mtp_selected None leaves the MTP module out."""
        hidden = self.trunk(ids, batch)
        loss, accuracy = self.cross_entropy(hidden[selected], following[selected])
        if mtp_selected is None:
            return loss, accuracy, loss.detach() * 0, accuracy * 0
        predicted = self.mtp_trunk(hidden, following, batch)
        return (loss, accuracy, *self.cross_entropy(predicted[mtp_selected], second[mtp_selected]))

    def expert_layers(self):
        """The layers with experts; that of the MTP module is the last one."""
        return [block.mlp for block in [*self.layers, self.mtp] if isinstance(block.mlp, Experts)]
