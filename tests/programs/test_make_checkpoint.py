#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_make_checkpoint.py FATHOM ROOT: `fathom make-checkpoint` writes what it was asked for, as `fathom inspect model`
sees it, from its files or from an index without its shards; wrong use is refused with a cure."""
import json
import os
import re
import sys
import tempfile

from command import refuse, run

root = sys.argv[2]


def inspect(*arguments):
    return json.loads(run("inspect", "model", *arguments, "--json"))


def generated(folder):
    said = run("make-checkpoint", folder, "--shape", "tiny", "--mtp", "--shards", "3")
    assert re.fullmatch(r"writing 0\.\d+ GB to %s, where \d+\.\d+ GB are free\n" % folder, said), said
    whole = inspect(folder, "--verify")
    size = sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder)
               if name.endswith(".safetensors"))
    copies = 2 * 2 * 600 * 192  # the MTP layer's embedding and head are not counted
    assert 0 < size - whole["bytes"] - whole["mtp_bytes"] - copies < 200000, (size, whole)
    assert whole["fp8"] and whole["mtp_layers"] == 1 and whole["experts"] == 32, whole
    assert sum(whole["bytes_by_kind"].values()) == whole["bytes"], whole
    refuse(2, "exists already; give --force", "make-checkpoint", folder)
    for name in os.listdir(folder):
        if name.endswith(".safetensors"):
            os.remove(os.path.join(folder, name))
    assert inspect(folder) == whole, "an index alone should tell the same"
    refuse(1, "shard is missing", "inspect", "model", folder, "--verify")
    run("make-checkpoint", folder, "--force", "--weights", "bf16")
    plain = inspect(folder, "--verify")
    assert not plain["fp8"] and plain["mtp_layers"] == 0, plain
    assert plain["parameters"] == whole["parameters"], "the type does not change the shape"


def packed(folder):
    """Experts in four bits, and the first layers alone."""
    whole = inspect(folder, "--verify")
    for form in ("int4-g32", "mxfp4"):
        run("make-checkpoint", folder, "--force", "--shape", "tiny", "--weights", form, "--layers", "2")
        tiny = inspect(folder, "--verify")
        assert tiny["experts_form"] == form and not tiny["fp8"] and tiny["layers"] == 2, tiny
        assert tiny["parameters"] < whole["parameters"], tiny


def from_a_config(folder):
    config = os.path.join(root, "models/tiny-r1/config.json")
    run("make-checkpoint", folder, "--shape", config, "--without-mtp")
    assert inspect(folder, "--verify")["mtp_layers"] == 0
    refuse(1, "remove it", "make-checkpoint", folder, "--force", "--shape", config, "--weights", "f32")
    plain = os.path.join(root, "tests/golden/v2lite-softmax-greedy-yarn/config.json")
    for weights in ("fp8", "f16"):  # of a config.json that names no quantization
        run("make-checkpoint", folder, "--force", "--shape", plain, "--weights", weights)
        assert inspect(folder, "--verify")["fp8"] == (weights == "fp8"), weights
    refuse(1, "multiples of 32", "make-checkpoint", folder, "--force", "--shape", plain, "--weights", "int4-g32")
    kimi = os.path.join(root, "tests/golden/k2thinking-int4-g32/config.json")
    run("make-checkpoint", folder, "--force", "--shape", kimi)
    assert inspect(folder, "--verify")["experts_form"] == "int4-g32"


def too_large(folder):
    """200 TB, which no disk under test has."""
    with open(os.path.join(root, "models/tiny-r1/config.json"), encoding="utf-8") as file:
        config = json.load(file)
    with open(folder + "/huge.json", "w", encoding="utf-8") as file:
        json.dump({**config, "hidden_size": 65536, "moe_intermediate_size": 65536, "n_routed_experts": 256,
                   "num_hidden_layers": 60}, file)
    refuse(1, r"/huge/deep: the checkpoint needs \d{6}\.\d+ GB, and \d+\.\d+ GB of the disk are free; choose",
           "make-checkpoint", folder + "/huge/deep", "--shape", folder + "/huge.json")
    assert not os.path.exists(folder + "/huge"), "nothing is written before the check"


def main():
    with tempfile.TemporaryDirectory() as folder:
        generated(folder + "/tiny")
        packed(folder + "/tiny")
        from_a_config(folder + "/copy")
        refuse(1, "no-such.json: cannot open it: No such file", "make-checkpoint", folder + "/x", "--shape",
               "no-such.json")
        too_large(folder)
        refuse(2, "--layers is for named shapes; set num_hidden_layers", "make-checkpoint", folder + "/x", "--layers",
               "2", "--shape", os.path.join(root, "models/tiny-r1/config.json"))
        refuse(2, "--mtp is for named shapes", "make-checkpoint", folder + "/x", "--mtp", "--shape",
               os.path.join(root, "models/tiny-r1/config.json"))
        refuse(1, "cannot|Not a directory|No such", "make-checkpoint", "/dev/null/x")


main()
