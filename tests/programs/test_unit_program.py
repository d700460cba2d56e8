#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_unit_program.py FATHOM: a gateway and a unit as processes of their own, over tcp with keys: the answers of one
server; a unit that is stopped, and another one in its place; a gateway that is killed: its clients see a closed
connection, and the next one serves with the same unit. A unit with a wrong key, or another model, is not let in."""
import concurrent.futures
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.error

from server import PATIENCE, Process, environment, fathom, open_url

QUESTIONS = ["What is %d + %d?" % (41 * i, 77 + i) for i in range(6)]


def ask(url, question, **more):
    body = {"messages": [{"role": "user", "content": question}], "max_tokens": 90, "temperature": 0, **more}
    return open_url(url + "/v1/chat/completions", body)


def answer(url, question):
    with ask(url, question) as response:
        return json.load(response)["choices"][0]["message"]


def answers(url):
    with concurrent.futures.ThreadPoolExecutor(len(QUESTIONS)) as pool:
        return list(pool.map(lambda question: answer(url, question), QUESTIONS))


def wait_until_healthy(url):
    until = time.monotonic() + PATIENCE
    while True:
        try:
            with open_url(url + "/health") as response:
                if json.load(response)["status"] == "ok":
                    return
        except urllib.error.HTTPError as error:
            assert error.code == 503, error
        assert time.monotonic() < until
        time.sleep(0.02)


def make_keys(folder):
    for name in ("gateway", "unit", "stranger"):
        subprocess.run([fathom, "keygen", os.path.join(folder, name)], check=True, stdout=subprocess.DEVNULL,
                       env=environment)


MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../models/tiny-r1")


def check_model(folder, wanted):
    """Whoever connects first, a unit of another checkpoint than the gateway's own is refused; a gateway without weights
    takes the first one's."""
    other, texts = os.path.join(folder, "other"), os.path.join(folder, "texts")
    shutil.copytree(MODEL, other)
    shutil.copytree(MODEL, texts, ignore=shutil.ignore_patterns("*.safetensors"))
    with open(os.path.join(other, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    with open(os.path.join(other, "config.json"), "w", encoding="utf-8") as file:
        json.dump({**config, "rope_theta": 20000}, file)

    def start(command, model, *options):
        return Process(command, *options, "--model", model)

    for known in (True, False):
        address = "ipc://%s/wire-%d" % (folder, known)
        gateway = start("gateway", MODEL if known else texts, "--listen", address, "--port", "0")
        url = gateway.wait_for_url()
        assert ("has no weights here" in gateway.said()) != known
        wrong = start("unit", other, "--connect", address, "--kv-memory", "64MiB")
        if known:
            gateway.wait_for("is refused unit=1 .*another checkpoint than this gateway's --model")
            right = start("unit", MODEL, "--connect", address, "--kv-memory", "64MiB")
            wait_until_healthy(url)
            assert answers(url) == wanted
            right.stop()
        else:
            wait_until_healthy(url)
        wrong.stop()
        gateway.stop()


def main():
    alone = Process("serve", "--port", "0", "--kv-memory", "64MiB", "--mtp", "off")
    wanted = answers(alone.wait_for_url())
    alone.stop()
    with tempfile.TemporaryDirectory() as folder:
        check_model(folder, wanted)
        make_keys(folder)

        def path(name):
            return os.path.join(folder, name)

        def gateway(address):
            return Process("gateway", "--listen", address, "--port", "0", "--wire-key", path("gateway.secret"),
                           "--wire-allow", path("unit.public"))

        def unit(address, key="unit"):
            return Process("unit", "--connect", address, "--kv-memory", "64MiB", "--wire-key",
                           path(key + ".secret"), "--wire-gateway", path("gateway.public"))

        first = gateway("tcp://127.0.0.1:*")
        address = first.wait_for(r"units are listened to address=(\S+)").group(1)
        url = first.wait_for_url()
        stranger = unit(address, "stranger")
        stranger.wait_for("not let in")
        first.wait_for(r"wire  a peer was refused .*peer=127\.0\.0\.1 ")
        worker = unit(address)
        wait_until_healthy(url)
        assert answers(url) == wanted
        stranger.stop()

        worker.stop()  # another one takes its place
        worker = unit(address)
        wait_until_healthy(url)
        assert answers(url) == wanted

        stream = ask(url, QUESTIONS[0], stream=True, max_tokens=1500, ignore_eos=True)
        assert stream.readline().startswith(b"data: ")
        first.process.kill()
        try:
            rest = stream.read()
            assert not rest.endswith(b"data: [DONE]\n\n"), "a killed gateway cannot finish"
        except (ConnectionError, OSError, ValueError):
            pass
        except Exception as error:  # http.client.IncompleteRead: the connection was closed
            assert "IncompleteRead" in repr(error), error
        second = gateway(address)
        url = second.wait_for_url()
        wait_until_healthy(url)
        assert answers(url) == wanted
        assert worker.process.poll() is None
        worker.wait_for("gateway  is gone")
        second.stop()
        worker.stop()


main()
