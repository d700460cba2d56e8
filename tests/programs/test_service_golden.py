#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_service_golden.py FATHOM GOLDENS PREFILL_RANKS DECODE_RANKS: the greedy tokens of DeepSeek's own code, over HTTP,
from every shape of service: one unit; a prefill and a decode unit with a KV storage, cold, warm and started again;
several of several ranks, of which one of each kind is killed among the requests. Model folders of $FATHOM_GOLDENS
are tried, too."""
import concurrent.futures
import json
import os
import pathlib
import signal
import sys
import tempfile

from server import Server, environment

PREFILL_RANKS, DECODE_RANKS = sys.argv[3], sys.argv[4]
APART = ("--prefill-units", "1", "--decode-units", "1")
ROUNDS = 3  # of all prompts, at the same time


def model_folders():
    roots = [sys.argv[2], environment.get("FATHOM_GOLDENS", "")]
    return sorted(path.parent for root in roots if root for path in pathlib.Path(root).glob("**/golden.json"))


def prompts_of(folder):
    golden = json.loads((folder / "golden.json").read_text())
    return [(p["tokens"], p["greedy"]["tokens"]) for p in golden["prompts"] if "greedy" in p]


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
    server = Server("--model", str(folder), "--activations", "f32", *options)
    server.wait_for_units(units)
    return server


def one_unit(folder, prompts):
    server = serve(folder, 1)
    ask_all(server, prompts)
    server.stop()


def with_storage(folder, prompts):
    """Warm and cold, and from disk alone once the processes are new."""
    with tempfile.TemporaryDirectory() as storage:
        for again in (False, True):
            server = serve(folder, 2, *APART, "--kv-dir", storage, "--kv-load", "always")
            ask_all(server, prompts)
            loaded = server.metrics()['fathom_kv_loaded_tokens_total{tier="disk"}']
            assert server.fleet()["handed_over_total"] > 0
            server.stop()
        assert loaded >= max(len(prompt) for prompt, _ in prompts) - 64, loaded


def with_losses(folder, prompts):
    server = serve(folder, 4, "--prefill-units", "2", "--prefill-ranks", PREFILL_RANKS, "--decode-units", "2",
                   "--decode-ranks", DECODE_RANKS)
    ask_all(server, prompts)
    assert server.fleet()["handed_over_total"] > 0
    for role in ("prefill", "decode"):
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            asked = pool.submit(ask_all, server, prompts * 2)
            os.kill(server.first_pid(role), signal.SIGKILL)
            asked.result()
    server.stop()


def main():
    folders = model_folders()
    assert folders, "no goldens"
    for folder in folders:
        prompts = prompts_of(folder)
        for shape in (one_unit, with_storage, with_losses):
            shape(folder, prompts)
        print("%s: %d prompts" % (folder.name, len(prompts)), flush=True)


main()
