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

LLAMA_BENCH = """#!/usr/bin/env python3
import json, sys
options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
assert options["-o"] == "jsonl" and options["-n"] == "0" and options["-m"] == "m.gguf", options
print("a line that is no result")
print(json.dumps({"n_prompt": 16, "avg_ts": 1.0}))
print(json.dumps({"n_prompt": int(options["-p"]), "n_gen": 0, "avg_ts": 1000.0 + int(options["-p"])}))
"""

LLAMA_BATCHED_BENCH = """#!/usr/bin/env python3
import json, sys
options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
print("loading", file=sys.stderr)
for pl in options["-npl"].split(","):
    print(json.dumps({"pp": int(options["-npp"]), "tg": 64, "pl": int(pl), "speed_tg": 10.0 * int(pl)}))
"""

LLAMA_SERVER = """#!/usr/bin/env python3
import os, sys
options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
assert options["-np"] == "16" and options["--port"] == "0", options
with open(%r, "a") as file:
    file.write("%%d\\n" %% os.getpid())
print("srv  load_model: listening soon", file=sys.stderr, flush=True)
os.execv(%r, [%r, "serve", "--port", "0", "--threads", "1", "--kv-memory", "64MiB"])
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


def all_of_it(folder):
    pids = os.path.join(folder, "pids")
    llama_bench = write_program(folder, "llama-bench", LLAMA_BENCH)
    write_program(folder, "llama-batched-bench", LLAMA_BATCHED_BENCH)
    server = write_program(folder, "llama-server", LLAMA_SERVER % (pids, fathom, fathom))
    done = bench("--llama-bench", llama_bench, "--llama-server", server, "--gguf", "m.gguf", "--runs", "1",
                 "--threads", "1", "--requests", requests, "--only", parts, "--json")
    result = json.loads(done.stdout)
    rows = {row["name"]: row for row in result["figures"]}
    wanted = {"prefill 512": 1512, "prefill 2048": 3048, "decode, 1 stream": 10, "decode, 8 streams": 80,
              "decode, 32 streams": 320}
    for name, peer in wanted.items() if parts == "all" else ():
        assert rows[name]["peer"] == peer and rows[name]["ours"] > 0, rows[name]
        assert abs(rows[name]["ratio"] - rows[name]["ours"] / peer) < 0.01 * rows[name]["ratio"], rows[name]
        assert rows[name]["of_flops"] > 0, rows[name]
    assert parts != "all" or rows["decode, 1 stream"]["of_read"] > 0
    for name in ("server, output", "server, TTFT p50", "server, TPOT p50"):
        assert rows[name]["ours"] > 0 and rows[name]["peer"] > 0, rows[name]
    row = rows["server, TTFT p50"]
    assert abs(row["ratio"] - row["peer"] / row["ours"]) < 0.01 * row["ratio"], "of times, less is better"
    with open(pids, encoding="utf-8") as file:
        assert all(gone(int(line)) for line in file), "a server stays behind"


def troubles_are_named(folder):
    assert "--gguf is needed" in bench(code=2).stderr
    assert "--llama-server is needed" in bench("--gguf", "x", "--only", "server", code=2).stderr
    failing = write_program(folder, "failing", "#!/bin/sh\necho what >&2\necho no such model >&2\nexit 3\n")
    text = bench("--only", "server", "--gguf", "x", "--llama-server", failing, "--runs", "2", code=1).stderr
    assert "status 3" in text and "no such model" in text, text
    silent = write_program(folder, "silent", "#!/bin/sh\necho '{\"n_prompt\": 4}'\n")
    text = bench("--only", "prefill", "--gguf", "x", "--llama-bench", silent, code=1).stderr
    assert "n_prompt" in text and "avg_ts" in text, text
    text = bench("--only", "prefill", "--gguf", "x", "--llama-bench", folder + "/none", code=1).stderr
    assert "cannot run" in text and "/none" in text, text


with tempfile.TemporaryDirectory() as folder:
    all_of_it(folder)
    troubles_are_named(folder)
print("ok")
