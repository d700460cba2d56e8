# SPDX-License-Identifier: Apache-2.0
"""Checkpoints with random weights and tiny-r1's tokenizer, for tests of services."""
import atexit
import json
import os
import shutil
import subprocess
import tempfile

TINY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../models/tiny-r1")
# DeepSeek-V3.2's sparse attention. A token chooses 16 rows, so most tokens of a prompt depend on index keys.
INDEXER = {"architectures": ["DeepseekV32ForCausalLM"], "model_type": "deepseek_v32", "index_n_heads": 4,
           "index_head_dim": 64, "index_topk": 16}


def make_model(fathom, shape):
    """A checkpoint of this config.json, in a folder that goes with the test."""
    room = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, room)
    with open(room + "/shape.json", "w", encoding="utf-8") as file:
        json.dump(shape, file)
    subprocess.run([fathom, "make-checkpoint", "--shape", file.name, room + "/model"], check=True,
                   stderr=subprocess.DEVNULL)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(os.path.join(TINY, name), room + "/model")
    return room + "/model"


def make_sparse(fathom):
    """tiny-r1's shape with an indexer. Its keys are E4M3, as the weights are, and so short that the tests' few MiB of KV
    memory have room for their prompts."""
    with open(TINY + "/config.json", encoding="utf-8") as file:
        return make_model(fathom, {**json.load(file), **INDEXER, "index_head_dim": 32})
