#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_main.py FATHOM: what every command of the binary promises: --help on stdout with exit code 0, a
wrong command line on stderr with 2 and a cure, results that cannot be written with 1."""
import os
import re
import subprocess
import sys
import tempfile

fathom = sys.argv[1]
failures = []
# For a command that joins an MPI job: Open MPI leaves memory behind, which a leak check would name.
with_mpi = dict(os.environ, ASAN_OPTIONS="detect_leaks=0:" + os.environ.get("ASAN_OPTIONS", ""))


def run(*arguments, stdout=subprocess.PIPE, environment=None):
    done = subprocess.run([fathom, *arguments], stdin=subprocess.DEVNULL, stdout=stdout,
                          stderr=subprocess.PIPE, text=True, timeout=600, env=environment)
    return done.returncode, done.stdout, done.stderr


def expect(arguments, code, out, err):
    found = run(*arguments)
    if found[0] != code or not re.search(out, found[1]) or not re.search(err, found[2]):
        failures.append("fathom %s: expected %d /%s/ /%s/, found %r" % (
            " ".join(arguments), code, out, err, found))


def commands_of(text):
    return re.findall(r"^  ([\w-]+)  +\S", text, re.MULTILINE)


def check_command(words):
    name = " ".join(words)
    expect([*words, "--help"], 0, r"\Ausage: fathom %s" % name, r"\A\Z")
    expect([*words, "--no-such-option"], 2, r"\A\Z",
           r"\Afathom %s: unknown option '--no-such-option'.*\n\Z" % name)


NEEDED = {"unit": ["--connect", "ipc:///nonexistent"], "generate": ["--tokens", "5"],
          "logits": ["--tokens", "5"], "bench overlap": ["--ranks", "2"], "bench rebalance": ["--ranks", "2"],
          "bench peers": ["--gguf", "-", "--llama-bench", "-", "--llama-server", "-"]}


def check_device(every_option):
    """Whatever computes says in one line that there is no engine on GPUs; nothing computes elsewhere."""
    commands = [text.split("\n", 1)[0].split(" [")[0].strip() for text in every_option.split("usage: fathom ")[1:]
                if "\n  --device " in text]
    if "generate" not in commands or "bench model" not in commands:
        failures.append("--device is missing: %s" % commands)
    for command in commands:
        code, out, err = run(*command.split(), *NEEDED.get(command, []), "--device", "cuda",
                             environment=with_mpi)
        if "this build has no ranks" in err and "--ranks" in NEEDED.get(command, []):
            continue
        if code != 1 or out or err.count("\n") != 1 or "no CUDA engine yet" not in err or "--device cpu" not in err:
            failures.append("%s --device cuda: %d %r %r" % (command, code, out, err))
    expect(["generate", "--tokens", "5", "--device", "tpu"], 2, r"\A\Z", r"one of cpu\|cuda")


def check_fifos(commands):
    """Files given by name are refused, not waited for, where they are FIFOs that nobody writes to."""
    with tempfile.TemporaryDirectory() as folder:
        fifo = folder + "/f"
        os.mkfifo(fifo)
        rows = [("trace", "report", fifo), ("make-checkpoint", folder + "/x", "--shape", fifo)]
        if "serve" in commands:
            rows += [("serve", "--port", "0", "--config", fifo), ("serve", "--port", "0", "--accounts", fifo),
                     ("unit", "--connect", "tcp://127.0.0.1:9", "--wire-key", fifo, "--wire-gateway", fifo),
                     ("eplb", "--load", fifo), ("bench", "serve", "http://127.0.0.1:1", "--trace", fifo),
                     ("bench", "balance", fifo), ("bench", "mtp", "--from", fifo)]
        for row in rows:
            expect(row, 2 if "--config" in row else 1, r"\A\Z", r"expected a regular file, found a FIFO.*\n\Z")


def main():
    expect([], 2, r"\A\Z", "usage: fathom COMMAND")
    for command in ("bench", "inspect"):
        expect([command], 2, r"\A\Z", "usage: fathom %s SUBJECT" % command)
        expect([command, "--help"], 0, "usage: fathom %s SUBJECT" % command, r"\A\Z")
        expect([command, "frob"], 2, r"\A\Z", "no subject named 'frob'")
    expect(["help"], 0, "usage: fathom COMMAND", r"\A\Z")
    expect(["frobnicate"], 2, r"\A\Z", "no command named 'frobnicate'; `fathom help` lists them")
    expect(["version"], 0, r"\Afathom \d+\.\d+\.\d+\n\Z", r"\A\Z")
    expect(["--version"], 0, r"\Afathom \d", r"\A\Z")
    expect(["version", "surplus"], 2, r"\A\Z", "unexpected argument 'surplus'")
    commands = commands_of(run("help")[1])
    assert len(commands) >= 2 and "version" in commands, commands
    every_option = run("inspect", "options")[1]
    check_device(every_option)
    check_fifos(commands)
    groups = {}
    for command in commands:
        subjects = commands_of(run(command, "--help")[1]) if command in ("inspect", "bench") else []
        groups[command] = [[command, subject] for subject in subjects] or [[command]]
        for words in groups[command]:
            check_command(words)
    with open("/dev/full", "w", encoding="utf-8") as full:
        code, _, err = run("inspect", "options", stdout=full)
        if code != 1 or "cannot write to standard output: No space" not in err:
            failures.append("a full disk goes unnoticed: %d %s" % (code, err))
    print("\n".join(failures))
    sys.exit(1 if failures else 0)


main()
