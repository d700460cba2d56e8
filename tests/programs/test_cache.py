#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_cache.py FATHOM: a KV storage seen from outside. `bench cache` fills one and leaves nothing behind; `cache
stat`, `verify` and `gc` say what lies in a directory, find a flipped bit in it and make it smaller."""
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


def check_bench(directory, io):
    code, out, err = run("bench", "cache", "--dir", directory, "--size", "2MiB", "--width", "64", "--layers", "3",
                         "--rounds", "1", "--io", io, "--index-blocks", "70000", "--json")
    if code == 1 and "no io_uring" in err:
        return
    expect("bench cache %s" % io, code == 0 and not err, code, out, err)
    report = json.loads(out)
    expect("its rates", report["write_mb_s"] > 0 and report["read_mb_s"] > 0 and report["io"] == io, report)
    expect("its index", report["index_blocks"] == 70000 and report["index_s_per_million"] > 0, report)
    expect("what it leaves", os.listdir(directory) == [], os.listdir(directory))


FIO = """#!/bin/sh
[ "$1" = --version ] && echo fio-3.33 && exit
for option; do case $option in --filename=*) echo >"${option#*=}";; esac; done
%s
"""


def bench_beside(fio, directory, *options):
    """bench cache where this shell line is fio; None: where there is none."""
    with tempfile.TemporaryDirectory() as programs:
        if fio:
            path = os.path.join(programs, "fio")
            with open(path, "w", encoding="ascii") as file:
                file.write(FIO % fio)
            os.chmod(path, 0o755)
        return run("bench", "cache", "--dir", directory, "--size", "2MiB", "--width", "64", "--layers", "3", "--rounds",
                   "1", "--index-blocks", "0", *options, path=programs)


def check_fio(directory):
    """What was not measured is no number."""
    code, out, err = bench_beside(None, directory)
    expect("bench cache without fio", code == 0 and "fio is not installed" in out and "fio MB/s" not in out and
           "of fio" not in out, code, out, err)
    code, out, err = bench_beside(None, directory, "--json")
    report = json.loads(out) if code == 0 else {}
    expect("its JSON", report and report["fio_write_mb_s"] is None and report["fio_read_mb_s"] is None and
           report["index_s_per_million"] is None and report["write_mb_s"] > 0, code, out, err)
    fields = ["0"] * 60  # KiB/s: 2,000 read, 1,000 written
    fields[6], fields[47] = "2000", "1000"
    code, out, err = bench_beside("echo '%s'" % ";".join(fields), directory, "--json")
    report = json.loads(out) if code == 0 else {}
    expect("bench cache beside fio", report and report["fio_write_mb_s"] == 1.0 and report["fio_read_mb_s"] == 2.0,
           code, out, err)
    code, out, err = bench_beside("echo '%s'" % ";".join(fields), directory)
    expect("its table", code == 0 and "fio MB/s" in out and out.count("%") == 2, code, out, err)
    code, out, err = bench_beside("echo nothing", directory)
    expect("fio that names no rate", code == 1 and "fio names no rate" in err and not out, code, out, err)
    expect("what they leave", os.listdir(directory) == [], os.listdir(directory))


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


def check_ttft(directory):
    """Every case is asked, and finds what it should (the program checks that); nothing is left."""
    code, out, err = run("bench", "ttft", "--dir", directory, "--prompt", "200", "--rounds", "1", "--json")
    expect("bench ttft", code == 0, code, out, err)
    report = json.loads(out) if code == 0 else {}
    for side in "computed", "disk", "host", "auto", "slow_first", "slow_in_step", "slow_auto":
        expect("bench ttft, " + side, report.get(side + "_ms", 0) > 0, report)
    left = [name for name in os.listdir(directory) if "ttft" in name]
    expect("what bench ttft leaves", left == [], left)


def main():
    with tempfile.TemporaryDirectory() as directory:
        check_bench(directory, "threads")
        check_bench(directory, "io_uring")
        check_fio(directory)
        check_ttft(directory)
        check_nothing(directory)
        filled = os.path.join(directory, "filled")
        code, out, err = run("bench", "cache", "--dir", directory, "--size", "16MiB", "--width", "64", "--layers",
                             "3", "--rounds", "1", "--index-blocks", "0", "--keep", "filled")
        expect("bench cache --keep", code == 0, code, out, err)
        check_filled(os.path.join(directory, "copy"), filled)
    print("\n".join(failures))
    sys.exit(1 if failures else 0)


main()
