#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_cache.py FATHOM: a KV storage seen from outside: `cache stat`, `verify` and `gc` say what lies in a directory, find
a flipped bit in it and make it smaller."""
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

fathom = sys.argv[1]
failures = []


def run(*arguments, path=None):
    environment = dict(os.environ, PATH=path) if path else None
    done = subprocess.run([fathom, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=600, env=environment, check=False)
    return done.returncode, done.stdout, done.stderr


def expect(what, condition, *found):
    if not condition:
        failures.append("%s: found %r" % (what, found))


def check_nothing(directory):
    code, out, err = run("cache", "stat", directory)
    expect("stat of nothing", (code, out, err) == (0, "no blocks\n", ""), code, out, err)
    code, out, err = run("cache", "stat", directory + "/none")
    expect("stat of no directory", code == 1 and "cannot open this directory" in err, code, out, err)
    code, out, err = run("cache", "gc", directory)
    expect("gc without a size", code == 2 and "--size" in err, code, out, err)
    code, out, err = run("cache", "frob", directory)
    expect("no such subject", code == 2 and "no subject named 'frob'" in err, code, out, err)


def data_files(directory):
    return sorted(os.path.join(folder, name) for folder, _, names in os.walk(directory) for name in names
                  if name.endswith(".kv"))


def check_filled(directory, source):
    shutil.copytree(source, directory)
    code, out, _ = run("cache", "stat", directory, "--json")
    report = json.loads(out)
    expect("stat", code == 0 and report["blocks"] == 585 and len(report["folders"]) == 1, code, report)
    code, out, err = run("cache", "verify", directory, "--json")
    report = json.loads(out)
    expect("verify", code == 0 and report["damaged"] == 0 and report["folders"][0]["sound"] == 585, report, err)
    slot = report["folders"][0]["block_bytes"]
    with open(data_files(directory)[0], "r+b") as file:
        for at in (4096 + 20, 4096 + slot + 4096 + 33):  # a header, a row
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(struct.pack("B", byte ^ 8))
    code, out, err = run("cache", "verify", directory)
    expect("verify of damage", code == 1 and "583 sound, 2 damaged" in out and err.count("\n") == 2 and
           "slot 0: damaged header" in err and "slot 1: slice 0 is damaged" in err, code, out, err)
    code, out, err = run("cache", "gc", directory, "--size", "1GiB", "--json")
    report = json.loads(out)
    expect("gc with room", code == 0 and report["removed_segments"] == 0 and report["bytes"] > 0, report, err)
    code, out, err = run("cache", "gc", directory, "--size", "1MiB", "--json")
    report = json.loads(out)
    expect("gc", code == 0 and report == {"removed_segments": 1, "bytes": 0}, report, err)
    expect("what gc leaves", data_files(directory) == [], data_files(directory))


def main():
    with tempfile.TemporaryDirectory() as directory:
        check_nothing(directory)
        filled = os.path.join(directory, "filled")
        code, out, err = run("bench", "cache", "--dir", directory, "--size", "16MiB", "--width", "64", "--layers",
                             "3", "--rounds", "1", "--index-blocks", "0", "--keep", "filled")
        expect("bench cache --keep", code == 0, code, out, err)
        check_filled(os.path.join(directory, "copy"), filled)
    print("\n".join(failures))
    sys.exit(1 if failures else 0)


main()
