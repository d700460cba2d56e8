#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_ranks_many.py FATHOM GOLDENS MODEL SERVING RANKS: a model with V3's 256 experts and 32 redundant ones over as many
ranks as DeepSeek's prefill (32, of 9 experts) and decode (144, of 2), or fewer, each with a prompt of its own. All logits of all
positions are those of one process to the last digit, in either order of summing experts, wherever experts lie and by nodes
of 1, 2, 4 and 8 ranks; and so are tokens that are generated while experts change slots and each rank has its own
weights. Every rank computes its own prompt's tokens, and of 8 or more nine in ten slots serve somebody. Prints the memory that all
ranks took."""
import concurrent.futures
import glob
import random
import re
import sys
import tempfile
import time

from test_ranks import fathom, ids, run, take_ranks
from wide_model import EXPERTS, MOE_LAYERS, REDUNDANT, VOCAB, make_model

COUNT = int(sys.argv[5])
PROMPT_MAX = 32


def draw_prompts(least):
    """One for each rank, of about so many tokens in all that each expert is chosen for a hundred."""
    rng = random.Random(COUNT)
    longest = min(1000, max(PROMPT_MAX, 2 * 144 * 24 // COUNT - least))
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


def check_logits(model, activations, prompts, *more):
    study = ["logits", "--model", model, "--activations", activations, "--tokens", ";".join(map(ids, prompts)), "--last",
             max(map(len, prompts)), "--top", VOCAB, "--json", *more]
    alone = run(*study)
    began = time.monotonic()
    found, ranks, largest = run_ranks(*study)
    assert [len(prompt["positions"]) for prompt in found["prompts"]] == list(map(len, prompts))
    assert all(len(place["top"]) == VOCAB for prompt in found["prompts"] for place in prompt["positions"])
    assert found == alone, (COUNT, activations, more)
    assert [rank["tokens"] for rank in ranks] == list(map(len, prompts)), ranks
    slots = (EXPERTS + REDUNDANT) // COUNT
    idle = [(rank["rank"], rank["slots_used"]) for rank in ranks if rank["slots_used"] < 0.9 * slots * MOE_LAYERS]
    assert COUNT < 8 or not idle, "ranks, and how many of their %d slots had tokens: %s" % (slots * MOE_LAYERS, idle)
    assert all(rank["slots"] == slots and rank["pairs"] > 0 for rank in ranks), ranks
    report(" ".join(("logits in", activations, *more)), ranks, largest, time.monotonic() - began)


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
        model = make_model(fathom, room)
        prompts = draw_prompts(16)
        for activations in ("f32", "bf16"):
            check_logits(model, activations, prompts)
        check_logits(model, "bf16", prompts, "--expert-sum", "experts")
        check_tokens(model, prompts, "--experiment", "reshuffle-steps=1", "--rebalance-mbps", 0)
        for each in (1, 2, 4, 8):
            if COUNT % each == 0 and each < COUNT:
                nodes = "ranks-per-node=%d,levels=two" % each
                check_logits(model, "bf16", prompts, "--experiment", "%s,placement-seed=%d" % (nodes, each))
                check_tokens(model, prompts, "--experiment", "reshuffle-steps=1," + nodes, "--rebalance-mbps", 0)
        check_tokens(model, prompts, "--weights-dir", "private")


main()
