#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_hostile.py FATHOM: clients who only hold what others need, half-sent bodies, idle connections and answers that they
do not take, stop nobody, with accounts and without; who is being answered is not cut off."""
import json
import os
import re
import resource
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

from server import PATIENCE, Server, fathom

MIB = 1 << 20
HALVES = 34  # of 8 MiB: more than the 256 MiB for all bodies
PLACES = 8192  # connections that a server has at most
FILES = 200
SLOW = ("--cpu-mask", "c", "--threads", "1")  # an answer lasts


def draw_key():
    return subprocess.run([fathom, "keygen", "--api-key"], check=True, capture_output=True, text=True).stdout.split()[:2]


class Guarded:
    """A server, and a key of it (None: it asks for none)."""

    def __init__(self, folder, has_accounts, *options, wrap=()):
        self.key = None
        if has_accounts:
            self.key, digest = draw_key()
            path = os.path.join(folder, "who.yaml")
            with open(path, "w", encoding="utf-8") as file:
                file.write("accounts:\n  - {name: acme, keys: [\"%s\"]}\n" % digest)
            options += ("--accounts", path)
        self.server = Server(*options, wrap=wrap)
        self.address = ("127.0.0.1", int(self.server.url.rsplit(":", 1)[1]))

    def open(self, prompt, tokens, **more):
        headers = {"Content-Type": "application/json", **({"Authorization": "Bearer " + self.key} if self.key else {})}
        body = {"prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, **more}
        request = urllib.request.Request(self.server.url + "/v1/completions", json.dumps(body).encode(), headers)
        return urllib.request.urlopen(request, timeout=PATIENCE)

    def ask(self, prompt, tokens):
        """Status and body."""
        try:
            with self.open(prompt, tokens) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as refusal:
            return refusal.code, refusal.read()

    def serves(self):
        status, answer = self.ask("a", 3)
        assert status == 200 and json.loads(answer)["usage"]["completion_tokens"] == 3, (status, answer)

    def connect(self):
        return socket.create_connection(self.address, PATIENCE)


def send_half(guarded, authorization):
    """All but the last bytes of a body of 8 MiB, as far as they are taken; and what is said to that."""
    connection = guarded.connect()
    connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                       b"%sContent-Length: %d\r\n\r\n" % (authorization, 8 * MIB))
    try:
        connection.sendall(b" " * (8 * MIB - 100))
    except OSError:
        pass  # refused, and waited for a while
    return connection


def receives(connection, pattern):
    connection.settimeout(PATIENCE)
    return re.match(pattern, connection.recv(4096)) is not None


def check_half_sent_bodies(folder, has_accounts):
    guarded = Guarded(folder, has_accounts)
    halves = [send_half(guarded, b"") for _ in range(HALVES)]
    guarded.serves()
    if has_accounts:  # nothing was kept of them
        assert all(receives(half, rb"HTTP/1.1 401 ") for half in halves)
        halves = [send_half(guarded, b"Authorization: Bearer %s\r\n" % guarded.key.encode()) for _ in range(HALVES)]
        guarded.serves()
    time.sleep(1.5)
    status, answer = guarded.ask("a " * MIB, 3)  # a large one finds room, too
    assert status == 400, (status, answer)
    for half in halves:
        half.close()
    guarded.server.stop()


def hold(guarded, count):
    """So many connections that say nothing; about every other one begins a request."""
    held = []
    for number in range(count):
        held.append(guarded.connect())
        if number % 2:
            held[-1].sendall(b"POST /v1/completions HTTP/1.1\r\nHo")
    return held


def check_idle_connections(folder, has_accounts, count, *options, wrap=()):
    guarded = Guarded(folder, has_accounts, *SLOW, *options, wrap=wrap)
    with guarded.open("once", 150, stream=True) as stream:
        assert stream.readline().startswith(b"data: {")
        held = hold(guarded, count)
        for _ in range(3):
            guarded.serves()
        assert stream.read().endswith(b"data: [DONE]\n\n")
    for connection in held:
        connection.close()
    guarded.server.stop()


def leave_untaken(guarded):
    """An answer of 400 kB, of which the kernel takes a part: each segment of 200 bytes costs it a page."""
    body = json.dumps({"tokens": [1] * 16000}).encode()
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 200)
    connection.settimeout(PATIENCE)
    connection.connect(guarded.address)
    authorization = b"Authorization: Bearer %s\r\n" % guarded.key.encode() if guarded.key else b""
    connection.sendall(b"POST /detokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                       b"%sContent-Length: %d\r\n\r\n" % (authorization, len(body)) + body)
    return connection


def check_untaken_answers(folder, has_accounts, count, *options, wrap=()):
    guarded = Guarded(folder, has_accounts, *options, wrap=wrap)
    held = [leave_untaken(guarded) for _ in range(count)]
    guarded.server.wait_for("the idlest connection makes way")
    guarded.serves()
    for connection in held:
        connection.close()
    guarded.server.stop()


def may_open(count):
    """As many files, also of a server started from here."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most < count:
        return False
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, most))
    return True


def main():
    few_files = ("sh", "-c", "ulimit -n %d; exec \"$@\"" % FILES, "sh")
    with tempfile.TemporaryDirectory() as folder:
        for has_accounts in (False, True):
            check_half_sent_bodies(folder, has_accounts)
            check_idle_connections(folder, has_accounts, FILES + 50, wrap=few_files)
            check_untaken_answers(folder, has_accounts, FILES // 2, wrap=few_files)
        if not may_open(PLACES + 1000):
            print("no %d files: places are not run out of" % (PLACES + 1000))
            return
        check_idle_connections(folder, False, PLACES + 100, "--connections-per-address", "0")
        check_idle_connections(folder, True, PLACES + 100)


main()
