#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_serve_cache.py FATHOM: a server with a KV storage gives the very answers of one without: while it fills, out of
host memory, after a restart, out of another server's blocks, with damage in its files, for answers that lost their
pages, on a full disk, and without a directory that it may use. What was loaded counts as hits, and every page is back at the end."""
import concurrent.futures
import glob
import json
import os
import random
import subprocess
import tempfile
import time

from server import Server

BLOCK = 64
rolls = random.Random(11)
PROMPTS = [[rolls.randrange(300, 1500) for _ in range(count)] for count in (1500, 700, 130, 65)]


class CachingServer(Server):
    kv_memory = "16MiB"

    def ask(self, prompt, **more):
        """Text with the probability of each token, and how many of the prompt's tokens were not computed."""
        with self.open("/v1/completions", {"prompt": prompt, "max_tokens": 20, "temperature": 0, "logprobs": 0,
                                           **more}) as answer:
            found = json.load(answer)
        usage = found["usage"]
        hit = usage["prompt_cache_hit_tokens"]
        assert hit + usage["prompt_cache_miss_tokens"] == len(prompt), usage
        choice = found["choices"][0]
        return (choice["text"], choice["logprobs"]["token_logprobs"]), hit

    def loaded(self, tier):
        return self.metrics()['fathom_kv_loaded_tokens_total{tier="%s"}' % tier]

    def stop(self):
        self.no_page_is_held(600)
        super().stop()


def whole(prompt):
    """Tokens of the blocks before the last token."""
    return (len(prompt) - 1) // BLOCK * BLOCK


def expect(server, wanted, hits, what):
    for prompt, text in zip(PROMPTS, wanted):
        found, hit = server.ask(prompt)
        assert found == text, (what, found, text)
        assert hit == (whole(prompt) if hits else 0), (what, hit, len(prompt))


def flip_bits(directory, count):
    files = glob.glob(directory + "/*/*.kv")
    assert files
    for path in files:
        with open(path, "r+b") as file:
            size = os.path.getsize(path)
            for _ in range(count):
                at = rolls.randrange(4096, size)
                file.seek(at)
                byte = file.read(1)[0]
                file.seek(at)
                file.write(bytes([byte ^ 1 << rolls.randrange(8)]))


def check_interrupted():
    """More answers than there are pages for: those that lose theirs load what they had, of their answers, too."""
    chance = random.Random(5)
    prompts = [[chance.randrange(300, 1500) for _ in range(130)] for _ in range(7)]

    def ask_all(server):
        def ask(prompt):
            with server.open("/v1/completions", {"prompt": prompt, "max_tokens": 300, "temperature": 0, "logprobs": 0,
                                                 "ignore_eos": True, "return_receipt": True}) as answer:
                choice = json.load(answer)["choices"][0]
            return (choice["text"], choice["logprobs"]["token_logprobs"]), json.loads(answer.headers["X-Fathom-Receipt"])

        with concurrent.futures.ThreadPoolExecutor(len(prompts)) as pool:
            return list(pool.map(ask, prompts))

    alone = CachingServer()
    wanted = [text for text, _ in ask_all(alone)]
    alone.stop()
    with tempfile.TemporaryDirectory() as directory:
        server = CachingServer("--kv-dir", directory, "--kv-load", "always", "--kv-memory", "3MiB")
        until = time.monotonic() + 600
        while True:
            found = ask_all(server)
            assert [text for text, _ in found] == wanted
            if sum(receipt["reloaded"] for _, receipt in found if receipt["restarts"]["preemptions"]):
                break
            assert time.monotonic() < until
        server.stop()


def check_full_disk(wanted):
    """A file system of 2 MiB, seen by the server alone; only root can make one."""
    with tempfile.TemporaryDirectory() as directory:
        mount = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=2m tmpfs "$0" && exec "$@"', directory]
        if os.geteuid() or subprocess.run([*mount, "true"], stderr=subprocess.DEVNULL).returncode:
            print("no file system of our own can be mounted here: the full disk is left out")
            return
        server = CachingServer("--kv-dir", directory, "--kv-disk", "16MiB", "--kv-load", "always", wrap=mount)
        for prompt, text in zip(PROMPTS, wanted):
            assert server.ask(prompt)[0] == text
        until = time.monotonic() + 600
        while server.metrics()["fathom_kv_storage_writable"]:
            server.ask([rolls.randrange(300, 1500) for _ in range(200)])
            assert time.monotonic() < until
        for prompt, text in zip(PROMPTS, wanted):
            assert server.ask(prompt)[0] == text
        server.stop()
        lines = [line for line in server.said().splitlines() if "nothing is written for now" in line]
        assert lines and all("No space left on device" in line for line in lines), lines


def check_shared_directory(wanted):
    """Where others may write nothing is kept, and the log does not say that a storage is open there."""
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o777)
        for options, line in (([], "keeps nothing"), (["--kv-host", "8MiB"], "is open in memory alone")):
            server = CachingServer("--kv-dir", directory, *options)
            assert server.ask(PROMPTS[0])[0] == wanted[0]
            assert server.metrics()["fathom_kv_storage_writable"] == 0
            server.stop()
            lines = [said for said in server.said().splitlines() if " storage " in said]
            assert len(lines) == 2 and "is not used" in lines[0] and "chmod go-w" in lines[0], lines
            assert line in lines[1] and directory not in lines[1], lines
        assert os.listdir(directory) == []


def main():
    server = CachingServer()
    wanted = [server.ask(prompt)[0] for prompt in PROMPTS]
    assert "fathom_kv_storage_writable" not in server.metrics()
    server.stop()
    with tempfile.TemporaryDirectory() as directory:
        options = ["--kv-dir", directory, "--kv-disk", "64MiB", "--kv-load", "always"]
        server = CachingServer(*options)
        expect(server, wanted, False, "while it fills")
        expect(server, wanted, True, "from its pages")
        blocks = sum(len(prompt) // BLOCK for prompt in PROMPTS)
        assert server.metrics()["fathom_kv_blocks_kept_total"] >= blocks
        assert server.metrics()["fathom_kv_storage_writable"] == 1
        server.stop()
        server = CachingServer(*options)
        expect(server, wanted, True, "after a restart")
        assert server.loaded("disk") == sum(map(whole, PROMPTS))
        second = CachingServer(*options, "--kv-host", "8MiB")  # beside it
        expect(second, wanted, True, "out of another's blocks")
        fresh = [rolls.randrange(300, 1500) for _ in range(300)]
        text, hit = server.ask(fresh)
        assert hit == 0
        until = time.monotonic() + 600
        while True:  # soon
            again, hit = second.ask(fresh + [rolls.randrange(300, 1500)])
            if hit:
                break
            assert time.monotonic() < until
            fresh = [rolls.randrange(300, 1500) for _ in range(300)]
            server.ask(fresh)
            time.sleep(2)
        assert second.ask(fresh)[0] == server.ask(fresh)[0]
        server.stop()
        second.stop()
        flip_bits(directory, 1000)
        server = CachingServer(*options)
        for prompt, text in zip(PROMPTS, wanted):
            assert server.ask(prompt)[0] == text
        server.stop()
    server = CachingServer("--kv-host", "8MiB", "--kv-load", "always", "--kv-memory", "3MiB")  # memory alone; few pages
    for _ in range(2):
        for prompt, text in zip(PROMPTS, wanted):
            assert server.ask(prompt)[0] == text
    assert server.loaded("host") > 0 and server.loaded("disk") == 0
    server.stop()
    check_interrupted()
    check_shared_directory(wanted)
    check_full_disk(wanted)


if __name__ == "__main__":
    main()
