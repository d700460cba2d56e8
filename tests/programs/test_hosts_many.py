#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_hosts_many.py FATHOM PREFILL_HOSTS DECODE_HOSTS SLOTS: a prefill unit on so many hosts and a decode unit on so many
others (network namespaces, hosts.py), each of so many ranks, behind one gateway; the model has V3's 256 experts and 32
redundant ones. There are as many prompts as the larger unit has ranks. All log probabilities of all tokens of prompts
and answers are those of one process, to the last digit. Prints how long the start took, and what each host's processes
hold. Without DECODE_HOSTS (0) one unit does both."""
import concurrent.futures
import json
import random
import re
import sys
import tempfile
import time

from hosts import Hosts
from server import Server, fathom
from wide_model import REDUNDANT, VOCAB, make_model

PREFILL, DECODE, SLOTS = (int(word) for word in sys.argv[2:5])
HOSTS = PREFILL + DECODE


def draw_prompts():
    rng = random.Random(7)
    return [[rng.randrange(VOCAB) for _ in range(rng.randrange(60, 90))] for _ in range(max(PREFILL, DECODE) * SLOTS)]


def ask(server, prompt):
    body = {"prompt": prompt, "max_tokens": 4, "temperature": 0, "logprobs": 5, "echo": True, "ignore_eos": True}
    with server.open("/v1/completions", body) as answer:
        return json.load(answer)["choices"]


def ask_all(server, prompts):
    with concurrent.futures.ThreadPoolExecutor(len(prompts)) as pool:
        return list(pool.map(lambda prompt: ask(server, prompt), prompts))


def memory_of(pids):
    """What processes hold, shared pages counted once."""
    total = 0
    for pid in pids:
        try:
            with open("/proc/%d/smaps_rollup" % pid, encoding="utf-8") as file:
                total += int(re.search(r"\nPss: +(\d+)", file.read())[1]) << 10
        except (OSError, TypeError):  # it has ended, or is no process with memory
            continue
    return total


def main():
    hosts = Hosts(HOSTS)
    with tempfile.TemporaryDirectory() as room:
        model = make_model(fathom, room)
        prompts = draw_prompts()
        alone = Server("--model", model)
        wanted = ask_all(alone, prompts)
        alone.stop()
        hosts.enter("h0")
        kinds = ["--prefill-units", "1", "--prefill-ranks", str(PREFILL * SLOTS), "--decode-units", "1",
                 "--decode-ranks", str(DECODE * SLOTS)] if DECODE else ["--ranks", str(PREFILL * SLOTS)]
        Server.kv_memory = "256MiB"
        began = time.monotonic()
        server = Server("--model", model, *kinds, "--redundant-experts", str(REDUNDANT), "--rank-timeout", "60",
                        *hosts.options(SLOTS), wrap=hosts.on("h0"))
        server.wait_for_units(2 if DECODE else 1)
        print("%d + %d hosts of %d ranks: ready after %.1f s" % (PREFILL, DECODE, SLOTS, time.monotonic() - began), flush=True)
        for name in hosts.names if hosts.are_apart else ():
            pids = hosts.pids(name)
            print("%s: %d processes, %.1f MiB of memory" % (
                name, len(pids), memory_of(pids) / 2**20), flush=True)
        began = time.monotonic()
        found = ask_all(server, prompts)
        handed = server.fleet()["handed_over_total"]
        assert not DECODE or handed > len(prompts) / 2, handed
        assert found == wanted, [(a, b) for a, b in zip(found, wanted) if a != b][:1]
        ranks = set(re.findall(r"ended request=.* unit=(\d+ rank=\d+)", server.said()))
        print("%d prompts of %d tokens in all, answered by %d ranks, %d handed over: every log probability is one "
              "process's; %.1f s" % (
            len(prompts), sum(map(len, prompts)), len(ranks), handed, time.monotonic() - began), flush=True)
        server.no_page_is_held()
        server.stop()


if __name__ == "__main__":
    main()
