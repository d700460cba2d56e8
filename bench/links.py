#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""links.py FATHOM [--device D] [--model DIR]: two ranks that are configured as if on different hosts, with a device each,
on this machine. Their rows go over links (NCCL on GPUs, which goes by the hosts' names and so by sockets), and by the
host: each way gives the logits and the answer of one device alone, to the last digit. Prints how long each took, start
and end included. Code 77: names of hosts cannot be given here."""
import argparse
import json
import os
import socket
import subprocess
import sys
import time

TOKENS = ",".join(str(5 + 7 * i % 900) for i in range(150))
WAYS = (("over links", []), ("by the host", ["--experiment", "device-rows=host"]))


def named(host):
    """The prefix of a command on a host of that name."""
    return ["unshare", *(["--map-root-user"] if os.geteuid() else []), "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', host]


def free_port():
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return place.getsockname()[1]


def start(rank, command):
    environment = dict(os.environ, OMPI_COMM_WORLD_RANK=str(rank), OMPI_COMM_WORLD_SIZE="2", OMPI_COMM_WORLD_LOCAL_SIZE="1",
                       OMPI_COMM_WORLD_LOCAL_RANK=str(rank), NCCL_DEBUG="VERSION")
    return subprocess.Popen([*named("host%d" % rank), *command], stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL if rank else subprocess.PIPE, text=True, env=environment)


def what_is_computed(text):
    found = json.loads(text[text.index("{"):])  # NCCL speaks before
    return {name: value for name, value in found.items() if name not in ("ranks", "times")}


def on_two(command, options):
    """The output of rank 0, and the time that it took."""
    began = time.monotonic()
    command = [*command, "--ranks", "2", "--rank-meeting", "127.0.0.1:%d" % free_port(), *options]
    ranks = [start(rank, command) for rank in range(2)]
    said = ranks[0].communicate()[0]
    codes = [rank.wait() for rank in ranks]
    if any(codes):
        sys.exit("links.py: the ranks ended with %s" % codes)
    return what_is_computed(said), time.monotonic() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("fathom")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--model")
    arguments = parser.parse_args()
    if subprocess.run([*named("host0"), "true"], check=False, stderr=subprocess.DEVNULL).returncode:
        print("names of hosts cannot be given here (unshare --uts)")
        sys.exit(77)
    common = ["--device", arguments.device, "--tokens", TOKENS, "--json", *(["--model", arguments.model] if arguments.model else [])]
    for subject, more in (("logits", ["--last", "3", "--top", "100", "--routing"]),
                          ("generate", ["--max-new", "24", "--greedy", "--ignore-eos"])):
        command = [arguments.fathom, subject, *common, *more]
        alone = what_is_computed(subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True).stdout)
        for name, options in WAYS:
            found, took_s = on_two(command, options)
            if found != alone:
                sys.exit("links.py: %s of two ranks, rows %s, are not those of one" % (subject, name))
            print("%s, rows %s: as of one device; %.1f s" % (subject, name, took_s), flush=True)


main()
