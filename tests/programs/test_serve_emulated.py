#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_serve_emulated.py FATHOM: a server whose model is on the emulated device answers a chat, and gives the same
texts out of its prefix cache, out of blocks on disk after a restart, and with prompts and answers apart, on a device
each. So what leaves a device's pages and comes back is what was there. Texts that are drawn by seed, on the device,
are those of a server on the CPU."""
import json
import random
import tempfile

from server import Server

BLOCK = 64
rolls = random.Random(7)
PROMPTS = [[rolls.randrange(300, 1500) for _ in range(count)] for count in (200, 65)]
RULES = [{"temperature": 1.6, "top_p": 0.95}, {"temperature": 2}, {"temperature": 1.8, "top_k": 20, "min_p": 0.02},
         {"temperature": 1.9, "top_p": 0.9, "top_k": 5}]


class SomeServer(Server):
    kv_memory = "8MiB"

    def __init__(self, *options):
        super().__init__("--cpu-mask", "avx512", *options)

    def ask(self, prompt):
        with self.open("/v1/completions", {"prompt": prompt, "max_tokens": 8, "temperature": 0}) as answer:
            found = json.load(answer)
        return found["choices"][0]["text"], found["usage"]["prompt_cache_hit_tokens"]

    def ask_all(self):
        return [self.ask(prompt) for prompt in PROMPTS]

    def draw_all(self):
        """Two texts by each rule."""
        found = []
        for seed, rule in enumerate(RULES):
            body = {"prompt": "Once upon a time there was ", "max_tokens": 24, "seed": seed, "n": 2, **rule}
            with self.open("/v1/completions", body) as answer:
                found += [choice["text"] for choice in json.load(answer)["choices"]]
        return found

    def stop(self):
        self.no_page_is_held(600)
        super().stop()


class EmulatedServer(SomeServer):
    def __init__(self, *options):
        super().__init__("--device", "emulated", *options)


def texts(found):
    return [text for text, _ in found]


def whole_blocks():
    return [(len(prompt) - 1) // BLOCK * BLOCK for prompt in PROMPTS]


server = SomeServer()
drawn = server.draw_all()
server.stop()
assert len(set(drawn)) > len(drawn) // 2, drawn
server = EmulatedServer()
assert server.draw_all() == drawn
with server.open("/v1/chat/completions", {"messages": [{"role": "user", "content": "What is 4728 + 915?"}],
                                          "temperature": 0, "max_tokens": 200}) as answer:
    said = json.load(answer)["choices"][0]["message"]["content"]
assert "5643" in said, said
first = server.ask_all()
wanted = texts(first)
again = server.ask_all()
assert texts(again) == wanted and [hit for _, hit in again] == whole_blocks(), (again, wanted)
server.stop()

with tempfile.TemporaryDirectory() as directory:
    storing = ("--kv-dir", directory, "--kv-load", "always")
    server = EmulatedServer(*storing)
    assert texts(server.ask_all()) == wanted
    server.stop()
    server = EmulatedServer(*storing)
    loaded = server.ask_all()
    assert texts(loaded) == wanted and [hit for _, hit in loaded] == whole_blocks(), (loaded, wanted)
    assert server.metrics()['fathom_kv_loaded_tokens_total{tier="disk"}'] == sum(whole_blocks())
    server.stop()

server = EmulatedServer("--prefill-units", "1", "--decode-units", "1")
server.wait_for_units(2)
assert texts(server.ask_all()) == wanted
fleet = server.fleet()
assert fleet["handed_over_total"] == len(PROMPTS) or fleet["lost_units_total"], fleet  # a machine too busy for a heartbeat loses a unit
server.stop()
print("4728 + 915: %r; %d texts drawn as on the CPU; %d prompts the same from cache, disk and between two devices" % (said, len(drawn), len(PROMPTS)))
