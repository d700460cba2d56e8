#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_bench_peers.py FATHOM REQUESTS PARTS: `fathom bench peers` against peers that only pretend: what they print is read
right, both get the same work, and no server stays behind."""
import json
import os
import stat
import subprocess
import sys
import tempfile

fathom = os.path.abspath(sys.argv[1])
requests = sys.argv[2]  # of the server test
parts = sys.argv[3]  # all, or server alone: long prompts take minutes under sanitizers
PATIENCE = 3000

# A build of llama.cpp, or of its fork: what its tools are given, and what they print where.
BATCHED_BENCH = """#!/usr/bin/env python3
# %(kind)s
import sys
words = [word for word in sys.argv[1:] if word != "-rtr"]
options = dict(zip(words[::2], words[1::2]))
assert options["-m"] == "m.gguf" and options["-fa"] == "on", options
assert ("-mla" in options) == ("mla" in "%(kind)s"), options
table = sys.stderr if "-mla" in options else sys.stdout
print("|    PP |     TG |    B |   N_KV |   T_PP s | S_PP t/s |   T_TG s | S_TG t/s |      T s |    S t/s |", file=table)
for run, pl in enumerate(map(int, options["-npl"].split(","))):
    pp, tg = int(options["-npp"]), int(options["-ntg"])
    speed = 0.5 if run == 0 else 10.0 * pl * %(speed)s
    print("|%%6d | %%6d | %%4d | %%6d | %%8.3f | %%8.2f | %%8.3f | %%8.2f | %%8.3f | %%8.2f |" %% (
        pp, tg, pl, pl * (pp + tg), 1, 1 + pp if run else 0.5, 1, speed, 2, 3), file=table)
"""

SERVER = """#!/usr/bin/env python3
import os, sys
if sys.argv[1:] == ["--version"]:
    print("version: 3912 (8337e4cd3)\\nbuilt with a compiler", file=sys.stderr)
    sys.exit()
words = [word for word in sys.argv[1:] if word != "-rtr"]
options = dict(zip(words[::2], words[1::2]))
assert options["-np"] == "16", options
with open(%(pids)r, "a") as file:
    file.write("%%d\\n" %% os.getpid())
print("srv  load_model: listening soon", file=sys.stderr, flush=True)
if options["--port"] != "0":
    print("HTTP server listening port=%%s" %% options["--port"], file=sys.stderr, flush=True)
os.execv(%(fathom)r, [%(fathom)r, "serve", "--port", options["--port"], "--threads", "1", "--kv-memory", "64MiB"])
"""


def write_program(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, stat.S_IRWXU)
    return path


def bench(*options, code=0):
    done = subprocess.run([fathom, "bench", "peers", *options], text=True, capture_output=True,
                          timeout=PATIENCE)
    assert done.returncode == code, done
    return done


def gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def write_build(folder, name, kind, speed):
    build = os.path.join(folder, name)
    os.mkdir(build)
    write_program(build, "llama-batched-bench", BATCHED_BENCH % {"kind": kind, "speed": speed})
    pids = os.path.join(folder, "pids")
    write_program(build, "llama-server", SERVER % {"pids": pids, "fathom": fathom})
    return build


def all_of_it(folder):
    builds = write_build(folder, "one", "llama.cpp", 1), write_build(folder, "two", "--mla-use", 2)
    done = bench("--peer", builds[0], "--peer", builds[1], "--gguf", "m.gguf", "--runs", "1", "--lengths", "512,2048",
                 "--streams", "1,8", "--threads", "1", "--requests", requests, "--only", parts, "--busy", "any", "--json")
    assert json.loads(done.stdout)["commits"] == ["8337e4cd3", "8337e4cd3"]
    rows = {row["name"]: row for row in json.loads(done.stdout)["figures"]}
    wanted = {"prefill 512": (513, 513), "prefill 2048": (2049, 2049), "decode after 512": (10, 20),
              "decode, 1 streams": (10, 20), "decode, 8 streams": (80, 160)}
    for name, values in wanted.items() if parts == "all" else ():
        row = rows[name]
        assert [peer["name"] for peer in row["peers"]] == ["llama.cpp", "ik_llama.cpp"], row
        for peer, value in zip(row["peers"], values):
            assert peer["value"] == value and row["ours"] > 0, row
            assert abs(peer["ratio"] - row["ours"] / value) < 0.01 * peer["ratio"], row
        assert row["of_flops"] > 0, row
    assert parts != "all" or rows["decode, 1 streams"]["of_read"] > 0
    for name in ("server, output", "server, TTFT p50", "server, TPOT p50"):
        assert rows[name]["ours"] > 0 and all(peer["value"] > 0 for peer in rows[name]["peers"]), rows[name]
    row = rows["server, TTFT p50"]
    for peer in row["peers"]:
        assert abs(peer["ratio"] - peer["value"] / row["ours"]) < 0.01 * peer["ratio"], "of times, less is better"
    with open(os.path.join(folder, "pids"), encoding="utf-8") as file:
        assert all(gone(int(line)) for line in file), "a server stays behind"


def busy_machines(folder):
    streams = ("--peer", os.path.join(folder, "one"), "--gguf", "m.gguf", "--runs", "1", "--streams", "1", "--threads", "1",
               "--only", "streams", "--json")
    done = bench(*streams, "--busy", "10,10")
    row = json.loads(done.stdout)["figures"][0]
    assert row["peers"][0]["ratio"] > 0 and len(row["of_fair_share"]) == 2 and min(row["of_fair_share"]) > 0, row
    alone = json.loads(bench("--runs", "1", "--streams", "1", "--ranks", "2", "--only", "streams", "--busy", "10", "--json").stdout)
    assert len(alone["figures"]) == 1 and len(alone["figures"][0]["of_fair_share"]) == 1, "no peer is needed for shares"
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
        done = bench(*streams, code=1)
        other.kill()
    assert json.loads(done.stdout)["figures"][0]["peers"][0]["ratio"] is None, done.stdout
    assert "--busy any" in done.stderr, done.stderr
    assert "no list of nice values" in bench(*streams, "--busy", "calm", code=2).stderr


def troubles_are_named(folder):
    assert "--peer is needed" in bench(code=2).stderr
    assert "--gguf is needed" in bench("--peer", "x", code=2).stderr
    assert "--peer is needed" in bench("--gguf", "x", "--only", "server", code=2).stderr
    build = write_build(folder, "three", "llama.cpp", 1)
    peer = ("--peer", build, "--gguf", "m.gguf")
    write_program(build, "llama-server", "#!/bin/sh\necho what >&2\necho no such model >&2\nexit 3\n")
    text = bench("--only", "server", *peer, "--runs", "2", code=1).stderr
    assert "status 3" in text and "no such model" in text, text
    write_program(build, "llama-batched-bench", "#!/bin/sh\necho '| no table |'\n")
    text = bench("--only", "streams", "--streams", "4", *peer, code=1).stderr
    assert "no line of its table for 4 sequences" in text, text
    text = bench("--only", "streams", "--gguf", "x", "--peer", folder + "/none", code=1).stderr
    assert "/none/llama-batched-bench" in text, text


with tempfile.TemporaryDirectory() as folder:
    all_of_it(folder)
    busy_machines(folder)
    troubles_are_named(folder)
print("ok")
