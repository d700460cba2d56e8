#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_model_files.py FATHOM ROOT: `fathom make-checkpoint` writes what it was asked for, and `fathom inspect
model` tells what it costs, from files or from an index without its shards; wrong use is refused with a
cure."""
import json
import os
import re
import subprocess
import sys
import tempfile

fathom, root = sys.argv[1:3]
failures = []

# DeepSeek-V3's config.json, as published (what a shape depends on).
V3 = {"architectures": ["DeepseekV3ForCausalLM"], "vocab_size": 129280, "hidden_size": 7168,
      "num_hidden_layers": 61, "num_attention_heads": 128, "q_lora_rank": 1536, "kv_lora_rank": 512,
      "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "intermediate_size": 18432,
      "moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": 1,
      "num_experts_per_tok": 8, "first_k_dense_replace": 3, "n_group": 8, "topk_group": 4,
      "num_nextn_predict_layers": 1, "max_position_embeddings": 163840,
      "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}


def run(*arguments):
    done = subprocess.run([fathom, *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=600)
    return done.returncode, done.stdout, done.stderr


def expect(condition, *what):
    if not condition:
        failures.append(" ".join(map(str, what)))


def refused(code, pattern, *arguments):
    found = run(*arguments)
    expect(found[0] == code and not found[1] and re.search(pattern, found[2]) and
           found[2].count("\n") == 1, arguments, "should be refused with", pattern, "found", found)


def inspect(*arguments):
    code, out, err = run("inspect", "model", *arguments, "--json")
    expect(code == 0 and not err, arguments, err)
    return json.loads(out)


def deepseek_v3(folder):
    os.mkdir(folder)
    with open(folder + "/config.json", "w", encoding="utf-8") as file:
        json.dump(V3, file)
    found = inspect(folder, "--redundant", "32", "--ep", "1,32,144")
    expect(round(found["parameters"] / 1e9) == 671, "V3's parameters:", found["parameters"])
    expect(37.4e9 < found["active_parameters"] < 37.7e9, found["active_parameters"])
    expect(found["kv_bytes_per_token"] == {"bf16": 61 * 576 * 2, "f32": 61 * 576 * 4,
                                           "bf16_mtp": 62 * 576 * 2, "f32_mtp": 62 * 576 * 4},
           found["kv_bytes_per_token"])
    ranks = {rank["ep"]: rank for rank in found["ranks"]}
    expect([ranks[ep]["experts_per_layer"] for ep in (1, 32, 144)] == [288, 9, 2], ranks)
    one = 3 * 7168 * 2048 + 4 * 3 * 56 * 16  # FP8 and a scale for each block of 128x128
    expect(ranks[144]["expert_bytes"] == 58 * 2 * one, ranks[144])
    code, out, _ = run("inspect", "model", folder)
    expect(code == 0 and "671 G" in out and "70272 bytes, 71424 with MTP" in out, out)
    refused(1, "expected model.safetensors or", "inspect", "model", folder, "--verify")


def damaged(folder):
    """A config.json whose numbers make no sense is refused in one line."""
    os.mkdir(folder)
    for key, value, words in (("rms_norm_eps", 0, "a number from 1e-12 to 1, found 0"),
                              ("bos_token_id", 129280, "a token id from 0 to 129279, found 129280"),
                              ("eos_token_id", [1, 129280], "a token id from 0 to 129279, found 129280"),
                              ("pad_token_id", 1 << 40, "a token id from 0 to 129279"),
                              ("rope_theta", -1, "a number from 1.001"),
                              ("routed_scaling_factor", 0, "a number from 1e-06")):
        with open(folder + "/config.json", "w", encoding="utf-8") as file:
            json.dump({**V3, key: value}, file)
        refused(1, "config.json: %s: expected %s" % (key, words), "inspect", "model", folder)


def generated(folder):
    code, out, err = run("make-checkpoint", folder, "--shape", "tiny", "--mtp", "--shards", "3")
    expect(code == 0 and not out, "make-checkpoint:", code, err)
    whole = inspect(folder, "--verify")
    size = sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder)
               if name.endswith(".safetensors"))
    copies = 2 * 2 * 600 * 192  # the MTP layer's embedding and head are not counted
    expect(0 < size - whole["bytes"] - whole["mtp_bytes"] - copies < 200000, size, whole)
    expect(whole["fp8"] and whole["mtp_layers"] == 1 and whole["experts"] == 32, whole)
    expect(sum(whole["bytes_by_kind"].values()) == whole["bytes"], whole)
    refused(2, "exists already; give --force", "make-checkpoint", folder)
    for name in os.listdir(folder):
        if name.endswith(".safetensors"):
            os.remove(os.path.join(folder, name))
    expect(inspect(folder) == whole, "an index alone should tell the same")
    refused(1, "shard is missing", "inspect", "model", folder, "--verify")
    code, _, err = run("make-checkpoint", folder, "--force", "--weights", "bf16")
    expect(code == 0, err)
    plain = inspect(folder, "--verify")
    expect(not plain["fp8"] and plain["mtp_layers"] == 0, plain)
    expect(plain["parameters"] == whole["parameters"], "the type does not change the shape")


def from_a_config(folder):
    config = os.path.join(root, "models/tiny-r1/config.json")
    expect(run("make-checkpoint", folder, "--shape", config, "--without-mtp")[0] == 0, "from a file")
    expect(inspect(folder, "--verify")["mtp_layers"] == 0, "--without-mtp")
    refused(1, "remove it", "make-checkpoint", folder, "--force", "--shape", config, "--weights", "f32")
    plain = os.path.join(root, "tests/golden/v2lite-softmax-greedy-yarn/config.json")
    expect(run("make-checkpoint", folder, "--force", "--shape", plain, "--weights", "fp8")[0] == 0,
           "FP8 of a plain config.json")
    expect(inspect(folder, "--verify")["fp8"], "FP8 of a plain config.json")
    expect(run("make-checkpoint", folder, "--force", "--shape", plain, "--weights", "f16")[0] == 0,
           "F16 of a plain config.json")
    expect(not inspect(folder, "--verify")["fp8"], "F16 of a plain config.json")


def main():
    with tempfile.TemporaryDirectory() as folder:
        deepseek_v3(folder + "/v3")
        damaged(folder + "/damaged")
        generated(folder + "/tiny")
        from_a_config(folder + "/copy")
        refused(1, "nowhere/config.json: not found", "inspect", "model", folder + "/nowhere")
        refused(2, "--ep: expected", "inspect", "model", folder, "--ep", "1,zero")
        refused(1, "no-such.json: cannot open it: No such file", "make-checkpoint", folder + "/x", "--shape",
                "no-such.json")
        refused(2, "--mtp is for named shapes", "make-checkpoint", folder + "/x", "--mtp", "--shape",
                os.path.join(root, "models/tiny-r1/config.json"))
        refused(1, "cannot|Not a directory|No such", "make-checkpoint", "/dev/null/x")
    print("\n".join(failures))
    sys.exit(1 if failures else 0)


main()
