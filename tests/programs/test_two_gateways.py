#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_two_gateways.py FATHOM: two gateways in front of the same unit, on one port: both answer what one server answers;
a gateway that is killed takes its own answers along, the other's go on, and the unit holds nothing of the dead one's;
the next gateway in its place finds what was computed in the unit's pages."""
import concurrent.futures
import json
import os
import tempfile
import threading

from server import PATIENCE, Process, open_url, wait_until

QUESTIONS = ["What is %d + %d?" % (31 * i, 7 + i) for i in range(24)]


def ask(url, question, **more):
    body = {"messages": [{"role": "user", "content": question}], "max_tokens": 60, "temperature": 0, **more}
    return open_url(url + "/v1/chat/completions", body)


def answer(url, question, **more):
    with ask(url, question, **more) as response:
        return json.load(response)


def text(url, question):
    return answer(url, question)["choices"][0]["message"]


def is_served(gateway):
    return any(unit["state"] == "serving" for unit in gateway.fleet()["units"])


def answered(gateway):
    return sum(value for name, value in gateway.metrics().items()
               if name.startswith('fathom_http_requests_total{endpoint="chat_completions",status="200"'))


def main():
    alone = Process("serve", "--port", "0", "--kv-memory", "64MiB", "--mtp", "off")
    url = alone.wait_for_url()
    wanted = [text(url, question) for question in QUESTIONS]
    alone.stop()
    with tempfile.TemporaryDirectory() as folder:
        addresses = ["ipc://" + os.path.join(folder, name) for name in ("a", "b")]

        def gateway(number, port):
            process = Process("gateway", "--listen", addresses[number], "--port", port, "--admin-port", "0",
                              "--share-port")
            process.wait_for_url()
            return process

        first = gateway(0, "0")
        url = first.url
        second = gateway(1, url.rsplit(":", 1)[1])
        assert second.url == url
        unit = Process("unit", "--connect", ",".join(addresses), "--kv-memory", "64MiB", "--mtp", "off")
        wait_until(lambda: is_served(first) and is_served(second))  # both know the unit

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            assert list(pool.map(lambda question: text(url, question), QUESTIONS)) == wanted
        shares = [answered(gateway) for gateway in (first, second)]
        assert sum(shares) == len(QUESTIONS) and min(shares) > 0, shares

        # Streams until either gateway has one; then one of the two dies.
        streams = []
        while not all(gateway.metrics()["fathom_requests_held"] for gateway in (first, second)):
            stream = ask(url, QUESTIONS[0], stream=True, max_tokens=1200, ignore_eos=True)
            assert stream.readline().startswith(b"data: ")
            streams.append(stream)
        whole = []

        def read(stream):
            try:
                whole.append(stream.read().endswith(b"data: [DONE]\n\n"))
            except Exception:  # its gateway is gone: reset, or cut off
                whole.append(False)

        readers = [threading.Thread(target=read, args=(stream,)) for stream in streams]
        for reader in readers:
            reader.start()
        first.kill()
        for reader in readers:
            reader.join(PATIENCE)
        assert True in whole and False in whole, whole
        unit.wait_for("gateway  is gone, requests are given up.* requests=[0-9]")
        wait_until(lambda: second.metrics()['fathom_kv_pages{state="held"}'] == 0)  # the unit holds nothing
        assert text(second.url, QUESTIONS[1]) == wanted[1]

        first = gateway(0, "0")  # on a port of its own: the next in the dead one's place
        wait_until(lambda: is_served(first))  # the unit comes back
        found = answer(first.url, QUESTIONS[0] + " " + "And what is 2 + 2? " * 20)
        again = answer(second.url, QUESTIONS[0] + " " + "And what is 2 + 2? " * 20)
        assert found["choices"][0]["message"] == again["choices"][0]["message"]
        assert again["usage"]["prompt_cache_hit_tokens"] >= 64, again["usage"]
        for process in (unit, first, second):
            process.stop()


main()
