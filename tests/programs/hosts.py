# SPDX-License-Identifier: Apache-2.0
"""Hosts for the tests: network namespaces on a switch of their own, each with an interface of one name, and a stand-in for
ssh that runs a program in one of them under the host's name; as with ssh, who kills it leaves the program alone. Cables
can be pulled, made slow, and made bad by a relay. Without root, or where the kernel has none, hosts are
names alone: their programs run here, and no cable can be touched."""
import atexit
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile

SHELL = """#!/bin/sh
host=$1
shift
if [ -e "%(folder)s/down-$host" ]; then exit 255; fi
%(enter)s
"""
ENTER = """ip netns exec "%(prefix)s-$host" unshare -u setsid sh -c 'hostname "$0"; exec "$@"' "$host" "$@" """
CLONE_NEWNET = 0x40000000
STAY = 'setsid "$@"'


def ip(*arguments, check=True):
    return subprocess.run(["ip", *arguments], check=check, stderr=None if check else subprocess.DEVNULL).returncode == 0


class Hosts:
    def __init__(self, count, names=None, interface="net0"):
        self.names = names or ["h%d" % i for i in range(count)]
        self.interface = interface
        self.prefix = "fathom-%d" % os.getpid()
        self.folder = tempfile.mkdtemp(prefix="fathom_hosts_")
        self.relays = {}
        atexit.register(self.remove)
        self.are_apart = self.lay_cables()
        self.shell = os.path.join(self.folder, "shell")
        with open(self.shell, "w") as file:
            file.write(SHELL % {"folder": self.folder, "enter": ENTER % {"prefix": self.prefix} if self.are_apart else STAY})
        os.chmod(self.shell, 0o755)

    def space(self, name):
        return "%s-%s" % (self.prefix, name)

    def lay_cables(self):
        """False: it may not be done here."""
        if os.geteuid() or not shutil.which("ip") or not shutil.which("unshare"):
            return False
        if not ip("netns", "add", self.space("switch"), check=False):
            return False
        if not ip("-n", self.space("switch"), "link", "add", "bridge", "type", "bridge", check=False):
            ip("netns", "delete", self.space("switch"), check=False)
            return False
        ip("-n", self.space("switch"), "link", "set", "bridge", "up")
        for i, name in enumerate(self.names):
            ip("netns", "add", self.space(name))
            ip("-n", self.space(name), "link", "set", "lo", "up")
            ip("link", "add", self.interface, "netns", self.space(name), "type", "veth", "peer", "name", name, "netns",
               self.space("switch"))
            ip("-n", self.space("switch"), "link", "set", "dev", name, "master", "bridge", "up")
            ip("-n", self.space(name), "address", "add", "10.89.0.%d/24" % (i + 1), "dev", self.interface)
            ip("-n", self.space(name), "link", "set", self.interface, "up")
        return True

    def remove(self):
        for relay in self.relays.values():
            relay.kill()
            relay.wait()
        if self.are_apart:
            for name in self.names:
                self.kill_all(name)
            for name in ["switch", *self.names]:
                ip("netns", "delete", self.space(name), check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def options(self, slots):
        """So many ranks on each host."""
        return ["--hosts", ",".join("%s:%d" % (name, slots) for name in self.names), "--remote-shell", self.shell,
                *(["--interface", self.interface] if self.are_apart else [])]

    def on(self, name):
        """What stands before a command that runs there."""
        if not self.are_apart:
            return []
        return ["ip", "netns", "exec", self.space(name), "unshare", "-u", "sh", "-c", 'hostname "$0"; exec "$@"', name]

    def enter(self, name):
        """This process speaks from there from now on."""
        if not self.are_apart:
            return
        with open("/run/netns/" + self.space(name)) as space:
            assert ctypes.CDLL(None, use_errno=True).setns(space.fileno(), CLONE_NEWNET) == 0, ctypes.get_errno()

    def pull(self, name):
        ip("-n", self.space("switch"), "link", "set", "dev", name, "down")

    def plug(self, name):
        ip("-n", self.space("switch"), "link", "set", "dev", name, "up")

    def address(self, name):
        return "10.89.0.%d" % (self.names.index(name) + 1)

    def lay_relay(self, name):
        """Between a host's cable and the switch: a relay of which `spoil` asks."""
        near, far, switch = name, "r-" + name, self.space("switch")
        ip("-n", switch, "link", "set", near, "nomaster")
        ip("-n", switch, "link", "add", far, "type", "veth", "peer", "name", "s-" + name)
        ip("-n", switch, "link", "set", "s-" + name, "master", "bridge", "up")
        ip("-n", switch, "link", "set", far, "up")
        # frames as they are on a cable, so that it is they that are lost
        ip("-n", self.space(name), "link", "set", self.interface, "gso_max_segs", "1")
        ip("-n", switch, "link", "set", "s-" + name, "gso_max_segs", "1")
        self.relays[name] = subprocess.Popen(
            ["ip", "netns", "exec", switch, sys.executable, os.path.join(os.path.dirname(__file__), "relay.py"), near, far],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.relays[name].stdout.readline() == "ok\n"

    def spoil(self, name, what, value):
        """As relay.py says."""
        relay = self.relays[name]
        relay.stdin.write("%s %s\n" % (what, value))
        relay.stdin.flush()
        assert relay.stdout.readline() == "ok\n", (name, what)

    def ban(self, name, other, on=True):
        """What a host sends to another is lost."""
        ip("-n", self.space(name), "route", "add" if on else "delete", "blackhole", self.address(other) + "/32")

    def slow(self, name, rate):
        """Bytes go to the host, and from it, at that rate, such as 10mbit; None: as fast as they can."""
        for space, device in ((self.space("switch"), name), (self.space(name), self.interface)):
            if rate:
                subprocess.run(["tc", "-n", space, "qdisc", "replace", "dev", device, "root", "tbf", "rate", rate,
                                "burst", "64k", "latency", "200ms"], check=True)
            else:
                subprocess.run(["tc", "-n", space, "qdisc", "delete", "dev", device, "root"], check=True)

    def pids(self, name):
        found = subprocess.run(["ip", "netns", "pids", self.space(name)], check=False, capture_output=True, text=True)
        return [int(pid) for pid in found.stdout.split() if int(pid) != os.getpid()]

    def kill_all(self, name):
        for pid in self.pids(name):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def take_down(self, name):
        """Nothing runs there any more, and nobody comes in."""
        with open(os.path.join(self.folder, "down-" + name), "w"):
            pass
        self.kill_all(name)

    def bring_up(self, name):
        os.unlink(os.path.join(self.folder, "down-" + name))


def agent_of(rank_pid):
    """The process that launched a rank."""
    with open("/proc/%d/stat" % rank_pid, encoding="utf-8") as file:
        return int(file.read().rsplit(")", 1)[1].split()[1])
