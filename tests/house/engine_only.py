#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""engine_only.py ROOT BUILD GOLDEN: builds with -Dserving=disabled while pkg-config can see jansson
alone: the engine needs a C compiler, Meson and a JSON library. Then computes goldens with what it built."""
import json
import os
import shutil
import subprocess
import sys


def run(*command, **keywords):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, **keywords)
    if done.returncode:
        sys.exit("%s\nexit code %d\n%s" % (" ".join(command), done.returncode, done.stdout[-8000:]))
    return done.stdout


def jansson_only(build):
    """A directory with jansson.pc and nothing else."""
    folder = build + ".pkgconfig"
    os.makedirs(folder, exist_ok=True)
    home = run("pkg-config", "--variable=pcfiledir", "jansson").strip()
    shutil.copy(os.path.join(home, "jansson.pc"), folder)
    return folder


def check_golden(fathom, folder):
    """Three prompts of a case by the goldens' tolerances (tests/golden/README.md)."""
    with open(os.path.join(folder, "golden.json"), encoding="utf-8") as file:
        prompts = json.load(file)["prompts"][:3]
    for prompt in prompts:
        tokens = ",".join(str(token) for token in prompt["tokens"])
        found = json.loads(run(fathom, "logits", "--model", folder, "--activations", "f32", "--tokens",
                               tokens, "--last", "1", "--top", "20", "--json"))["positions"][0]
        wanted = prompt["top20"][-1]
        assert found["pos"] == wanted["pos"], (folder, found, wanted)
        assert found["top"][0][0] == prompt["greedy"]["tokens"][0], (folder, found, wanted)
        logits = dict(zip(wanted["ids"], wanted["logits"]))
        for token, logit in found["top"][:10]:
            assert abs(logits[token] - logit) <= 2e-3, (folder, token, logit, logits[token])
        assert abs(found["logsumexp"] - prompt["stats"]["lse"][-1]) <= 1e-3, (folder, found)


def main():
    root, build, golden = sys.argv[1:4]
    environment = dict(os.environ, PKG_CONFIG_LIBDIR=jansson_only(build), PKG_CONFIG_PATH="")
    if not os.path.exists(os.path.join(build, "build.ninja")):
        run("meson", "setup", build, root, "-Dserving=disabled", "-Dtests=disabled", env=environment)
    run("ninja", "-C", build, "-j2", "fathom", env=environment)
    fathom = os.path.join(build, "fathom")
    assert run(fathom, "version").startswith("fathom ")
    libraries = run("ldd", fathom)
    for name in ("event", "pcre", "crypto", "ssl", "cyaml", "yaml"):
        assert "lib" + name not in libraries, "the engine links lib%s:\n%s" % (name, libraries)
    assert "libjansson" in libraries, libraries
    for case in ("v2lite-softmax-greedy-yarn", "v3-fp8-odd-noq-g1-noyarn"):
        check_golden(fathom, os.path.join(golden, case))


main()
