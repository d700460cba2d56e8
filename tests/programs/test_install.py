#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_install.py MESON BUILD PREFIX BINDIR DATADIR SERVING: `meson install` into an empty directory, which is then moved
away: the program there finds its model, and that one alone; licence and card lie beside it."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

meson, build, prefix, bindir, datadir, serving = sys.argv[1:7]


def run(*command, code=0, **keywords):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600, **keywords)
    assert done.returncode == code, (command, done)
    return done.stderr if code else done.stdout


def install(folder):
    run(meson, "install", "-C", build, "--no-rebuild", env={**os.environ, "DESTDIR": folder + "/staged"})
    moved = folder + "/moved"
    shutil.move(folder + "/staged" + prefix, moved)
    assert os.path.relpath(datadir, bindir) == "../share", "the program looks for ../share"
    return os.path.join(moved, bindir, "fathom"), os.path.join(moved, datadir)


def serves(program):
    sys.argv[1] = program  # whom server.py starts
    from server import Server
    server = Server()
    with server.open("/v1/models") as answer:
        assert json.load(answer)["data"][0]["id"] == "tiny-r1"
    body = {"messages": [{"role": "user", "content": "What is 4728 + 915?"}], "temperature": 0}
    with server.open("/v1/chat/completions", body) as answer:
        assert json.load(answer)["choices"][0]["message"]["content"]
    server.stop()


def main():
    with tempfile.TemporaryDirectory() as folder:
        program, data = install(folder)
        model = os.path.join(data, "fathom/models/tiny-r1")
        question = ["generate", "--activations", "f32", "--greedy"]
        question += ["What is 4728 + 915?"] if serving == "1" else ["--tokens", "5,9,3", "--max-new", "2"]
        answer = run(program, *question, cwd=folder)
        assert answer == "4728 + 915 = 5643\n" if serving == "1" else answer.strip(), answer
        if serving == "1":
            serves(program)
        for name in ("fathom/models/tiny-r1/LICENSE", "fathom/models/tiny-r1/MODEL_CARD.md", "doc/fathom/LICENSE", "doc/fathom/LICENSES"):
            assert os.path.getsize(os.path.join(data, name)) > 1000, name
        config = os.path.join(model, "config.json")
        with open(config, "w") as file:
            file.write("{")
        assert "share/fathom/models/tiny-r1/config.json" in run(program, *question, code=1), "another model was used"
        os.remove(config)
        said = run(program, *question, code=1)
        assert "no model tiny-r1 in" in said and "../share/fathom/models" in said and "--model" in said, said
    print("ok")


main()
