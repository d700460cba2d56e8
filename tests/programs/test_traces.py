#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_traces.py FATHOM TRACES: bench/traces.py on an excerpt of a trace, with a llama-server that only pretends: all
systems get the same prompts, nobody hits more than an endless cache, and a system that fails is named while the
others go on."""
import json
import os
import stat
import subprocess
import sys
import tempfile

fathom, traces = sys.argv[1:3]
EXCERPT = os.path.join(os.path.dirname(__file__), "mooncake_excerpt.jsonl")

LLAMA_SERVER = """#!/bin/sh
echo "srv  load_model: listening soon"
exec %s serve --port 0 --threads 1 --kv-memory 64MiB
"""


def run(*options, code=0):
    done = subprocess.run([sys.executable, traces, fathom, EXCERPT, "--threads", "2", "--scale-tokens", "0.0625",
                           "--max-prompt", "200", "--load", "100", "--seconds-max", "600", *options], text=True,
                          capture_output=True, timeout=1800)
    assert done.returncode == code, done
    return done.stdout


def sane(rows, count):
    assert len(rows) == count, rows
    for row in rows:
        assert "trouble" not in row and row["trace"] == "mooncake_excerpt.jsonl", row
        assert row["ideal"] == rows[0]["ideal"] and row["prompt_tokens"] == row["ideal"]["prompt_tokens"], row
        assert row["cached_tokens"] <= row["ideal"]["block_cached_tokens"] <= row["ideal"]["cached_tokens"], row


with tempfile.TemporaryDirectory() as folder:
    pretender = os.path.join(folder, "llama-server")
    with open(pretender, "w", encoding="utf-8") as file:
        file.write(LLAMA_SERVER % fathom)
    os.chmod(pretender, stat.S_IRWXU)
    peers = json.loads(run("--json", "--only", "peers", "--seconds", "1", "--llama-server", pretender, "--gguf", "m"))
    sane(peers, 3)
    assert [row["system"] for row in peers] == ["one unit", "prefill and decode apart", "llama-server"], peers
    tiers = json.loads(run("--json", "--only", "tiers", "--tiers-seconds", "1", "--disk", folder))
    sane(tiers, 4)
    assert sorted(os.listdir(folder)) == ["llama-server"], "what the storage wrote is gone"
    table = run("--only", "peers", "--seconds", "0.5", "--llama-server", "/bin/false", "--gguf", "m", code=1)
    assert "llama-server | it did not start" in table and "| one unit | " in table, table
print("ok traces")
