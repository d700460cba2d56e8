#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_guide_debian.py FATHOM ROOT: docs/quickstart.md on a laptop that was just installed: Debian's smallest system with git,
without package lists. `./dev` installs, compiles and serves there; the first answers are those of the guide. FATHOM is not
used, as the program is built there. Needs root and Debian's mirrors; left out (77) without root."""
import os
import re
import sys
import tempfile

import debian
from reader import BLOCK, Reader
from server import environment

root = sys.argv[2]


def main():
    debian.own_mounts()
    inside = debian.network_alone()
    with open(root + "/docs/quickstart.md", encoding="utf-8") as file:
        [text] = re.findall(r"^## On a laptop$(.*?)^\*\*A model of your own", file.read(), re.M | re.S)
    with tempfile.TemporaryDirectory(prefix="fathom_debian_") as folder:
        laptop = folder + "/laptop"
        reader = Reader(folder, "/", {**environment, "HOME": "/root", "DEBIAN_FRONTEND": "noninteractive"})
        there = ["chroot", laptop, "sh", "-ec"]
        try:
            debian.make(laptop, "git", "ca-certificates", lists=False)
            debian.run("git", "clone", "-q", "file://" + root, laptop + "/root/fathom")
            # Debian's mirrors are in this machine's network; the guide's server is in its own.
            debian.run(*there, "cd /root/fathom; ./dev build; apt-get install -y -q curl", env=reader.environment)
            for _, language, block in BLOCK.findall(text):
                if language != "sh":
                    for line in block.splitlines():
                        reader.expect(line)
                elif block.startswith("./dev serve"):
                    reader.start(*inside, *there, "cd /root/fathom; exec " + block)
                    reader.expect("listening on")
                else:
                    reader.run(*inside, *there, "cd /root/fathom; " + block)
        finally:
            reader.end()
            debian.unmount(laptop)
    print("ok")


if __name__ == "__main__":
    main()
