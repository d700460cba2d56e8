#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_cluster_guide.py FATHOM GUIDE: docs/cluster.md is followed word by word, as somebody would who reads it for the first
time: its shell blocks run as they stand, on hosts that are network namespaces (hosts.py), and what it says comes out has
to come out. ssh, scp, sbatch and srun are stand-ins that are called as the real ones are; sshd, where there is one, takes the
place of ssh's for the first section. Models of /models are the embedded one. What a section starts ends with it.
Without root there are no hosts, and nothing is run."""
import ctypes
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

from hosts import Hosts
from reader import BLOCK, Reader
from server import environment, fathom

NAMES = ["a", "b", "n1", "n2", "n3", "n4"]
CLONE_NEWNS = 0x20000

# As ssh does it: what is behind the host's name is for a shell there, at home.
SSH = """#!/bin/sh
while case $1 in -*) true ;; *) false ;; esac do [ "$1" = -o ] && shift; shift; done
host=$1; shift; cd "$HOME"
exec %(shell)s "$host" sh -c "$*"
"""
# All hosts have one disk: what is to be copied is there already.
SCP = """#!/bin/sh
[ "$1" = -r ] && shift
while [ $# -gt 1 ]; do [ -e "$1" ] || { echo "scp: $1 is not there" >&2; exit 1; }; shift; done
case $1 in %(hosts)s:"$PWD"/*) ;; *) echo "scp: not to $1" >&2; exit 1 ;; esac
"""
SRUN = """#!/bin/sh
[ "$*" = "${*#--unbuffered --overlap --cpu-bind=none -N1 -n1 -w }" ] && { echo "srun: $*" >&2; exit 2; }
shift 6
exec %(shell)s "$@"
"""
# The first node of those that the script asks for runs it.
SBATCH = """#!/bin/sh
set -- "$1" $(sed -n 's/^#SBATCH //p' "$1")
[ "$2 $4 $6" = "-N --ntasks-per-node --exclusive" ] || { echo "sbatch: $*" >&2; exit 2; }
export SLURM_JOB_NODELIST="n[1-$3]" SLURM_TASKS_PER_NODE="$5(x$3)"
echo Submitted batch job 1
exec %(shell)s n1 sh "$PWD/$1" > slurm-1.out 2>&1
"""


def own_mounts(folder):
    """Names of hosts are known in here, and to nobody else."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.unshare(CLONE_NEWNS) == 0, ctypes.get_errno()
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    with open(folder + "/etc-hosts", "w") as file:
        file.write("127.0.0.1 localhost\n")
        for i, name in enumerate(NAMES):
            file.write("10.89.0.%d %s\n" % (i + 1, name))
    subprocess.run(["mount", "--bind", folder + "/etc-hosts", "/etc/hosts"], check=True)


class ClusterReader(Reader):
    """Reads the guide in Fathom's folder."""

    def __init__(self, hosts, folder):
        super().__init__(folder, folder + "/fathom", dict(environment, PATH=folder + "/bin:" + os.environ["PATH"], HOME=folder))
        self.hosts = hosts
        build = os.path.dirname(os.path.realpath(fathom))
        os.makedirs(folder + "/fathom")
        os.makedirs(folder + "/bin")
        os.makedirs(folder + "/models")
        os.symlink(build, folder + "/fathom/build")
        models = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../models")
        os.symlink(models, folder + "/fathom/models")
        os.symlink(models + "/tiny-r1", folder + "/models/DeepSeek-V3")
        for name, text in {"ssh": SSH, "scp": SCP, "srun": SRUN, "sbatch": SBATCH}.items():
            with open("%s/bin/%s" % (folder, name), "w") as file:
                file.write(text % {"shell": hosts.shell, "hosts": "[%s]" % "".join(NAMES[:2])})
            os.chmod(file.name, 0o755)

    def words(self, text):
        return text.replace("/models/", self.folder + "/models/")

    def on(self, host, block):
        command = [*self.hosts.on(host), "sh", "-e", "-c", self.words(block)]
        if re.search(r"fathom (serve|gateway|unit) |^sbatch ", block, re.M):
            self.start(*command)
            self.said_files.append(self.place + "/slurm-1.out")
        else:
            self.run(*command)


def follow(reader, section):
    """All blocks of a section, in their order."""
    end = 0
    for block in BLOCK.finditer(section):
        before, end = section[end:block.start()], block.end()
        where = re.findall(r"[Oo]n `(\w+)`(?=[^\n`]*:\s*$)", before.rstrip() + "\n")
        text = re.sub("^" + block[1], "", block[3], flags=re.M)
        if block[2] == "sh":
            reader.on(where[-1] if where else "a", text)
        else:
            for line in text.splitlines():
                reader.expect(line)
        for answer in re.findall(r"\AThe first answers `(\w+)`", section[end:].lstrip()):
            assert answer in reader.answer, reader.answer
    reader.end()


def main():
    hosts = Hosts(0, NAMES, "eth1") if os.geteuid() == 0 else None
    if not hosts or not hosts.are_apart:
        print("no network namespaces can be made here (that needs root, ip and veth): the guide is not followed")
        sys.exit(77)
    folder = tempfile.mkdtemp(prefix="fathom_guide_")
    try:
        own_mounts(folder)
        reader = ClusterReader(hosts, folder)
        with open(sys.argv[2], encoding="utf-8") as file:
            sections = re.split(r"^(?=## )", file.read(), flags=re.M)
        followed = 0
        for section in sections:
            if not BLOCK.search(section):
                continue
            began = time.monotonic()
            follow(reader, section)
            followed += 1
            print("%s: %.1f s" % (section.split("\n")[0], time.monotonic() - began), flush=True)
        assert followed >= 5, followed
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
