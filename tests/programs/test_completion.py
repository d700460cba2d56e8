#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_completion.py FATHOM: completion in shells. bash, zsh and fish offer what a person may type next: commands, subjects,
first arguments, options and their choices. zsh and fish are asked where they are installed."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

fathom = sys.argv[1]


def run(*command, **keywords):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600, **keywords)
    assert done.returncode == 0, (command, done)
    return done.stdout


def check_completion(folder):
    script = os.path.join(folder, "completion")
    with open(script, "w") as file:
        file.write(run(fathom, "help", "--completion", "bash"))

    def complete(*words):
        """What bash offers for the last word."""
        return run("bash", "-uc", '. "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _fathom; '
                   'echo "${COMPREPLY[@]}"', script, *words).split()

    assert "generate" in complete("fathom", "") and "help" in complete("fathom", "")
    assert complete("fathom", "gen") == ["generate"] == complete("fathom", "help", "gen")
    assert complete("fathom", "generate", "--activ") == ["--activations"]
    assert complete("fathom", "generate", "--activations", "") == ["f32", "bf16", "fp8", "fp8-f32", "int8"]
    assert complete("fathom", "generate", "--activations", "=", "fp") == ["fp8", "fp8-f32"]
    assert complete("fathom", "generate", "--activations", "=") == ["f32", "bf16", "fp8", "fp8-f32", "int8"]
    assert complete("fathom", "generate", "--activations", "f32", "--act") == ["--activations"]
    assert complete("fathom", "bench", "ker") == ["kernels"]
    assert complete("fathom", "bench", "kernels", "--cpu") == ["--cpu-mask"]
    assert "avx2" in complete("fathom", "bench", "kernels", "--cpu-mask", "")
    assert complete("fathom", "generate", "a prompt") == [] == complete("fathom", "generate", "--model", "x")
    assert complete("fathom", "unknown", "--x") == []
    assert complete("fathom", "account", "cr") == ["create"]
    assert complete("fathom", "cache", "") == ["stat", "verify", "gc"]
    assert "deepseek-day" in complete("fathom", "sim", "")
    assert complete("fathom", "account", "create", "") == []


def check_other_shells(folder):
    """Their scripts are written from the same tables; the shells themselves are asked where they are installed."""
    for shell in "zsh", "fish":
        with open(os.path.join(folder, shell), "w") as file:
            file.write(run(fathom, "help", "--completion", shell))
    text = open(os.path.join(folder, "fish")).read()
    names = set(re.findall(r"^  --(?:\[no-\])?([\w-]+)", run(fathom, "help", "serve", "--all"), re.MULTILINE))
    rules = set(re.findall(r"'__fathom_in serve' -l ([\w-]+)", text))
    assert len(names) > 50 and names - {"experiment"} <= rules, names - rules
    if shutil.which("fish"):
        def fish(line):
            return [one.split("\t")[0] for one in
                    run("fish", "-N", "-c", "source $argv[1]; complete -C $argv[2]", os.path.join(folder, "fish"), line,
                        env=dict(os.environ, HOME=folder)).splitlines()]
        assert fish("fathom gen") == ["generate"] == fish("fathom help gen")
        assert fish("fathom generate --activ") == ["--activations"]
        assert sorted(fish("fathom generate --activations ")) == ["bf16", "f32", "fp8", "fp8-f32", "int8"]
        assert fish("fathom bench ker") == ["kernels"] and fish("fathom bench kernels --cpu-m") == ["--cpu-mask"]
        assert fish("fathom account cr") == ["create"] and "deepseek-day" in fish("fathom sim d")
    if shutil.which("zsh"):
        def zsh(*words):
            """What zsh chooses from for the last word: its own matching comes after the function."""
            offered = run("zsh", "-fc", '. "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); emulate sh; _fathom; '
                          'echo "${COMPREPLY[@]}"', os.path.join(folder, "zsh"), *words).split()
            return [word for word in offered if word.startswith(words[-1])]
        assert zsh("fathom", "gen") == ["generate"], zsh("fathom", "gen")
        assert zsh("fathom", "generate", "--activations", "") == ["f32", "bf16", "fp8", "fp8-f32", "int8"]
        assert zsh("fathom", "bench", "ker") == ["kernels"] and zsh("fathom", "account", "cr") == ["create"]


def main():
    with tempfile.TemporaryDirectory() as folder:
        check_completion(folder)
        check_other_shells(folder)
    assert "--completion bash" in run(fathom, "help", "--help")
    print("ok")


main()
