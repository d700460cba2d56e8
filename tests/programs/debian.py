# SPDX-License-Identifier: Apache-2.0
"""A Debian of its own, in a folder, for tests that install there as root: of the release of this machine, the smallest system
with some packages more, from Debian's mirrors."""
import atexit
import glob
import os
import re
import shutil
import subprocess
import sys


def run(*command, **keywords):
    return subprocess.run(command, stdin=subprocess.DEVNULL, check=True, **keywords)


def own_mounts():
    """Starts the test again with mounts of its own, which end with it. Left out (77) without root."""
    if os.geteuid() != 0:
        print("a Debian of one's own takes root")
        sys.exit(77)
    if os.environ.get("FATHOM_OWN_MOUNTS") != "1":
        os.execvpe("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv],
                   {**os.environ, "FATHOM_OWN_MOUNTS": "1"})


def network_alone():
    """A network without others, for this process; returns what stands before a command that runs in it."""
    network = "fathom-debian-%d" % os.getpid()
    run("ip", "netns", "add", network)
    atexit.register(run, "ip", "netns", "del", network)
    inside = ["ip", "netns", "exec", network]
    run(*inside, "ip", "link", "set", "lo", "up")
    return inside


def make(root, *packages, lists=True):
    """Without `lists`, apt has no package lists, as on a machine that was just installed."""
    with open("/etc/os-release") as file:
        [suite] = re.findall("^VERSION_CODENAME=(.*)$", file.read(), re.MULTILINE)
    run("mmdebstrap", "--quiet", "--variant=minbase", "--include=" + ",".join(packages), suite, root,
        stdout=subprocess.DEVNULL)
    # Nothing of this machine's is mounted there: the folder is removed in the end.
    run("mount", "-t", "proc", "proc", root + "/proc")
    run("mount", "-t", "tmpfs", "tmpfs", root + "/dev")
    for name, number in {"null": "3", "zero": "5", "random": "8", "urandom": "9"}.items():
        run("mknod", "-m", "666", root + "/dev/" + name, "c", "1", number)
    os.mkdir(root + "/dev/shm")
    os.chmod(root + "/dev/shm", 0o1777)
    shutil.copy("/etc/resolv.conf", root + "/etc/resolv.conf")
    for path in glob.glob("/etc/apt/apt.conf.d/*proxy*"):
        shutil.copy(path, root + "/etc/apt/apt.conf.d")
    if lists:
        run("chroot", root, "apt-get", "update", "-q", stdout=subprocess.DEVNULL)


def unmount(root):
    for name in ("dev", "proc"):
        subprocess.run(["umount", "-l", os.path.join(root, name)], check=False)
