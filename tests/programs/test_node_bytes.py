#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_node_bytes.py FATHOM GOLDENS MODEL SERVING NODES RANKS: a layer as wide as V3's over so many nodes of so many ranks,
which are network namespaces (hosts.py), groups of experts whole on nodes. What the cards of the nodes sent for each token, to ranks
and by nodes, with results one by one and by groups, is what the ranks say that they sent between nodes, within 5 %; by
nodes and groups it is less than 0.8 of the first. Every logit is that of one process. Prints the table. Needs root."""
import json
import os
import random
import subprocess
import sys
import tempfile

from hosts import Hosts
from test_ranks import fathom, ids, run, take_ranks
from wide_model import EXPERTS, SHAPE, VOCAB

NODES, EACH = map(int, sys.argv[5:7])
TOKENS = 64  # of each rank
SKIPPED = 77
WIDE = {**SHAPE, "hidden_size": 7168, "num_hidden_layers": 1, "first_k_dense_replace": 0}
WAYS = [(order, levels) for levels in ("one", "two") for order in ("experts", "groups")]


def make_model(room):
    with open(room + "/config.json", "w", encoding="utf-8") as file:
        json.dump(WIDE, file)
    subprocess.run([fathom, "make-checkpoint", "--shape", room + "/config.json", "--weights", "fp8", "--bias-deviation", "0",
                    room + "/model"], check=True)
    return room + "/model"


def place(room):
    """Groups whole on nodes, a node's experts over its ranks."""
    with open(room + "/load.json", "w", encoding="utf-8") as file:
        json.dump([[1] * EXPERTS], file)
    with open(room + "/place.json", "w", encoding="utf-8") as file:
        json.dump(run("eplb", "--load", room + "/load.json", "--slots", EXPERTS, "--groups", 8, "--nodes", NODES, "--ranks",
                      NODES * EACH, "--locality", "strict", "--json"), file)
    return room + "/place.json"


def sent(hosts):
    """By the cards of all nodes, so far."""
    total = 0
    for name in hosts.names:
        told = subprocess.run(["ip", "-n", hosts.space(name), "-s", "-j", "link", "show", hosts.interface], check=True,
                              capture_output=True, text=True).stdout
        total += json.loads(told)[0]["stats64"]["tx"]["bytes"]
    return total


def run_nodes(hosts, *arguments):
    """What rank 0 printed, and what the cards sent meanwhile."""
    before, ranks = sent(hosts), []
    for rank in range(NODES * EACH):
        environment = dict(os.environ, OMPI_COMM_WORLD_RANK=str(rank), OMPI_COMM_WORLD_SIZE=str(NODES * EACH),
                           OMPI_COMM_WORLD_LOCAL_SIZE=str(EACH), UCX_NET_DEVICES=hosts.interface)
        ranks.append(subprocess.Popen(
            [*hosts.on(hosts.names[rank // EACH]), fathom, *map(str, arguments), "--ranks", str(NODES * EACH),
             "--rank-meeting", hosts.address("h0") + ":5555"],
            env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE if rank == 0 else None, text=True))
    out = ranks[0].communicate()[0]
    assert [rank.wait() for rank in ranks] == [0] * len(ranks)
    return json.loads(out), sent(hosts) - before


def main():
    hosts = Hosts(NODES)
    if not hosts.are_apart:
        print("hosts are namespaces, which take root")
        sys.exit(SKIPPED)
    rng = random.Random(19)
    prompts = [[rng.randrange(VOCAB) for _ in range(TOKENS)] for _ in range(NODES * EACH)]
    with tempfile.TemporaryDirectory() as room:
        study = ["logits", "--model", make_model(room), "--activations", "fp8", "--threads", 1, "--json", "--last", 1, "--top", 9]
        alone = {order: run(*study, "--expert-sum", order, "--tokens", ";".join(map(ids, prompts)))
                 for order in ("experts", "groups")}
        placed = [*study, "--placement", place(room)]
        _, base = run_nodes(hosts, *placed, "--tokens", ";".join(ids(prompt[:1]) for prompt in prompts))
        kilobytes = {}
        for order, levels in WAYS:
            found, bytes_sent = run_nodes(hosts, *placed, "--expert-sum", order, "--experiment", "levels=" + levels, "--tokens",
                                          ";".join(map(ids, prompts)))
            told = sum(rank["bytes_between_nodes"] for rank in take_ranks(found, NODES * EACH))
            assert found == alone[order], (order, levels)
            measured = (bytes_sent - base) / (TOKENS - 1)
            told /= TOKENS
            kilobytes[order, levels] = measured / NODES / EACH / 1e3
            print("%d nodes of %d ranks, levels %s, sum by %s: %.1f kB of a token between nodes by the cards, %.1f as told"
                  % (NODES, EACH, levels, order, kilobytes[order, levels], told / NODES / EACH / 1e3), flush=True)
            assert 0.95 < measured / told < 1.05, (order, levels, measured, told)
        assert kilobytes["groups", "two"] < 0.8 * kilobytes["experts", "one"], kilobytes


main()
