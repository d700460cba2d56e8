#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_device_elsewhere.py FATHOM: where no GPU can be used, `serve --device cuda` says so at once if its ranks would run
here, and starts if they run on other hosts: whether those have GPUs each rank says itself. (A host that is this machine
under another name stands for another.)"""
import subprocess
import sys

fathom = sys.argv[1]
SHELL = ["--remote-shell", 'sh -c "$@"', "--port", "0"]


def run(*options):
    return subprocess.run([fathom, *options], text=True, capture_output=True, timeout=120)


if run("generate", "--device", "cuda", "--tokens", "1", "--max-new", "1").returncode == 0:
    sys.exit(77)  # there is a GPU
for ranks in ("1", "2"):
    done = run("serve", "--device", "cuda", "--ranks", ranks)
    assert done.returncode == 1 and done.stderr.startswith("fathom serve: --device cuda: "), done
    assert "starts a unit" not in done.stderr, done
done = run("serve", "--device", "cuda", "--hosts", "elsewhere:1", *SHELL)
assert done.returncode == 1 and "starts a unit" in done.stderr, done
assert "fathom unit: --device cuda: " in done.stderr and "unit 1 could not be started" in done.stderr, done
print("ok device elsewhere")
