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
        cheap_checks_come_first(folder)
    force_goes_on()


main()
