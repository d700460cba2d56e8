#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_ranks_many.py FATHOM GOLDENS MODEL SERVING RANKS: a model with V3's 256 experts and 32 redundant ones over as many
ranks as DeepSeek's prefill (32, of 9 experts) and decode (144, of 2), each with a prompt of its own. All logits of all
positions are those of one process to the last digit, and so are tokens that are generated while experts change slots
and each rank has its own weights. Every rank computes its own prompt's tokens, and every slot of it serves
somebody. Prints the memory that all ranks took."""
import concurrent.futures
import glob
import json
import random
import re
import subprocess
import sys
import tempfile
import time

from test_ranks import fathom, ids, run, take_ranks

COUNT = int(sys.argv[5])
EXPERTS, REDUNDANT, MOE_LAYERS, VOCAB = 256, 32, 2, 256
# V3's numbers of experts, groups and choices; all else is small.
SHAPE = {
    "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "hidden_size": 64, "intermediate_size": 64,
    "moe_intermediate_size": 16, "num_hidden_layers": 1 + MOE_LAYERS, "first_k_dense_replace": 1, "moe_layer_freq": 1,
    "n_routed_experts": EXPERTS, "n_shared_experts": 1, "num_experts_per_tok": 8, "n_group": 8, "topk_group": 4,
    "topk_method": "noaux_tc", "scoring_func": "sigmoid", "norm_topk_prob": True, "routed_scaling_factor": 2.5,
    "num_attention_heads": 2, "num_key_value_heads": 2, "q_lora_rank": 32, "kv_lora_rank": 32, "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8, "v_head_dim": 16, "rms_norm_eps": 1e-6, "rope_theta": 10000, "max_position_embeddings": 1024,
    "vocab_size": VOCAB, "hidden_act": "silu", "tie_word_embeddings": False, "num_nextn_predict_layers": 0,
    "bos_token_id": 0, "eos_token_id": 1}
PROMPT_MAX = 32


def draw_prompts(least):
    """One for each rank, of about so many tokens in all that each expert is chosen for a hundred."""
    rng = random.Random(COUNT)
    longest = max(PROMPT_MAX, 2 * 144 * 24 // COUNT - least)
    return [[rng.randrange(VOCAB) for _ in range(rng.randrange(least, longest + 1))] for _ in range(COUNT)]


def memory_of(count):
    """Bytes of memory of all processes of a run over so many ranks, shared ones counted once."""
    total = 0
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, encoding="utf-8") as file:
                words = file.read().split("\0")
            if words[0] == fathom and "--ranks=%d" % count in words:
                with open(path.replace("cmdline", "smaps_rollup"), encoding="utf-8") as file:
                    total += int(re.search(r"\nPss: +(\d+)", file.read())[1]) << 10
        except (OSError, TypeError):  # it has ended
            continue
    return total


def run_ranks(*arguments):
    """What the run printed, what it said of its ranks, and the most memory it was seen to take."""
    largest = 0
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(run, *arguments, "--ranks=%d" % COUNT, "--redundant-experts", REDUNDANT, timeout=3000)
        while not running.done():
            largest = max(largest, memory_of(COUNT))
            time.sleep(0.5)
    found = running.result()
    return found, take_ranks(found, COUNT), largest


def check_logits(model, activations, prompts):
    study = ["logits", "--model", model, "--activations", activations, "--tokens", ";".join(map(ids, prompts)), "--last",
             max(map(len, prompts)), "--top", VOCAB, "--json"]
    alone = run(*study)
    began = time.monotonic()
    found, ranks, largest = run_ranks(*study)
    assert [len(prompt["positions"]) for prompt in found["prompts"]] == list(map(len, prompts))
    assert all(len(place["top"]) == VOCAB for prompt in found["prompts"] for place in prompt["positions"])
    assert found == alone, (COUNT, activations)
    assert [rank["tokens"] for rank in ranks] == list(map(len, prompts)), ranks
    slots = (EXPERTS + REDUNDANT) // COUNT
    idle = [(rank["rank"], rank["slots_used"]) for rank in ranks if rank["slots_used"] < slots * MOE_LAYERS]
    assert not idle, "ranks, and how many of their %d slots had tokens: %s" % (slots * MOE_LAYERS, idle)
    assert all(rank["slots"] == slots and rank["pairs"] > 0 for rank in ranks), ranks
    report("logits in %s" % activations, ranks, largest, time.monotonic() - began)


def check_tokens(model, prompts, *more):
    answer = ["generate", "--model", model, "--tokens", ";".join(map(ids, prompts)), "--max-new", 4, "--greedy",
              "--ignore-eos", "--json"]
    alone = run(*answer)
    began = time.monotonic()
    found, ranks, largest = run_ranks(*answer, *more)
    assert found == alone, (COUNT, more)
    assert all(rank["tokens"] == len(prompt) + 3 for rank, prompt in zip(ranks, prompts)), ranks
    assert "--experiment" not in more or sum(rank["experts_moved"] for rank in ranks) > 0, ranks
    report("tokens %s" % " ".join(map(str, more)), ranks, largest, time.monotonic() - began)


def report(what, ranks, largest, seconds):
    print("%d ranks of %d slots, %s: %.0f s; %.1f MiB of memory in all, largest seen; %.1f MiB of weights on a rank, "
          "%.1f MiB of the checkpoint read by all"
          % (COUNT, ranks[0]["slots"], what, seconds, largest / 2**20, ranks[0]["weight_bytes"] / 2**20,
             sum(rank["read_bytes"] for rank in ranks) / 2**20), flush=True)


def main():
    with tempfile.TemporaryDirectory() as room:
        with open(room + "/config.json", "w", encoding="utf-8") as file:
            json.dump(SHAPE, file)
        model = room + "/model"
        # A router without favourites chooses all of its experts.
        subprocess.run([fathom, "make-checkpoint", "--shape", room + "/config.json", "--weights", "fp8",
                        "--bias-deviation", "0", model], check=True)
        prompts = draw_prompts(16)
        for activations in ("f32", "bf16"):
            check_logits(model, activations, prompts)
        check_tokens(model, prompts, "--experiment", "reshuffle-steps=1", "--rebalance-mbps", 0)
        check_tokens(model, prompts, "--weights-dir", "private")


main()
