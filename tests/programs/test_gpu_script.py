#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_gpu_script.py SCRIPT BUILD [whole]: what a GPU machine is asked (bench/gpu.sh) runs here too, on the CPU:
each step ends as it should and leaves its results, also where it has nothing to do; a device that cannot
compute is a step that failed, not one that computed elsewhere. whole: all steps, the build too, on the stand-in for a
GPU."""
import csv
import os
import re
import subprocess
import sys
import tempfile

script, build = sys.argv[1:3]


def run(*arguments):
    done = subprocess.run([script, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def steps(out, *arguments):
    """The exit code, what each step came to, and what a step left."""
    code, said = run("--build", build, "--out", out, "--quick", *arguments)
    with open(os.path.join(out, "results.csv"), encoding="utf-8") as file:
        results = {row["step"]: row["result"] for row in csv.DictReader(file)}

    def left(step):
        with open(os.path.join(out, step + ".txt"), encoding="utf-8") as file:
            return file.read()
    return code, results, left, said


def lay_models():
    """A program finds its own model beside its build's folder: a build within another gets a link there."""
    beside = os.path.join(os.path.dirname(build), "models")
    if not os.path.exists(beside):
        os.symlink(os.path.join(os.path.dirname(os.path.dirname(script)), "models"), beside)


def main():
    lay_models()
    some = ["machine", "inspect", "goldens", "links", "accuracy", "sanitize", "time-model", "time-layer"]
    whole = "whole" in sys.argv
    with tempfile.TemporaryDirectory() as out:
        how = ["--device", "emulated", "--limit", "1800"] if whole else ["--device", "cpu", *some]
        code, results, left, said = steps(out, *how)
        assert code == 0 and set(some) <= set(results), (code, said)
        assert results.pop("sanitize") == "nothing to do here", results
        if whole and results["links"] != "done": # names of hosts cannot be given here, or there is no UCX
            assert results.pop("links") == "nothing to do here", results
        elif not whole:
            assert results.pop("links") == "nothing to do here" and "not run: 0 GPUs here" in left("links"), left("links")
        assert set(results.values()) == {"done"}, said
        with open(os.path.join(out, "layer.csv"), encoding="utf-8") as file:
            assert len(list(csv.DictReader(file))) > 1, "the table of stage times is empty"
        assert "levels available" in left("inspect") and "prefill 64 tokens" in left("time-model")
        assert re.search(r"f32: (\d+) of \1 cases keep", left("goldens")), left("goldens")
        assert left("accuracy").count(" of 20 right") == 3, left("accuracy")
    with tempfile.TemporaryDirectory() as out:
        code, results, left, said = steps(out, "--device", "cuda", "accuracy")
        assert code == 1 and results == {"accuracy": "failed"}, (code, results, said)
        assert "--device cuda" in left("accuracy"), left("accuracy")
    code, said = run("frobnicate")
    assert code == 2 and "no step named 'frobnicate'" in said, (code, said)


main()
