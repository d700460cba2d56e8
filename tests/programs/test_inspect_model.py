#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_inspect_model.py FATHOM: `fathom inspect model` tells from a config.json what a model costs; one whose numbers make
no sense is refused with a cure."""
import json
import os
import tempfile

from command import refuse, run

# DeepSeek-V3's config.json, as published (what a shape depends on).
V3 = {"architectures": ["DeepseekV3ForCausalLM"], "vocab_size": 129280, "hidden_size": 7168,
      "num_hidden_layers": 61, "num_attention_heads": 128, "q_lora_rank": 1536, "kv_lora_rank": 512,
      "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "intermediate_size": 18432,
      "moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": 1,
      "num_experts_per_tok": 8, "first_k_dense_replace": 3, "n_group": 8, "topk_group": 4,
      "num_nextn_predict_layers": 1, "max_position_embeddings": 163840,
      "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}


def deepseek_v3(folder):
    os.mkdir(folder)
    with open(folder + "/config.json", "w", encoding="utf-8") as file:
        json.dump(V3, file)
    found = json.loads(run("inspect", "model", folder, "--redundant", "32", "--ep", "1,32,144", "--json"))
    assert round(found["parameters"] / 1e9) == 671, found["parameters"]
    assert 37.4e9 < found["active_parameters"] < 37.7e9, found["active_parameters"]
    assert found["kv_bytes_per_token"] == {"bf16": 61 * 576 * 2, "f32": 61 * 576 * 4, "bf16_mtp": 62 * 576 * 2,
                                           "f32_mtp": 62 * 576 * 4}, found["kv_bytes_per_token"]
    ranks = {rank["ep"]: rank for rank in found["ranks"]}
    assert [ranks[ep]["experts_per_layer"] for ep in (1, 32, 144)] == [288, 9, 2], ranks
    one = -(-(3 * 7168 * 2048 + 4 * 3 * 56 * 16) // 4096) * 4096  # FP8, a scale for each 128x128, in whole pages
    assert ranks[144]["expert_bytes"] == 58 * 2 * one, ranks[144]
    table = run("inspect", "model", folder)
    assert "671 G" in table and "70272 bytes, 71424 with MTP" in table, table
    refuse(1, "expected model.safetensors or", "inspect", "model", folder, "--verify")


INDEXER = {"index_n_heads": 64, "index_head_dim": 128, "index_topk": 2048}
GLM5 = {**V3, "architectures": ["GlmMoeDsaForCausalLM"], "hidden_size": 6144, "num_hidden_layers": 78,
        "num_attention_heads": 64, "q_lora_rank": 2048, "qk_nope_head_dim": 192, "v_head_dim": 256, "n_group": 1,
        "topk_group": 1, "quantization_config": None}


def sparse_attention(folder):
    """A token's KV bytes have its index key: E4M3 with a scale in an FP8 checkpoint, else of the latents' type."""
    os.mkdir(folder)
    for shape, layers, key_bytes in (({**V3, "architectures": ["DeepseekV32ForCausalLM"]}, 61, 128 + 4),
                                     (GLM5, 78, 2 * 128)):
        with open(folder + "/config.json", "w", encoding="utf-8") as file:
            json.dump({**shape, **INDEXER}, file)
        found = json.loads(run("inspect", "model", folder, "--json"))["kv_bytes_per_token"]
        both, f32 = 2 * 576 + key_bytes, 4 * (576 + 128)
        assert found == {"bf16": layers * both, "f32": layers * f32, "bf16_mtp": (layers + 1) * both,
                         "f32_mtp": (layers + 1) * f32}, found


def experts_form(folder):
    os.mkdir(folder)

    def packed(kind, group_size, layout):
        weights = {"num_bits": 4, "type": kind, "symmetric": True, "strategy": "group", "group_size": group_size}
        return {"quant_method": "compressed-tensors", "format": layout, "config_groups": {"group_0": {"weights": weights}}}

    for quantization, form in ((V3["quantization_config"], "fp8"), (None, "bf16"),
                               (packed("int", 32, "pack-quantized"), "int4-g32"),
                               (packed("int", 128, "pack-quantized"), "int4-g128"),
                               (packed("float", 32, "mxfp4-pack-quantized"), "mxfp4")):
        with open(folder + "/config.json", "w", encoding="utf-8") as file:
            json.dump({**V3, "quantization_config": quantization}, file)
        assert json.loads(run("inspect", "model", folder, "--json"))["experts_form"] == form, form


def templates(folder):
    """It names what renders a request with tools: the checkpoint's template, a built-in one, or nothing."""
    def found():
        return json.loads(run("inspect", "model", folder, "--json"))["tools_template"], run("inspect", "model", folder)
    os.mkdir(folder)
    with open(folder + "/config.json", "w", encoding="utf-8") as file:
        json.dump(V3, file)
    for template, name, says in (
            (None, None, "chat template          none\n"),
            ("{{ messages[0].role }}", None, "its own, without a place for tools\n"),
            ("{{ '<｜tool▁calls▁begin｜>' }}", "deepseek-v3.1", "its own; for tools the built-in deepseek-v3.1\n"),
            ("{{ messages[0].content }}", "hermes", "its own; for tools the built-in hermes\n"),
            ("{{ tools }}", "own", "its own, also for tools\n")):
        if template:
            with open(folder + "/chat_template.jinja", "w", encoding="utf-8") as file:
                file.write(template)
        tools, table = found()
        assert tools == name and says in table, (tools, table)


def damaged(folder):
    """A config.json whose numbers make no sense is refused in one line."""
    os.mkdir(folder)
    for key, value, words in (("rms_norm_eps", 0, "a number from 1e-30 to 1, found 0"),
                              ("eos_token_id", [1, 129280], "a token id from 0 to 129279, found 129280"),
                              ("rope_theta", -1, "a number from 1.001"),
                              ("routed_scaling_factor", 0, "a number from 1e-06")):
        with open(folder + "/config.json", "w", encoding="utf-8") as file:
            json.dump({**V3, key: value}, file)
        refuse(1, "config.json: %s: expected %s" % (key, words), "inspect", "model", folder)


def unused(folder):
    """Values that nothing reads refuse no checkpoint."""
    os.mkdir(folder)
    for key, value in (("pad_token_id", -1), ("pad_token_id", 1 << 40), ("bos_token_id", 129280), ("eos_token_id", None)):
        with open(folder + "/config.json", "w", encoding="utf-8") as file:
            json.dump({**V3, key: value}, file)
        run("inspect", "model", folder)


def main():
    with tempfile.TemporaryDirectory() as folder:
        deepseek_v3(folder + "/v3")
        sparse_attention(folder + "/sparse_attention")
        experts_form(folder + "/experts_form")
        templates(folder + "/templates")
        damaged(folder + "/damaged")
        unused(folder + "/unused")
        refuse(1, "nowhere: no such folder", "inspect", "model", folder + "/nowhere")
        refuse(2, "--ep: expected", "inspect", "model", folder, "--ep", "1,zero")


main()
