#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_serve_cache_ranks.py FATHOM: units of several ranks with a KV storage give the very answers of one process
without: while it fills, after a restart, out of host memory, with a rank killed, and with prompts and answers in
different units, all of them in one directory. What was loaded counts as hits, and every page is back."""
import os
import signal
import tempfile

import test_serve_cache as cache

PROMPTS = cache.PROMPTS
HITS = sum(map(cache.whole, PROMPTS))


def open_server(units, *options):
    server = cache.CachingServer(*options, "--kv-load", "always")
    while sum(unit["state"] == "serving" for unit in server.fleet()["units"]) < units:
        pass
    return server


def check_ranks(wanted, directory):
    options = ["--ranks", "2", "--kv-dir", directory, "--kv-disk", "64MiB"]
    server = open_server(1, *options)
    cache.expect(server, wanted, False, "while it fills")
    cache.expect(server, wanted, True, "from its pages")
    assert [rank["kv_storage"] for rank in server.fleet()["units"][0]["ranks"]] == ["on", "on"]
    assert server.metrics()['fathom_kv_storage_ranks{state="on"}'] == 2
    server.stop()
    server = open_server(1, *options)
    cache.expect(server, wanted, True, "after a restart")
    assert server.loaded("disk") == HITS
    pid = server.fleet()["units"][0]["ranks"][1]["pid"]
    os.kill(pid, signal.SIGKILL)
    server.wait_for("a rank died, its unit|a unit ended, it")
    cache.expect(server, wanted, True, "after a rank was killed")
    server.stop()


def check_apart(wanted, directory):
    options = ["--prefill-units", "1", "--prefill-ranks", "2", "--decode-units", "1", "--decode-ranks", "2",
               "--kv-dir", directory, "--kv-disk", "64MiB"]
    server = open_server(2, *options)
    cache.expect(server, wanted, True, "apart, out of another server's blocks")
    assert server.loaded("disk") >= HITS, server.metrics()  # again in the decode unit, if a busy machine's transfers are given up
    assert server.fleet()["handed_over_total"] == len(PROMPTS)
    assert server.metrics()['fathom_kv_storage_ranks{state="on"}'] == 4
    server.stop()


def check_memory(wanted):
    """So few pages that a long prompt's blocks leave them for the next one; each rank's memory is its own."""
    server = open_server(1, "--ranks", "2", "--kv-host", "16MiB", "--kv-memory", "6MiB")
    others = [[token + 1 for token in prompt] for prompt in PROMPTS[:2]]
    for _ in range(8):
        for prompt in others:
            server.ask(prompt)
        for prompt, text in zip(PROMPTS[:2], wanted):
            assert server.ask(prompt)[0] == text
        if server.loaded("host"):
            break
    assert server.loaded("host") and not server.loaded("disk")
    server.stop()


def main():
    server = cache.CachingServer()
    wanted = [server.ask(prompt)[0] for prompt in PROMPTS]
    server.stop()
    with tempfile.TemporaryDirectory() as directory:
        check_ranks(wanted, directory)
        check_apart(wanted, directory)
    check_memory(wanted)


main()
