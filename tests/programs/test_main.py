#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_main.py FATHOM: what every command of the binary promises: --help on stdout with exit code 0, a
wrong command line on stderr with 2 and a cure, results that cannot be written with 1. Helps have their options in
groups, in lines that fit a terminal; mistyped names get a hint."""
import os
import re
import subprocess
import sys
import tempfile
import time

fathom = sys.argv[1]
failures = []


def run(*arguments, stdout=subprocess.PIPE):
    done = subprocess.run([fathom, *arguments], stdin=subprocess.DEVNULL, stdout=stdout,
                          stderr=subprocess.PIPE, text=True, timeout=600)
    return done.returncode, done.stdout, done.stderr


def expect(arguments, code, out, err):
    found = run(*arguments)
    if found[0] != code or not re.search(out, found[1]) or not re.search(err, found[2]):
        failures.append("fathom %s: expected %d /%s/ /%s/, found %r" % (
            " ".join(arguments), code, out, err, found))


def commands_of(text):
    return re.findall(r"^  ([\w-]+)  +\S", text, re.MULTILINE)


GROUPS = ["everyday options", "several ranks", "fleet", "storage", "tuning", "experiments"]


def check_command(words):
    name = " ".join(words)
    expect([*words, "--help"], 0, r"\Ausage: fathom %s" % name, r"\A\Z")
    text = run(*words, "--help")[1]
    if run("help", *words) != (0, text, ""):
        failures.append("fathom help %s says something else than fathom %s --help" % (name, name))
    brief, text = text, run("help", *words, "--all")[1]
    more = re.search(r"^`fathom help %s --all` lists (\d+) more: " % name, brief, re.MULTILINE)
    options = r"^  (?:--|[\w-]+=)"
    if len(re.findall(options, text, re.MULTILINE)) != len(re.findall(options, brief, re.MULTILINE)) + int(more[1] if more else 0):
        failures.append("fathom help %s does not say how many options it leaves to --all" % name)
    titles = re.findall(r"^(.+):\n  \S*-", text, re.MULTILINE)
    if titles not in ([], ["options"]) and titles != [group for group in GROUPS if group in titles]:
        failures.append("fathom %s --help has the groups %s" % (name, titles))
    if ("experiments" in titles) != ("\n  --experiment NAME=VALUE" in text):
        failures.append("fathom %s has experiments, but not --experiment, or the reverse" % name)
    wide = [line for line in text.splitlines() if len(line) > 100]
    if wide:
        failures.append("fathom %s --help has wide lines: %s" % (name, wide))
    expect([*words, "--no-such-option"], 2, r"\A\Z",
           r"\Afathom %s: unknown option '--no-such-option'.*\n\Z" % name)


NEEDED = {"unit": ["--connect", "ipc:///nonexistent"], "generate": ["--tokens", "5"],
          "logits": ["--tokens", "5"], "bench overlap": ["--ranks", "2"], 
          "bench peers": ["--gguf", "-", "--peer", "-"]}


def check_device(every_option):
    """Without a GPU, or without CUDA in the build, whatever computes says in one line what is missing; nothing computes
    elsewhere."""
    commands = [text.split("\n", 1)[0].split(" [")[0].strip() for text in every_option.split("usage: fathom ")[1:]
                if "\n  --device " in text]
    if "generate" not in commands or "bench model" not in commands:
        failures.append("--device is missing: %s" % commands)
    for command in [] if run("inspect", "gpu")[0] == 0 else commands:
        code, out, err = run(*command.split(), *NEEDED.get(command, []), "--device", "cuda")
        if "this build has no ranks" in err and "--ranks" in NEEDED.get(command, []):
            continue
        if code != 1 or out or err.count("\n") != 1 or not re.search("-Dcuda=enabled|CUDA says", err) or \
                "--device cpu" not in err:
            failures.append("%s --device cuda: %d %r %r" % (command, code, out, err))
    for device in ("tpu", "emulated", "emulated-kernels"):
        expect(["generate", "--tokens", "5", "--device", device], 1, r"\A\Z",
               r"--device %s: expected cpu or cuda .*fathom-emulated" % device)


def check_agent():
    """An agent that no supervisor started says what it is."""
    expect(["agent"], 2, r"\A\Z", r"\Afathom agent: `fathom serve` and `fathom unit` start it on each host of --hosts")


def check_serve_help():
    """Everyday options first, behind two examples; what only compares ways comes last and is no option any more."""
    text = run("serve", "--help", "--all")[1]
    places = [text.find(part) for part in ("\nexamples:\n", "\n  fathom serve  ", "\n  fathom serve --",
                                           *("\n%s:\n" % group for group in GROUPS), "\n  --experiment NAME=VALUE")]
    if -1 in places or places != sorted(places):
        failures.append("fathom serve --help: parts are missing, or lie elsewhere: %s" % places)
    everyday = text[places[3]:places[4]]
    for option in ("--model ", "--threads ", "--host ", "--port ", "--kv-memory "):
        if "\n  %s" % option not in everyday:
            failures.append("fathom serve --help: %s is no everyday option" % option)
    refused = {"serve": ("rank-balance", "rank-binding", "rank-steps", "reshuffle-steps", "placement-seed", "link-gbps",
                         "link-us"),
               "unit": ("rank-binding", "kv-push"), "generate": ("reshuffle-steps",), "bench overlap": ("link-gbps",)}
    for command, names in refused.items():
        for name in names:
            expect([*command.split(), "--" + name, "1"], 2, r"\A\Z",
                   r"\Afathom %s: --%s is now --experiment %s=VALUE\n\Z" % (command, name, name))
    expect(["serve", "--experiment", "rank-bindings=late"], 2, r"\A\Z",
           "unknown experiment 'rank-bindings'; there are: .*rank-binding")
    expect(["serve", "--experiment", "rank-binding=soon"], 2, r"\A\Z", r"expected one of late\|arrival, found 'soon'")


def check_fifos(commands):
    """Files given by name are refused, not waited for, where they are FIFOs that nobody writes to."""
    with tempfile.TemporaryDirectory() as folder:
        fifo = folder + "/f"
        os.mkfifo(fifo)
        rows = [("trace", "report", fifo), ("make-checkpoint", folder + "/x", "--shape", fifo)]
        if "serve" in commands:
            rows += [("serve", "--port", "0", "--config", fifo), ("serve", "--port", "0", "--accounts", fifo),
                     ("unit", "--connect", "tcp://127.0.0.1:9", "--wire-key", fifo, "--wire-gateway", fifo),
                     ("eplb", "--load", fifo), ("bench", "serve", "http://127.0.0.1:1", "--trace", fifo)]
        for row in rows:
            expect(row, 2 if "--config" in row else 1, r"\A\Z", r"expected a regular file, found a FIFO.*\n\Z")


def check_idle_options(commands):
    """What is set and does nothing is named, with what it needs."""
    alone = ["--tokens", "5"]
    rows = [(["generate", *alone, "--max-new", "1", "--rebalance-mbps", "3"], 0, "--rebalance-mbps does nothing without --ranks"),
            (["logits", *alone, "--experiment", "node-link-gbps=3"], 0,
             "--experiment node-link-gbps does nothing without --experiment link-gbps"),
            (["logits", *alone, "--weights-verify"], 0, "--weights-verify does nothing without --weights-dir or --ranks")]
    rows += [(["generate", *alone, "--max-new", "1", "--greedy", "--top-p", "0.5"], 0, "--top-p does nothing with --greedy")]
    if "serve" in commands:
        rows += [(["serve", "--rank-meeting", "x:1", "--no-prefix-cache", "--kv-dir", "/tmp"], 2,
                  'option=--kv-dir why="without --prefix-cache"'),
                 (["serve", "--rank-meeting", "x:1", "--kv-disk", "1GiB"], 2, 'option=--kv-disk why="without --kv-dir'),
                 (["serve", "--rank-meeting", "x:1", "--kv-load", "never"], 2,
                  'option=--kv-load why="without --kv-dir or --kv-host or --prefill-units"'),
                 (["serve", "--rank-meeting", "x:1", "--roles", "auto"], 2, "option=--roles why=\"without --prefill-units"),
                 (["unit", "--rank-timeout", "3"], 2, 'option=--rank-timeout why="without --ranks or --hosts or --hostfile"'),
                 (["gateway", "--record-prompts"], 2, "option=--record-prompts why=\"without --record"),
                 (["bench", "serve", "http://127.0.0.1:1", "--each"], None, "--each does nothing without --json")]
    for words, code, err in rows:
        found = run(*words)
        if code not in (None, found[0]) or not re.search(err, found[2]):
            failures.append("fathom %s: expected %s and %s, found %r" % (" ".join(words), code, err, found))
    for words in (["generate", *alone, "--max-new", "1", "--rebalance-mbps", "400"], ["logits", *alone, "--ranks", "1"]):
        if "does nothing" in run(*words)[2]:
            failures.append("fathom %s names an option that asks for nothing" % " ".join(words))


def links_of(pid):
    links = {}
    for number in os.listdir("/proc/%d/fd" % pid):
        try:
            links[int(number)] = os.readlink("/proc/%d/fd/%s" % (pid, number))
        except FileNotFoundError:
            pass
    return links


def start_closed(*arguments):
    """Standard streams that are closed at the start."""
    return subprocess.Popen(["sh", "-c", "exec \"$@\" <&- >&- 2>&-", "sh", fathom, *arguments])


def check_closed_streams(commands):
    """Sockets and files do not get the numbers of stdin, stdout and stderr; lost results are an error."""
    for words, code in ((["version"], 1), (["frobnicate"], 2), (["tokenize", "--no-such-option"], 2)):
        found = start_closed(*words).wait()
        if words[0] in [*commands, "frobnicate"] and found != code:
            failures.append("fathom %s with closed streams: expected %d, found %d" % (words[0], code, found))
    if "serve" not in commands:
        return
    with start_closed("serve", "--port", "0", "--kv-memory", "16MiB") as process:
        links = {}
        while process.poll() is None and not any("socket:" in link for link in links.values()):
            links = links_of(process.pid)
            time.sleep(0.01)
        standard = [links.get(number) for number in range(3)]
        if standard != ["/dev/null"] * 3:
            failures.append("a server with closed streams has %s there" % standard)
        process.terminate()


def main():
    expect([], 2, r"\A\Z", "usage: fathom COMMAND")
    for command in ("bench", "inspect"):
        expect([command], 2, r"\A\Z", "usage: fathom %s SUBJECT" % command)
        expect([command, "--help"], 0, "usage: fathom %s SUBJECT" % command, r"\A\Z")
        expect(["help", command], 0, "usage: fathom %s SUBJECT" % command, r"\A\Z")
        expect([command, "frobnicate"], 2, r"\A\Z", "unknown subject 'frobnicate'; `fathom %s --help` lists them" % command)
    expect(["bench", "kernel"], 2, r"\A\Z", r"\Afathom bench: unknown subject 'kernel'; did you mean 'kernels'\?\n")
    expect(["help", "bench", "kernel"], 2, r"\A\Z", "did you mean 'kernels'")
    expect(["help"], 0, "usage: fathom COMMAND", r"\A\Z")
    expect(["help", "help"], 0, "usage: fathom COMMAND", r"\A\Z")
    expect(["frobnicate"], 2, r"\A\Z", "unknown command 'frobnicate'; `fathom --help` lists them")
    expect(["generat"], 2, r"\A\Z", r"\Afathom: unknown command 'generat'; did you mean 'generate'\?\n\Z")
    expect(["hlep"], 2, r"\A\Z", "unknown command 'hlep'; did you mean 'help'")
    expect(["help", "frobnicate"], 2, r"\A\Z", "unknown command 'frobnicate'")
    expect(["generate", "--modle", "x"], 2, r"\A\Z", r"unknown option '--modle'; did you mean --model\?")
    expect(["completion", "bash"], 2, r"\A\Z", "unknown command 'completion'; `fathom help --completion bash`")
    expect(["generate", "--max-tokens", "5"], 2, r"\A\Z", "unknown option '--max-tokens'; in Fathom it is --max-new")
    expect(["generate", "--prompt", "x"], 2, r"\A\Z", "in Fathom the prompt is an argument without an option")
    expect(["generate", "-n", "5", "x"], 2, r"\A\Z", "unknown option '-n'; in Fathom it is --max-new")
    for theirs, ours in (("-m", "model"), ("-c", "max-context"), ("-np", "max-batch-rows"), ("--tp", "ranks"), ("--alias", "served-name"),
                         ("--tensor-parallel-size", "ranks"), ("--gpu-memory-utilization", "kv-memory")):
        expect(["serve", theirs, "1"], 2, r"\A\Z", "unknown option '%s'; in Fathom it is --%s" % (theirs, ours))
    expect(["serve", "--api-key", "k"], 2, r"\A\Z", "in Fathom `fathom account create` makes keys")
    expect(["serve", "--model", "tiny-r1"], 1, r"\A\Z", "tiny-r1: no such folder; leave out --model for the embedded model, or give /")
    expect(["version"], 0, r"\Afathom \d+\.\d+\.\d+\n\Z", r"\A\Z")
    expect(["--version"], 0, r"\Afathom \d", r"\A\Z")
    expect(["version", "surplus"], 2, r"\A\Z", "unexpected argument 'surplus'")
    commands = commands_of(run("help")[1])
    assert len(commands) >= 2 and "version" in commands, commands
    every_option = run("inspect", "options")[1]
    check_device(every_option)
    check_fifos(commands)
    check_closed_streams(commands)
    check_idle_options(commands)
    if "serve" in commands:
        check_serve_help()
        check_agent()
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
