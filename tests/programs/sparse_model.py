# SPDX-License-Identifier: Apache-2.0
"""A checkpoint larger than any machine, in files with true headers and holes in place of all weights, for tests of what is
said before weights are read. As a program: sparse_model.py DIRECTORY makes one of DeepSeek-V3's shape."""
import json
import os
import struct
import sys

V3 = {"architectures": ["DeepseekV3ForCausalLM"], "vocab_size": 129280, "hidden_size": 7168, "num_hidden_layers": 61,
      "num_attention_heads": 128, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
      "qk_rope_head_dim": 64, "v_head_dim": 128, "intermediate_size": 18432, "moe_intermediate_size": 2048,
      "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 3, "n_group": 8,
      "topk_group": 4, "num_nextn_predict_layers": 0, "max_position_embeddings": 163840, "bos_token_id": 0,
      "eos_token_id": 1, "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}
HUGE = {**V3, "num_hidden_layers": 4, "first_k_dense_replace": 1, "hidden_size": 65536, "moe_intermediate_size": 65536}


def linears(shape, layer):
    """Name, rows and columns of a layer's matrices that are FP8."""
    hidden, heads, rank = shape["hidden_size"], shape["num_attention_heads"], shape["kv_lora_rank"]
    nope, rope, value = shape["qk_nope_head_dim"], shape["qk_rope_head_dim"], shape["v_head_dim"]
    yield "self_attn.q_a_proj", shape["q_lora_rank"], hidden
    yield "self_attn.q_b_proj", heads * (nope + rope), shape["q_lora_rank"]
    yield "self_attn.kv_a_proj_with_mqa", rank + rope, hidden
    yield "self_attn.kv_b_proj", heads * (nope + value), rank
    yield "self_attn.o_proj", hidden, heads * value
    widths = [("mlp.", shape["intermediate_size"])]
    if layer >= shape["first_k_dense_replace"]:
        width = shape["moe_intermediate_size"]
        widths = [("mlp.shared_experts.", shape["n_shared_experts"] * width)]
        widths += [("mlp.experts.%d." % expert, width) for expert in range(shape["n_routed_experts"])]
    for front, width in widths:
        yield front + "gate_proj", width, hidden
        yield front + "up_proj", width, hidden
        yield front + "down_proj", hidden, width


def tensors(shape):
    """Name, type and shape of all."""
    hidden, vocab = shape["hidden_size"], shape["vocab_size"]
    yield "model.embed_tokens.weight", "BF16", [vocab, hidden]
    for layer in range(shape["num_hidden_layers"]):
        front = "model.layers.%d." % layer
        for name, rows, columns in linears(shape, layer):
            yield front + name + ".weight", "F8_E4M3", [rows, columns]
            yield front + name + ".weight_scale_inv", "F32", [-(-rows // 128), -(-columns // 128)]
        for name, width in (("input_layernorm", hidden), ("post_attention_layernorm", hidden),
                            ("self_attn.q_a_layernorm", shape["q_lora_rank"]),
                            ("self_attn.kv_a_layernorm", shape["kv_lora_rank"])):
            yield front + name + ".weight", "BF16", [width]
        if layer >= shape["first_k_dense_replace"]:
            yield front + "mlp.gate.weight", "BF16", [shape["n_routed_experts"], hidden]
            yield front + "mlp.gate.e_score_correction_bias", "F32", [shape["n_routed_experts"]]
    yield "model.norm.weight", "BF16", [hidden]
    yield "lm_head.weight", "BF16", [vocab, hidden]


def make_model(folder, shape, shard_bytes=4.3e9):
    """Returns the bytes of all tensors."""
    os.mkdir(folder)
    with open(folder + "/config.json", "w", encoding="utf-8") as file:
        json.dump(shape, file)
    shards, total = [{}], 0
    ends = [0]
    for name, kind, extents in tensors(shape):
        size = {"F8_E4M3": 1, "BF16": 2, "F32": 4}[kind]
        for extent in extents:
            size *= extent
        if ends[-1] > shard_bytes and kind != "F32":
            shards.append({})
            ends.append(0)
        shards[-1][name] = {"dtype": kind, "shape": extents, "data_offsets": [ends[-1], ends[-1] + size]}
        ends[-1] += size
        total += size
    names = ["model-%05d-of-%06d.safetensors" % (i + 1, len(shards)) for i in range(len(shards))]
    for name, shard, end in zip(names, shards, ends):
        header = json.dumps(shard).encode()
        with open(os.path.join(folder, name), "wb") as file:
            file.write(struct.pack("<Q", len(header)) + header)
            file.truncate(8 + len(header) + end)
    with open(folder + "/model.safetensors.index.json", "w", encoding="utf-8") as file:
        json.dump({"weight_map": {tensor: name for name, shard in zip(names, shards) for tensor in shard}}, file)
    return total


if __name__ == "__main__":
    make_model(sys.argv[1], V3)
