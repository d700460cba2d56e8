#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_manual.py FATHOM: the manual pages and bash's completion, which the program writes from its own tables: every
command and every option is there, groff has no complaint, and bash completes what a person types."""
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


def plain(page):
    """What a manual page says, without its markup."""
    return re.sub(r"\\f[BIR]|\\&", "", page).replace("\\-", "-").replace("\\(aq", "'").replace("\\(ga", "`")


def options_of(text, before):
    """Those that stand behind `before`, experiments among them, which have no dashes."""
    return set(re.findall(before + r"(--(?:\[no-\])?[\w-]+|[\w-]+(?==[\w|]))", text, re.MULTILINE))


def check_pages(folder):
    run(fathom, "help", "--man", folder)
    commands = re.findall(r"^  ([\w-]+)  +\S", run(fathom, "help"), re.MULTILINE)
    assert sorted(os.listdir(folder)) == sorted(["fathom.1"] + ["fathom-%s.1" % name for name in commands])
    overview = plain(open(folder + "/fathom.1").read())
    every_option = run(fathom, "inspect", "options").split("usage: fathom ")[1:]
    assert len(every_option) >= len(commands)
    for command in commands:
        assert "fathom-%s(1)" % command in overview, command
        page = plain(open(folder + "/fathom-%s.1" % command).read())
        mine = [text for text in every_option if text.split(maxsplit=1)[0].strip() == command]
        assert mine, command
        for text in mine:
            missing = options_of(text, "^  ") - options_of(page, r"^\.TP\n")
            assert not missing, "fathom-%s.1 lacks %s" % (command, missing)
    if not shutil.which("groff"):
        print("groff is not there: nobody has read the pages")
        return
    for name in os.listdir(folder):
        done = subprocess.run(["groff", "-man", "-Tutf8", "-Kutf8", "-ww", os.path.join(folder, name)],
                              capture_output=True, text=True)
        assert done.returncode == 0 and not done.stderr, (name, done.stderr)
        assert name[:-2] in re.sub(r"\x1b\[[\d;]*m|.\x08", "", done.stdout), name


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
    assert complete("fathom", "generate", "--activations", "") == ["f32", "bf16", "fp8", "fp8-f32"]
    assert complete("fathom", "generate", "--activations", "=", "fp") == ["fp8", "fp8-f32"]
    assert complete("fathom", "generate", "--activations", "=") == ["f32", "bf16", "fp8", "fp8-f32"]
    assert complete("fathom", "generate", "--activations", "f32", "--act") == ["--activations"]
    assert complete("fathom", "bench", "ker") == ["kernels"]
    assert complete("fathom", "bench", "kernels", "--cpu") == ["--cpu-mask"]
    assert "avx2" in complete("fathom", "bench", "kernels", "--cpu-mask", "")
    assert complete("fathom", "generate", "a prompt") == [] == complete("fathom", "generate", "--model", "x")
    assert complete("fathom", "unknown", "--x") == []


def main():
    with tempfile.TemporaryDirectory() as folder:
        pages = os.path.join(folder, "pages")
        os.mkdir(pages)
        check_pages(pages)
        check_completion(folder)
        done = subprocess.run([fathom, "help", "--man", folder + "/nowhere"], capture_output=True, text=True)
        assert done.returncode == 1 and "cannot write" in done.stderr, done
        assert "--completion bash" in run(fathom, "help", "--help")
    print("ok")


main()
