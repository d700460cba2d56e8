#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_service_golden.py FATHOM PREFILL_RANKS DECODE_RANKS [CASES]: the greedy tokens of DeepSeek's own code, over HTTP,
from every shape of service: one unit; a prefill and a decode unit with a KV storage, cold, warm and started again;
several of several ranks, of which one of each kind is killed among the requests (V4: one unit). And what that code says of the tokens
of the prompts themselves: evaluation harnesses ask for it (echo with logprobs), and do their sums on what they get.
The cases of tests/golden, and of FATHOM_GOLDENS; or the first CASES of them."""
import concurrent.futures
import json
import os
import pathlib
import signal
import sys
import tempfile

from server import Server

sys.path.append(str(pathlib.Path(__file__).parents[2] / "bench"))
import goldens  # noqa: E402

PREFILL_RANKS, DECODE_RANKS, *CASES = sys.argv[2:]
APART = ("--prefill-units", "1", "--decode-units", "1")
ROUNDS = 3  # of all prompts, at the same time
LOGPROB_ERROR = 3e-3  # of a logit and of the logsumexp together (tests/golden/README.md)
scores = {}  # of each folder's prompts, the first time that they are asked for


def prompts_of(folder):
    golden = json.loads((folder / "golden.json").read_text())
    return [(p["tokens"], p["greedy"]["tokens"]) for p in golden["prompts"] if "greedy" in p]


def named(token):
    return "token_id:%d" % token


def echo(server, prompt, count):
    """As lm-evaluation-harness asks (local-completions, with token ids)."""
    body = {"prompt": [prompt], "max_tokens": count, "temperature": 0, "logprobs": 20, "seed": 1234, "echo": True}
    with server.open("/v1/completions", body) as response:
        answer = json.load(response)
    usage = answer["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["prompt_cache_hit_tokens"]) == \
        (len(prompt), count, 0), usage
    told = answer["choices"][0]["logprobs"]
    assert told["tokens"][:len(prompt)] == [named(token) for token in prompt]
    assert {len(told[name]) for name in told} == {len(prompt) + count}, told
    assert told["token_logprobs"][0] is None and told["top_logprobs"][0] is None
    return told


def loglikelihood(told, context, end):
    """As lm-evaluation-harness adds up what it gets, behind so many tokens of context."""
    own, top = told["token_logprobs"][context:end], told["top_logprobs"][context:end]
    return sum(own), all(logprob == max(likeliest.values()) for logprob, likeliest in zip(own, top))


def compare(golden, told):
    """The likeliest tokens behind the prompt's last places, and the place behind it."""
    for place in golden["top20"]:
        behind, lse = place["pos"] + 1, golden["stats"]["lse"][place["pos"]]
        if behind == len(told["tokens"]):
            continue
        for token, logit in zip(place["ids"], place["logits"]):
            error = told["top_logprobs"][behind][named(token)] - (logit - lse)
            assert abs(error) <= LOGPROB_ERROR, (behind, token, error)


def score_all(folder, server):
    """Every shape of service says the same, digit for digit; and greedy answers are the likeliest as prompts, too."""
    found = []
    for golden in json.loads((folder / "golden.json").read_text())["prompts"]:
        prompt = golden["tokens"]
        for count in (0, 1):
            told = echo(server, prompt, count)
            compare(golden, told)
            found.append(told["token_logprobs"][:len(prompt)] + told["top_logprobs"][:len(prompt)])
        answer = golden["greedy"]["tokens"]
        whole = echo(server, prompt + answer, 1)
        total, likeliest = loglikelihood(whole, len(prompt), -1)
        assert likeliest and total < 0, (len(prompt), total)
        total, likeliest = loglikelihood(echo(server, prompt + answer[:3] + [answer[3] ^ 1], 1), len(prompt), -1)
        assert not likeliest
        found.append(whole["token_logprobs"][:-1])
    assert scores.setdefault(folder, found) == found


def complete(server, prompt, count):
    body = {"prompt": prompt, "max_tokens": count, "temperature": 0, "ignore_eos": True, "return_token_ids": True}
    with server.open("/v1/completions", body) as response:
        answer = json.load(response)
    usage = answer["usage"]
    assert usage["prompt_cache_hit_tokens"] + usage["prompt_cache_miss_tokens"] == len(prompt), usage
    return answer["choices"][0]["token_ids"]


def ask_all(server, prompts):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda p: (p, complete(server, p[0], len(p[1]))), prompts * ROUNDS))
    for (prompt, wanted), found in answers:
        assert found == wanted, (len(prompt), found, wanted)
    server.no_page_is_held()


def serve(folder, units, *options):
    server = Server("--model", str(folder), "--activations", "f32", "--kv-rounding", "off", *options)
    server.wait_for_units(units)
    return server


def one_unit(folder, prompts):
    server = serve(folder, 1)
    ask_all(server, prompts)
    if not (folder / "tokenizer.json").exists():  # else tokens have texts, and are not named by their ids
        score_all(folder, server)
    server.stop()


def with_storage(folder, prompts):
    """Warm and cold, and from disk alone once the processes are new."""
    with tempfile.TemporaryDirectory() as storage:
        for again in (False, True):
            server = serve(folder, 2, *APART, "--kv-dir", storage, "--kv-load", "always")
            ask_all(server, prompts)
            score_all(folder, server)
            loaded = server.metrics()['fathom_kv_loaded_tokens_total{tier="disk"}']
            assert server.fleet()["handed_over_total"] > 0
            server.stop()
        assert loaded >= max(len(prompt) for prompt, _ in prompts) - 64, loaded


def with_losses(folder, prompts):
    server = serve(folder, 4, "--prefill-units", "2", "--prefill-ranks", PREFILL_RANKS, "--decode-units", "2",
                   "--decode-ranks", DECODE_RANKS)
    ask_all(server, prompts)
    score_all(folder, server)
    assert server.fleet()["handed_over_total"] > 0
    for role in ("prefill", "decode"):
        server.wait_for_units(4)  # on a slow machine those of the other role may be starting again
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            asked = pool.submit(ask_all, server, prompts * 2)
            os.kill(server.first_pid(role), signal.SIGKILL)
            score_all(folder, server)
            asked.result()
    server.stop()


def main():
    for folder in map(pathlib.Path, goldens.case_folders()[:int(CASES[0]) if CASES else None]):
        prompts = prompts_of(folder)
        # V4 keeps windows outside of its KV blocks: no storage, no ranks, no second unit for prompts
        alone = json.loads((folder / "config.json").read_text())["architectures"][0].startswith("DeepseekV4")
        for shape in (one_unit,) if alone else (one_unit, with_storage, with_losses):
            shape(folder, prompts)
        print("%s: %d prompts" % (folder.name, len(prompts)), flush=True)


main()
