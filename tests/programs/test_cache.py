#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_cache.py FATHOM: a KV storage seen from outside: `cache stat`, `verify` and `gc` say what lies in a directory, find
a flipped bit in it and make it smaller; where others may write they do nothing, and say the cure."""
import json
import os
import shutil
import struct
import tempfile

from command import attempt, expect, finish


def run(*arguments, **more):
    done = attempt(*arguments, **more)
    return done.returncode, done.stdout, done.stderr


def check_nothing(directory):
    code, out, err = run("cache", "stat", directory)
    expect((code, out, err) == (0, "no blocks\n", ""), "stat of nothing", code, out, err)
    code, out, err = run("cache", "stat", directory + "/none")
    expect(code == 1 and "cannot open this directory" in err, "stat of no directory", code, out, err)
    code, out, err = run("cache", "gc", directory)
    expect(code == 2 and "--size" in err, "gc without a size", code, out, err)
    code, out, err = run("cache", "frob", directory)
    expect(code == 2 and "no subject named 'frob'" in err, "no such subject", code, out, err)


def check_shared(directory):
    """A server does not use such a directory, and nobody should think that it does."""
    os.mkdir(directory)
    os.chmod(directory, 0o777)
    for subject in (["stat"], ["stat", "--json"], ["verify"], ["gc", "--size", "1"]):
        code, out, err = run("cache", subject[0], directory, *subject[1:])
        expect(code == 1 and not out and err.count("\n") == 1 and directory in err and "mode 777" in err and
               "chmod go-w" in err, "a directory where others may write", subject, code, out, err)
    os.chmod(directory, 0o755)
    code, out, err = run("cache", "stat", directory, "--json")
    expect(code == 0 and json.loads(out)["blocks"] == 0 and not err, "stat of nothing, in JSON", code, out, err)


def data_files(directory):
    return sorted(os.path.join(folder, name) for folder, _, names in os.walk(directory) for name in names
                  if name.endswith(".kv"))


def check_filled(directory, source):
    shutil.copytree(source, directory)
    code, out, _ = run("cache", "stat", directory, "--json")
    report = json.loads(out)
    expect(code == 0 and report["blocks"] == 585 and len(report["folders"]) == 1, "stat", code, report)
    code, out, err = run("cache", "verify", directory, "--json")
    report = json.loads(out)
    expect(code == 0 and report["damaged"] == 0 and report["folders"][0]["sound"] == 585, "verify", report, err)
    slot = report["folders"][0]["block_bytes"]
    with open(data_files(directory)[0], "r+b") as file:
        for at in (4096 + 20, 4096 + slot + 4096 + 33):  # a header, a row
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(struct.pack("B", byte ^ 8))
    code, out, err = run("cache", "verify", directory)
    expect(code == 1 and "583 sound, 2 damaged" in out and err.count("\n") == 2 and
           "slot 0: damaged header" in err and "slot 1: slice 0 is damaged" in err, "verify of damage", code, out, err)
    code, out, err = run("cache", "gc", directory, "--size", "1GiB", "--json")
    report = json.loads(out)
    expect(code == 0 and report["removed_segments"] == 0 and report["bytes"] > 0, "gc with room", report, err)
    code, out, err = run("cache", "gc", directory, "--size", "1MiB", "--json")
    report = json.loads(out)
    expect(code == 0 and report == {"removed_segments": 1, "bytes": 0}, "gc", report, err)
    expect(data_files(directory) == [], "what gc leaves", data_files(directory))


def main():
    with tempfile.TemporaryDirectory() as directory:
        check_nothing(directory)
        check_shared(os.path.join(directory, "shared"))
        filled = os.path.join(directory, "filled")
        code, out, err = run("bench", "cache", "--dir", directory, "--size", "16MiB", "--width", "64", "--layers",
                             "3", "--rounds", "1", "--index-blocks", "0", "--keep", "filled")
        expect(code == 0, "bench cache --keep", code, out, err)
        check_filled(os.path.join(directory, "copy"), filled)
    finish()


main()
