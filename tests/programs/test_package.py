#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_package.py FATHOM PACKAGE operations.md: PACKAGE is a .deb, or a build directory to make one of. A Debian of its own, in a folder, in which the guide's chapters are
followed word by word: each line of their shell blocks is run there, as root, in a network of its own. systemd is not the
first process there: `systemctl` starts, stops and waits for what the unit files of the package say, as their user, with
their credentials; their sandboxes are not tried (test_service.py has systemd read them). Needs root and Debian's mirrors;
left out (77) without root."""
import atexit
import glob
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

import debian
from server import PATIENCE

deb, guide = sys.argv[2:4]
CHAPTERS = ["One machine", "Several machines", "Upgrade", "Backup and restore"]
inside = []  # what stands before a command that runs in the services' network


def run(*command, **keywords):
    return subprocess.run(command, stdin=subprocess.DEVNULL, check=True, **keywords)


class Services:
    """What systemctl is asked for, done by the unit files that are installed below `root`."""

    def __init__(self, root):
        self.root = root
        self.running = {}
        atexit.register(self.end)

    def setting(self, name, key):
        path = os.path.join(self.root, "lib/systemd/system", re.sub("@.*", "@", name) + ".service")
        with open(path) as file:
            text = file.read().replace("%i", name.partition("@")[2])
        return re.findall("^%s=(.*)$" % key, text, re.MULTILINE)

    def credentials(self, name):
        """A folder that the service's user alone may read."""
        folder = "/run/credentials-" + name
        shutil.rmtree(self.root + folder, ignore_errors=True)
        os.makedirs(self.root + folder)
        for entry in self.setting(name, "LoadCredential"):
            target, source = entry.split(":")
            shutil.copy(self.root + source, self.root + folder + "/" + target)
        run("chroot", self.root, "chown", "-R", "fathom:", folder)
        run("chroot", self.root, "chmod", "-R", "u=rX,go=", folder)
        return folder

    def start(self, name):
        assert name not in self.running, name
        [line] = self.setting(name, "ExecStart")
        assert self.setting(name, "Type") == ["notify"] and self.setting(name, "User") == ["fathom"]
        folder = self.credentials(name)
        told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        told.settimeout(1)
        path = "/run/notify-%s" % name
        if os.path.exists(self.root + path):
            os.unlink(self.root + path)
        told.bind(self.root + path)
        os.chmod(self.root + path, 0o777)
        words = shlex.split(line.replace("${CREDENTIALS_DIRECTORY}", folder))
        log = open(os.path.join(self.root, "var/log", name), "a+")
        self.running[name] = subprocess.Popen(
            [*inside, "chroot", "--userspec=fathom:fathom", self.root, *words], stdin=subprocess.DEVNULL, stdout=log,
            stderr=log, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "NOTIFY_SOCKET": path, "CREDENTIALS_DIRECTORY": folder})
        heard = b""
        while not heard:
            try:
                heard = told.recv(64)
            except socket.timeout:
                log.seek(0)
                assert self.running[name].poll() is None, name + " has ended: " + log.read()
        assert heard == b"READY=1", heard
        told.close()

    def stop(self, name):
        process = self.running.pop(name)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0, name

    def systemctl(self, words):
        verb, names = words[0], [word for word in words[1:] if not word.startswith("-")]
        for name in names:
            if verb in ("stop", "restart") and name in self.running:
                self.stop(name)
            if verb in ("start", "restart") or (verb == "enable" and "--now" in words):
                self.start(name)
            assert verb in ("start", "stop", "restart", "enable"), words

    def end(self):
        for process in self.running.values():
            process.kill()


def blocks(chapter):
    """The shell blocks of a chapter; others, in plain fences, are for machines that are not here."""
    with open(guide) as file:
        text = file.read()
    [body] = re.findall(r"^## %s\n(.*?)^## " % chapter, text, re.MULTILINE | re.DOTALL)
    found = re.findall(r"^```sh\n(.*?)^```", body, re.MULTILINE | re.DOTALL)
    assert found, chapter
    return found


def commands(block):
    """Lines, those of a quoted body together."""
    line = ""
    for part in block.splitlines():
        line += ("\n" if line else "") + part
        try:
            shlex.split(line)
        except ValueError:
            continue
        yield line
        line = ""
    assert not line, line


def make_server(root):
    debian.make(root, "curl", "ca-certificates", "procps")
    if deb.endswith(".deb"):
        shutil.copy(deb, root + "/root")
    else:
        maker = os.path.join(os.path.dirname(guide), "../deploy/deb.sh")
        run(maker, deb, root + "/root", stdout=subprocess.DEVNULL)


def follow(root, services, chapter):
    said = ""
    for block in blocks(chapter):
        for line in commands(block):
            print("# " + line, flush=True)
            if line.startswith("systemctl "):
                services.systemctl(shlex.split(line, comments=True)[1:])
                continue
            where = [] if "apt-get " in line else inside
            done = subprocess.run([*where, "chroot", root, "bash", "-euc", "cd /root; " + line], text=True,
                                  stdin=subprocess.DEVNULL, capture_output=True,
                                  env={**os.environ, "DEBIAN_FRONTEND": "noninteractive", "HOME": "/root"})
            said += done.stdout
            assert done.returncode == 0, (line, done.stdout[-2000:], done.stderr[-2000:])
    return said


def check_links(folder):
    """Each link of an installed guide leads to an installed file."""
    for path in glob.glob(folder + "/**/*.md", recursive=True):
        with open(path) as file:
            links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", file.read())
        lost = [link for link in links if "://" not in link and
                not os.path.exists(os.path.join(os.path.dirname(path), link))]
        assert not lost, "%s has links that lead nowhere: %s" % (path, lost)


def main():
    debian.own_mounts()
    inside.extend(debian.network_alone())
    with tempfile.TemporaryDirectory() as folder:
        root = folder + "/root"
        try:
            make_server(root)
            check_links(root + "/usr/share/doc/fathom")
            services = Services(root)
            for chapter in CHAPTERS:
                for name in list(services.running):  # each chapter is about machines of its own
                    if chapter in ("Several machines", "Backup and restore"):
                        services.stop(name)
                if chapter == "Backup and restore":
                    services.start("fathom-serve")
                said = follow(root, services, chapter)
                if chapter == "One machine":
                    assert "5643" in said, said
                    run("chroot", root, "dpkg", "--verify", "fathom")
                if chapter == "Several machines":
                    assert '"state":"serving"' in run(*inside, "chroot", root, "curl", "-s",
                                                      "http://127.0.0.1:8001/debug/fleet", text=True,
                                                      capture_output=True).stdout
                if chapter == "Upgrade":
                    assert list(services.running) == ["fathom-gateway", "fathom-unit@two"], services.running
                if chapter == "Backup and restore":
                    assert said.count("; 0 breaches") == 2 and "1 entries" in said, said
            for name in list(services.running):
                services.stop(name)
            run("chroot", root, "apt-get", "remove", "-y", "-q", "fathom", stdout=subprocess.DEVNULL)
            assert os.path.exists(root + "/var/lib/fathom/fathom.db"), "accounts must outlive the package"
        finally:
            debian.unmount(root)
    print("ok")


main()
