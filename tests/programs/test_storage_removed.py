#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_storage_removed.py FATHOM: somebody removes a KV storage's files, or all of it, under a server that writes to
them, while another server shares it. Both go on and give the answers of a server without a storage; the one whose
segment went says so in one line and begins another; what lies in the directory afterwards is sound and used again."""
import glob
import json
import os
import random
import signal
import subprocess
import tempfile

from server import Server, fathom, wait_until

DEEDS = ["rm $D/*/*.kv", "rm -r $D", "rm $D/*/*.idx", "for f in $D/*/*.kv; do cp $f $f.copy; mv $f.copy $f; done"]
LINE = "somebody removed, replaced or cut files of the segment"
rolls = random.Random(29)
PROMPTS = [[rolls.randrange(300, 1500) for _ in range(200)] for _ in range(12)]


class SmallServer(Server):
    kv_memory = "3MiB"  # of which a few prompts are more than all pages

    def ask(self, prompt):
        with self.open("/v1/completions", {"prompt": prompt, "max_tokens": 4, "temperature": 0}) as answer:
            return json.load(answer)["choices"][0]["text"]

    def ask_all(self, prompts):
        return [self.ask(prompt) for prompt in prompts]

    def stop(self):
        self.no_page_is_held()
        super().stop()


def wait_for_segment(directory):
    """Answers may come before the first block of theirs is written, and then nothing is there to remove."""
    wait_until(lambda: glob.glob(directory + "/*/*.idx"), found=lambda: os.listdir(directory))


def do_it(deed, wanted, directory):
    options = ["--kv-dir", directory, "--kv-disk", "64MiB", "--kv-load", "always"]
    first = SmallServer(*options, "--kv-host", "1MiB")
    assert first.ask_all(PROMPTS[:6]) == wanted[:6], deed
    wait_for_segment(directory)
    first.process.send_signal(signal.SIGSTOP)  # else what it begins anew meanwhile would be in the way of `rm -r`
    subprocess.run(["sh", "-c", deed], env=dict(os.environ, D=directory), check=True)
    first.process.send_signal(signal.SIGCONT)
    first.wait_for(LINE)
    second = SmallServer(*options)
    assert second.ask_all(PROMPTS[6:]) == wanted[6:], deed
    assert first.ask_all(PROMPTS) == wanted, deed
    assert second.ask_all(PROMPTS) == wanted, deed
    assert first.metrics()["fathom_kv_storage_writable"] == second.metrics()["fathom_kv_storage_writable"] == 1
    first.stop()
    second.stop()
    assert first.said().count(LINE) == 1 and LINE not in second.said(), (deed, first.said(), second.said())
    verified = subprocess.run([fathom, "cache", "verify", directory, "--json"], capture_output=True, text=True, check=False)
    assert verified.returncode == 0, (deed, verified)
    assert json.loads(verified.stdout)["blocks"] > 0, (deed, verified)
    third = SmallServer(*options)
    assert third.ask_all(PROMPTS) == wanted, deed
    assert third.metrics()['fathom_kv_loaded_tokens_total{tier="disk"}'] > 0, deed
    third.stop()


def main():
    alone = SmallServer()
    wanted = alone.ask_all(PROMPTS)
    alone.stop()
    for deed in DEEDS:
        with tempfile.TemporaryDirectory() as folder:
            do_it(deed, wanted, folder + "/storage")
            print("%s: right" % deed, flush=True)


if __name__ == "__main__":
    main()
