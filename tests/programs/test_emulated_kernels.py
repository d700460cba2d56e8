#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_emulated_kernels.py FATHOM GOLDENS SERVING: a program that offers the kernels for GPUs, emulated, computes with
them by --device emulated-kernels: in f32 the very logits of the CPU, and the golden's greedy tokens; in fp8 the same
twice; a server's answers, alone and two at a time, through its prefix cache, the likeliest and drawn ones."""
import json
import os
import sys
import threading

from command import run
from server import Server

goldens = sys.argv[2]
MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../models/tiny-r1")
ON_KERNELS = ("--device", "emulated-kernels")
ON_CPU = ("--device", "cpu", "--cpu-mask", "c")


def logits(case, *options):
    return json.loads(run("logits", "--model", goldens + "/" + case, "--tokens", "5,9", "--last", "2", "--json",
                          "--activations", "f32", *options))


def answers(case, *options):
    found = json.loads(run("generate", "--model", goldens + "/" + case, "--greedy", "--ignore-eos", "--json", *options))
    del found["times"]
    return found


def check_logits(case):
    assert logits(case, *ON_KERNELS) == logits(case, *ON_CPU), case


def check_answers():
    case = "v3-bf16-negbias-dense0-mtp"
    with open("%s/%s/golden.json" % (goldens, case), encoding="utf-8") as file:
        prompt = min(json.load(file)["prompts"], key=lambda prompt: len(prompt["tokens"]))
    some = ("--tokens", ",".join(map(str, prompt["tokens"])), "--max-new", "5")
    assert answers(case, *some, "--activations", "f32", *ON_KERNELS)["tokens"] == prompt["greedy"]["tokens"][:5]
    case = "v3-fp8-yarn-g8-mtp-sharded"
    some = ("--tokens", "5,9;7,8,3", "--max-new", "4", "--activations", "fp8")
    twice = [answers(case, *some, *ON_KERNELS) for _ in range(2)]
    assert twice[0] == twice[1] and len(twice[0]["prompts"]) == 2, twice


def check_server():
    server = Server(*ON_KERNELS, "--model", MODEL, "--kv-memory", "8MiB")  # beside this program there is none
    prompts = [[300 + (7 * i + k) % 900 for i in range(count)] for k, count in enumerate((66, 3))]
    found = {}

    def ask(name, prompt):
        rule = {"temperature": 0} if len(prompt) > 64 else {"temperature": 0.8, "top_p": 0.9, "seed": 3}
        with server.open("/v1/completions", {"prompt": prompt, "max_tokens": 4, **rule}) as answer:
            said = json.load(answer)
        found[name] = said["choices"][0]["text"], said["usage"]["prompt_cache_hit_tokens"]

    for i, prompt in enumerate(prompts):
        ask(("alone", i), prompt)
    together = [threading.Thread(target=ask, args=(("together", i), prompt)) for i, prompt in enumerate(prompts)]
    for thread in together:
        thread.start()
    for thread in together:
        thread.join()
    for i in range(2):
        assert found["alone", i][0] == found["together", i][0], found
    assert found["together", 0][1] == 64, found
    server.stop()


check_logits("v2lite-softmax-greedy-yarn")
check_logits("v3-fp8-yarn-g8-mtp-sharded")
check_answers()
if sys.argv[3] == "1":
    check_server()
