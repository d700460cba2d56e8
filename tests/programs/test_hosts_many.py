#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_hosts_many.py FATHOM PREFILL_HOSTS DECODE_HOSTS SLOTS: a prefill unit on so many hosts and a decode unit on so many
others (network namespaces, hosts.py), each of so many ranks, behind one gateway; the model has V3's 256 experts and 32
redundant ones. There are as many prompts as the larger unit has ranks. All log probabilities of all tokens of prompts
and answers are those of one process, to the last digit. Each host reads of the checkpoint its own ranks'
experts and one copy of what all need, and no more. Prints how long the start took, what each host read and holds, and
what a step costs rank 0 of each unit besides computing. Without DECODE_HOSTS (0) one unit does both."""
import concurrent.futures
import glob
import json
import random
import re
import sys
import tempfile
import time

from hosts import Hosts
from server import Server, fathom
from wide_model import EXPERTS, REDUNDANT, VOCAB, make_model

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


def tensors_of(model):
    """Bytes of the routed experts in the checkpoint, and of all else; kv_b_proj is packed in two forms, read for each."""
    experts = others = 0
    for path in glob.glob(model + "/*.safetensors"):
        with open(path, "rb") as file:
            for name, tensor in json.loads(file.read(int.from_bytes(file.read(8), "little"))).items():
                begin, end = tensor.get("data_offsets", (0, 0))
                experts += ".mlp.experts." in name and end - begin
                others += ".mlp.experts." not in name and (end - begin) * (1 + (".kv_b_proj." in name))
    return experts, others


def input_of(pids):
    """Bytes that processes took by read(2), from files, pipes and sockets alike."""
    total = 0
    for pid in pids:
        try:
            with open("/proc/%d/io" % pid, encoding="utf-8") as file:
                total += int(re.search(r"rchar: (\d+)", file.read())[1])
        except OSError:  # it has ended
            continue
    return total


def see_hosts(hosts, server, model):
    """A line for each host. Each has read its experts and one copy of what all need, from where it lies itself."""
    experts, others = tensors_of(model)
    read = {int(pid): int(count) for count, pid in re.findall(
        r"a rank has its weights rank=\d+ read_bytes=(\d+) .* pid=(\d+)", server.said())}
    for i, name in enumerate(hosts.names):
        pids = hosts.pids(name)
        here = [read[pid] for pid in pids if pid in read]
        unit_hosts = PREFILL if i < PREFILL else DECODE
        slots = -(-(EXPERTS + REDUNDANT) // (unit_hosts * SLOTS)) * SLOTS
        wanted = experts * slots / EXPERTS + others
        print("%s: %d processes, %d ranks; %.3f MiB of the checkpoint's tensors read, %.3f needed; %.1f MiB by read(2) "
              "in all; %.1f MiB of memory" % (name, len(pids), len(here), sum(here) / 2**20, wanted / 2**20,
                                              input_of(pids) / 2**20, memory_of(pids) / 2**20), flush=True)
        assert len(here) == SLOTS, (name, pids, sorted(read))
        assert 0.98 * wanted < sum(here) < 1.02 * wanted, (name, here, wanted)


def loops_of(server):
    """Of each unit: its role, its steps, and the processor time of rank 0's event loop, which plans all ranks' steps and
    takes their results; it is its process's first thread."""
    found = []
    for unit in server.fleet()["units"]:
        with open("/proc/%d/task/%d/schedstat" % (2 * (unit["ranks"][0]["pid"],)), encoding="utf-8") as file:
            found.append((unit["role"], len(unit["ranks"]), unit["steps_total"], int(file.read().split()[0]) * 1e-6))
    return found


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
        server = Server("--model", model, *kinds, "--redundant-experts", str(REDUNDANT), "--rank-timeout", "60", "--log-level", "debug",
                        *hosts.options(SLOTS), wrap=hosts.on("h0"))
        server.wait_for_units(2 if DECODE else 1)
        print("%d + %d hosts of %d ranks: ready after %.1f s" % (PREFILL, DECODE, SLOTS, time.monotonic() - began), flush=True)
        if hosts.are_apart:
            see_hosts(hosts, server, model)
        began = time.monotonic()
        before = loops_of(server)
        found = ask_all(server, prompts)
        for (role, ranks, first, ran), (_, _, last, runs) in zip(before, loops_of(server)):
            print("%s unit of %d ranks: %d steps, %.3f ms of rank 0's loop for each: planning, results, records to the "
                  "gateway" % (role, ranks, last - first, (runs - ran) / max(last - first, 1)), flush=True)
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
