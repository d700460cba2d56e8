#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_serve_loads.py FATHOM RANKS: rows that wait in a step for the KV blocks that are being loaded before them, layer
by layer, in units of 1 and of RANKS ranks (0: of one alone). Their answers are those of prompts that are computed, and
of loads that come first, token for token and to the last bit of every probability; also where a load turns out to be
damaged in the middle of the step. Likewise with sparse attention, in units of RANKS ranks."""
import glob
import json
import os
import random
import shutil
import sys
import tempfile

import random_model
from server import Server, fathom

BLOCK, LAYERS = 64, 12
# A block is so large that a load comes in parts of several layers.
SHAPE = {
    "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "hidden_size": 128,
    "intermediate_size": 256, "moe_intermediate_size": 128, "num_hidden_layers": LAYERS, "first_k_dense_replace": 1,
    "moe_layer_freq": 1, "n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 2, "n_group": 2,
    "topk_group": 1, "topk_method": "noaux_tc", "scoring_func": "sigmoid", "norm_topk_prob": True,
    "routed_scaling_factor": 2.5, "num_attention_heads": 2, "num_key_value_heads": 2, "q_lora_rank": 128,
    "kv_lora_rank": 512, "qk_nope_head_dim": 64, "qk_rope_head_dim": 64, "v_head_dim": 64, "rms_norm_eps": 1e-6,
    "rope_theta": 10000, "max_position_embeddings": 4096, "vocab_size": 4096, "hidden_act": "silu",
    "tie_word_embeddings": False, "num_nextn_predict_layers": 1, "bos_token_id": 0, "eos_token_id": 1,
    "quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",
                            "weight_block_size": [128, 128]}}
RATE = 24 << 20  # bytes a second: a load takes longer than its step
rolls = random.Random(3)
PROMPTS = [[rolls.randrange(300, 1500) for _ in range(count)] for count in (330, 200, 450, 129)]
HITS = sum((len(prompt) - 1) // BLOCK * BLOCK for prompt in PROMPTS)


class LoadingServer(Server):
    def __init__(self, model, storage, ranks, *options):
        super().__init__("--model", model, "--ranks", str(ranks), "--threads", "1",
                         "--experiment", "rank-balance=round-robin", "--kv-dir", storage, "--kv-disk", "256MiB",
                         "--kv-write-rate", "0", *options)
        self.wait_for_units(1)

    def ask(self, prompt):
        """Tokens, and how likely each was."""
        with self.open("/v1/completions", {"prompt": prompt, "max_tokens": 6, "temperature": 0, "ignore_eos": True,
                                           "logprobs": 0, "return_token_ids": True}) as answer:
            choice = json.load(answer)["choices"][0]
        return choice["token_ids"], choice["logprobs"]["token_logprobs"]

    def ask_all(self):
        return [self.ask(prompt) for prompt in PROMPTS]

    def rows(self, end):
        return self.metrics()['fathom_kv_loads_in_step_total{end="%s"}' % end]

    def loaded(self):
        return self.metrics()['fathom_kv_loaded_tokens_total{tier="disk"}']

    def stop(self):
        self.no_page_is_held()
        super().stop()


def check_whole(model, storage, ranks, wanted):
    for overlap in ("off", "on"):
        server = LoadingServer(model, storage, ranks, "--kv-load", "always", "--kv-overlap", overlap,
                               "--kv-read-rate", str(RATE * ranks))
        assert server.ask_all() == wanted, (ranks, overlap)
        assert server.loaded() == HITS, server.metrics()
        assert server.rows("whole") == (len(PROMPTS) if overlap == "on" else 0), server.metrics()
        assert server.rows("lost") == 0, server.metrics()
        assert all(rank["kv_pages"]["cached"] for rank in server.fleet()["units"][0]["ranks"])  # each one had some
        server.stop()


def damage(storage, slice_bytes, row_at):
    """The row that lies there in the tenth layer of every block: a row in a step has taken the first layers by then."""
    header = 4096  # of a segment, and of a block
    for path in glob.glob(storage + "/*/*.kv"):
        with open(path, "r+b") as file:
            for at in range(2 * header + 9 * slice_bytes + row_at, os.path.getsize(path),
                            header + (LAYERS + 1) * slice_bytes):
                file.seek(at)
                byte = file.read(1)[0]
                file.seek(at)
                file.write(bytes([byte ^ 1]))


def check_damaged(model, storage, ranks, wanted):
    server = LoadingServer(model, storage, ranks, "--kv-load", "always", "--kv-read-rate", str(RATE * ranks))
    assert server.ask_all() == wanted, ranks
    assert server.loaded() < HITS, server.metrics()
    assert server.rows("lost") > 0, server.metrics()
    server.stop()


def check_model(shape, slice_bytes, row_at, *counts):
    model = random_model.make_model(fathom, shape)
    with tempfile.TemporaryDirectory() as folder:
        server = LoadingServer(model, folder + "/kv", 1, "--kv-load", "never")
        wanted = server.ask_all()
        server.stop()
        for ranks in counts:
            check_whole(model, folder + "/kv", ranks, wanted)
            shutil.copytree(folder + "/kv", folder + "/damaged")
            damage(folder + "/damaged", slice_bytes, row_at)
            check_damaged(model, folder + "/damaged", ranks, wanted)
            shutil.rmtree(folder + "/damaged")


def main():
    ranks = int(sys.argv[2]) or 1
    latents = BLOCK * 2 * (512 + 64)
    check_model(SHAPE, latents, 100, *sorted({1, ranks}))
    check_model({**SHAPE, **random_model.INDEXER}, latents + 8192, latents + 100, ranks)  # a damaged index key


main()
