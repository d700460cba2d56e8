#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_wrong_models.py FATHOM MODEL: whatever is given as a model and is none, every command answers with one line that
says what to do; a folder of the hub's cache is served under the repository's name."""
import json
import os
import re
import sys
import tempfile

import server
from command import attempt, refuse, run

model = sys.argv[2]
HUB = "deepseek-ai/DeepSeek-V3"


def every_command(folder):
    address = "ipc://%s/wire" % folder
    for command in (["serve", "--port", "0"], ["unit", "--connect", address], ["chat"], ["generate", "Hi"],
                    ["logits", "--tokens", "5"], ["tokenize", "Hi"], ["template", "--tokens", folder + "/none.json"], ["bench", "model"],
                    ["gateway", "--port", "0", "--listen", address]):
        refuse(1, "%s: no such folder; .* `hf download %s --local-dir DeepSeek-V3`" % (HUB, HUB), *command, "--model", HUB)
    refuse(1, "`hf download %s" % HUB, "inspect", "model", "https://huggingface.co/" + HUB)


def other_families(folder):
    os.mkdir(folder)
    for family in ("LlamaForCausalLM", "Qwen3MoeForCausalLM", "MistralForCausalLM"):
        with open(folder + "/config.json", "w", encoding="utf-8") as file:
            json.dump({"architectures": [family]}, file)
        refuse(1, "found '%s': Fathom runs DeepSeek-V4, V3, R1, V3.2, V2, GLM-5, GLM-4.7-Flash and models of their form" % family,
               "serve", "--port", "0", "--model", folder)


def refuse_shards(words, folder):
    """x."""
    done = attempt("serve", "--port", "0", "--model", folder)
    assert done.returncode == 1 and re.search(words, done.stderr), (words, done)


def missing_weights(folder):
    run("make-checkpoint", folder, "--shards", "3")
    name = "model-00002-of-000003.safetensors"
    os.rename(folder + "/" + name, folder + "/" + name + ".incomplete")
    refuse_shards(name + ": shard is missing, .* `hf download` into the same folder", folder)
    with open(folder + "/" + name, "w", encoding="utf-8") as file:
        file.write("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    refuse(1, name + ": a Git LFS pointer in place of the file: run `git lfs pull`", "serve", "--port", "0", "--model",
           folder)
    for file in os.listdir(folder):
        if "safetensors" in file:
            os.remove(folder + "/" + file)
    refuse(1, "found neither: the weights are not there; `hf download`", "generate", "--tokens", "5", "--model", folder)


def a_cached_repository(folder):
    snapshot = folder + "/models--deepseek-ai--tiny/snapshots/0123abc"
    os.makedirs(snapshot)
    for name in os.listdir(model):
        os.symlink(os.path.abspath(os.path.join(model, name)), os.path.join(snapshot, name))
    for path in (folder + "/models--deepseek-ai--tiny", snapshot):
        running = server.Server("--model", path)
        with running.open("/v1/models") as answer:
            assert json.load(answer)["data"][0]["id"] == "tiny", path
        running.stop()


def main():
    with tempfile.TemporaryDirectory() as folder:
        every_command(folder)
        other_families(folder + "/other")
        missing_weights(folder + "/missing")
        a_cached_repository(folder)


main()
