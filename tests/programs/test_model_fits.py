#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_model_fits.py FATHOM MODEL: every command that loads a model says before it reads weights that the model does not
fit, with what would; all that can be checked before is; --force goes on; and the sum is that of `inspect model`."""
import json
import os
import re
import shutil
import sys
import tempfile

import server
import sparse_model
from command import attempt, refuse, run

model = sys.argv[2]
SUM = r"needs ([\d.]+) GB of memory \(weights ([\d.]+), KV [\d.]+, step [\d.]+\); this (machine|process's control group) has " \
      r"[\d.]+ GB, of which [\d.]+ are free; "


def memory_gb():
    with open("/proc/meminfo", encoding="utf-8") as file:
        return int(re.search(r"MemTotal: +(\d+) kB", file.read()).group(1)) * 1024 / 1e9


def every_command_refuses(folder):
    huge = folder + "/huge"
    total = sparse_model.make_model(huge, sparse_model.HUGE, 200e9)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(os.path.join(model, name), huge)
    for command in (["serve", "--port", "0"], ["unit", "--connect", "ipc://%s/none" % folder], ["chat"],
                    ["generate", "--tokens", "5"], ["generate", "--tokens", "5", "--ranks", "2"],
                    ["logits", "--tokens", "5"], ["bench", "model"]):
        done = attempt(*command, "--model", huge)
        found = re.search(re.escape(huge) + ": " + SUM, done.stderr)
        assert done.returncode == 1 and found, (command, done)
        assert "--force loads it anyway" in done.stderr, done
        assert abs(float(found.group(2)) * 1e9 / total - 1) < 0.01, (command, total, done)
    weights = json.loads(run("inspect", "model", huge, "--ep", "1", "--json"))["ranks"][0]["bytes"]
    assert abs(weights / 1e9 - float(found.group(2))) <= 1, (weights, found)


def cheap_checks_come_first(folder):
    """What is wrong with files, ports and limits is said before the memory."""
    huge = folder + "/huge"
    for words, options in (
            ("none.jinja: cannot open it", ["--chat-template", folder + "/none.jinja"]),
            ("/none/a.db", ["--database", folder + "/none/a.db"]),
            ("none.yaml", ["--database", folder + "/a.db", "--prices", folder + "/none.yaml"]),
            ("--kv-memory: expected at least \\d+ bytes, one page of 64 tokens", ["--kv-memory", "64KiB"]),
            ("--max-context 163841: the model has at most 163840 tokens", ["--max-context", "163841"]),
            ("--max-context 131072: --kv-memory holds .* give --kv-memory .*MiB or more",
             ["--max-context", "131072", "--kv-memory", "64MiB"])):
        refuse(1, words, "serve", "--port", "0", "--model", huge, *options)
    with open(huge + "/tokenizer.json", "w", encoding="utf-8") as file:
        file.write("{}")
    refuse(1, "tokenizer.json", "serve", "--port", "0", "--model", huge)
    refuse(1, "--max-context 163841: the model has at most 163840 tokens", "chat", "--model", huge, "--max-context",
           "163841")
    busy = server.Server()
    refuse(1, "ddress already in use", "serve", "--port", busy.url.rsplit(":", 1)[1], "--model", huge)
    busy.stop()


def a_chat_takes_what_fits(folder):
    """A context of the model's own length has no room: the conversation gets a part of it, and --max-context is kept."""
    small = {"hidden_size": 256, "num_attention_heads": 1, "q_lora_rank": 128, "intermediate_size": 128, "vocab_size": 8192,
             "moe_intermediate_size": 128, "n_routed_experts": 4, "n_group": 1, "topk_group": 1, "num_experts_per_tok": 2,
             "max_position_embeddings": 1 << 20}
    if memory_gb() > 70:
        return  # all of it fits
    long = folder + "/long"
    sparse_model.make_model(long, {**sparse_model.V3, **small})
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(os.path.join(model, name), long)
    said = attempt("chat", "--model", long, "--max-new", "1", stdin=None, input="Hi\n")
    found = re.search(r"memory has room for (\d+) tokens of conversation, not for the model's 1048576\n", said.stderr)
    assert said.returncode == 0 and found and 4096 <= int(found.group(1)) < 1 << 20, said
    assert re.search(SUM, attempt("chat", "--model", long, "--max-context", str(1 << 20)).stderr)


def force_goes_on():
    """KV memory is used only when tokens are written, so a server with too much of it works."""
    kv = "%dMiB" % (1.5 * memory_gb() * 1000)
    done = attempt("serve", "--port", "0", "--model", model, "--kv-memory", kv)
    assert done.returncode == 1 and re.search(SUM + "give --kv-memory \\d+MiB or less", done.stderr), done
    running = server.Server("--model", model, "--kv-memory", kv, "--force")
    assert re.search(SUM, running.said()), running.said()
    assert running.open("/v1/completions", {"prompt": "A", "max_tokens": 2}).status == 200
    running.stop()


def main():
    with tempfile.TemporaryDirectory() as folder:
        every_command_refuses(folder)
        a_chat_takes_what_fits(folder)
        cheap_checks_come_first(folder)
    force_goes_on()


main()
