#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""push.py FATHOM [options]: prompts in one unit, answers in another, over a link as slow as asked for: the time from
the answer's first token, which the unit that computed the prompt chooses, to the second, which the other can only
choose when all KV blocks are there. Once with blocks that leave layer by layer while the step computes (--experiment
kv-push=layer), once when it is done (step), in turn. A deep random model is made for it; each unit has one thread."""
import argparse
import http.client
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import tempfile
import time

START_SECONDS = 120
SHAPE = {
    "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "hidden_size": 512,
    "intermediate_size": 1024, "moe_intermediate_size": 128, "num_hidden_layers": 24, "first_k_dense_replace": 1,
    "moe_layer_freq": 1, "n_routed_experts": 16, "n_shared_experts": 1, "num_experts_per_tok": 4, "n_group": 4,
    "topk_group": 2, "topk_method": "noaux_tc", "scoring_func": "sigmoid", "norm_topk_prob": True,
    "routed_scaling_factor": 2.5, "num_attention_heads": 4, "num_key_value_heads": 4, "q_lora_rank": 192,
    "kv_lora_rank": 256, "qk_nope_head_dim": 64, "qk_rope_head_dim": 32, "v_head_dim": 64, "rms_norm_eps": 1e-6,
    "rope_theta": 10000, "max_position_embeddings": 4096, "vocab_size": 4096, "hidden_act": "silu",
    "tie_word_embeddings": False, "num_nextn_predict_layers": 1, "bos_token_id": 0, "eos_token_id": 1,
    "quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",
                            "weight_block_size": [128, 128]}}
TOKEN_BYTES = (24 + 1) * (256 + 32) * 2  # of KV rows


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fathom")
    parser.add_argument("--tokens", type=int, default=1024, help="of a prompt")
    parser.add_argument("--chunk", type=int, default=1024, help="tokens that a step takes of it at most")
    parser.add_argument("--rate", type=int, default=8 << 20, help="bytes a second between the units; 0: no limit")
    parser.add_argument("--rounds", type=int, default=5, help="prompts for each server")
    parser.add_argument("--servers", type=int, default=2, help="of each kind")
    parser.add_argument("--make", metavar="DIR", help="only make the model, in DIR/model")
    return parser.parse_args()


def make_model(fathom, folder):
    with open(os.path.join(folder, "shape.json"), "w", encoding="utf-8") as file:
        json.dump(SHAPE, file)
    model = os.path.join(folder, "model")
    subprocess.run([fathom, "make-checkpoint", "--shape", file.name, model], check=True, stderr=subprocess.DEVNULL)
    embedded = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../models/tiny-r1")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(os.path.join(embedded, name), model)
    return model


class Apart:
    """A gateway and two units."""

    def __init__(self, given, model, folder, push):
        self.folder, self.processes = folder, []
        address = "ipc://" + os.path.join(folder, "gateway-" + push)
        units = ["unit", "--connect", address, "--model", model, "--kv-memory", "512MiB", "--kv-listen", "127.0.0.1",
                 "--mtp", "on", "--threads", "1", "--max-batch-tokens", str(given.chunk + 64), "--no-prefix-cache",
                 "--experiment", "kv-push=" + push, "--kv-send-rate", str(given.rate)]
        ports = self.start([given.fathom, "gateway", "--listen", address, "--port", "0", "--model", model],
                           r"(?s)operator is listened to url=http://127\.0\.0\.1:(\d+).*listening on http://127\.0\.0\.1:(\d+)")
        for role in ("prefill", "decode"):
            self.start([given.fathom] + units + ["--role", role], r"(KV pages)")
        self.admin_port, self.port = (int(port) for port in ports)
        until = time.monotonic() + START_SECONDS
        while len(self.fleet()["units"]) < 2 and time.monotonic() < until:
            time.sleep(0.05)

    def start(self, command, pattern):
        log = os.path.join(self.folder, "log-%d" % len(self.processes))
        with open(log, "w", encoding="utf-8") as file:
            process = subprocess.Popen(command, stdout=file, stderr=file)
        self.processes.append(process)
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until and process.poll() is None:
            with open(log, encoding="utf-8") as file:
                found = re.search(pattern, file.read())
            if found:
                return found.groups()
            time.sleep(0.02)
        with open(log, encoding="utf-8") as file:
            raise RuntimeError("%s: %s" % (" ".join(command), file.read()))

    def ask(self, path, body=None, port=None):
        connection = http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=600)
        connection.request("POST" if body else "GET", path, body and json.dumps(body),
                           {"Content-Type": "application/json"})
        return connection.getresponse()

    def fleet(self):
        return json.loads(self.ask("/debug/fleet", port=self.admin_port).read())

    def stop(self):
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            process.wait()


def times(server, tokens):
    """Seconds to the first token, and from it to the second."""
    began, stamps = time.monotonic(), []
    answer = server.ask("/v1/completions", {"prompt": tokens, "max_tokens": 3, "temperature": 0, "stream": True,
                                            "ignore_eos": True})
    for line in iter(answer.readline, b""):
        if line.startswith(b"data: {"):
            stamps.append(time.monotonic())
    return stamps[0] - began, stamps[1] - stamps[0]


def main():
    given = options()
    if given.make:
        make_model(given.fathom, given.make)
        return
    draws = random.Random(5)
    found = {"step": [], "layer": []}
    with tempfile.TemporaryDirectory() as folder:
        model = make_model(given.fathom, folder)
        for push in ("step", "layer") * given.servers:
            server = Apart(given, model, folder, push)
            try:
                for round_ in range(given.rounds + 1):  # the first one connects
                    taken = times(server, [draws.randrange(5, 1000) for _ in range(given.tokens)])
                    if round_:
                        found[push].append(taken)
                assert server.fleet()["handed_over_total"] == given.rounds + 1
            finally:
                server.stop()
    size = given.tokens * TOKEN_BYTES
    print("%d tokens, %.1f MB of KV rows%s" % (given.tokens, size * 1e-6, ", %.2f s on the link" % (size / given.rate)
                                               if given.rate else ""))
    for push, taken in found.items():
        first, gap = ([1e3 * one[i] for one in taken] for i in range(2))
        print("by %-5s  first token %7.0f ms (%.0f..%.0f)  to the second %8.1f ms (%.1f..%.1f)"
              % (push, statistics.median(first), min(first), max(first), statistics.median(gap), min(gap), max(gap)))


main()
