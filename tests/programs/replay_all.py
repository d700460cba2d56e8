#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""replay_all.py FATHOM DIR: replays the recordings of a fleet, of which each process had a folder of its own in DIR
(storm.py), and prints how each ended, then one line: recordings, records, differences. Exit code 1 if one differs."""
import collections
import os
import re
import subprocess
import sys

from command import fathom

SAME = re.compile(r"(\S+): (\d+) records put out as recorded, (\d+) given, in (\d+) calls; (.*)\n")


def replay(folder):
    """Records given, records put out, and how the recording ended; None: it differs, and a line says where."""
    done = subprocess.run([fathom, "replay", folder], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False)
    found = SAME.fullmatch(done.stdout)
    if done.returncode or not found:
        print("%s: %s%s" % (os.path.basename(folder), done.stdout, done.stderr), end="", flush=True)
        return None
    return int(found.group(3)), int(found.group(2)), found.group(5)


def replay_all(directory):
    """The count of differences."""
    folders = [os.path.join(directory, name) for name in sorted(os.listdir(directory))]
    size = sum(os.path.getsize(os.path.join(folder, name)) for folder in folders for name in os.listdir(folder))
    found = [replay(folder) for folder in folders]
    same = [one for one in found if one]
    for end, count in collections.Counter(one[2] for one in same).items():
        print("%d: %s" % (count, end))
    print("%d recordings of %.1f MB: %d records given, %d put out as recorded, %d recordings differ" % (
        len(found), size / 1e6, sum(one[0] for one in same), sum(one[1] for one in same), len(found) - len(same)),
        flush=True)
    return len(found) - len(same)


if __name__ == "__main__":
    sys.exit(replay_all(sys.argv[2]) > 0)
