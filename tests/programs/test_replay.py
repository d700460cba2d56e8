#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_replay.py FATHOM EDIT WAYS: what `--record` writes, `fathom replay` runs again, and every machine puts out the
same records: one unit, with prompts told and not; with a KV storage and accounts; a process that was killed; and of
WAYS (with commas between) units of two ranks ("ranks") and prefill and decode apart ("apart"). A recording in which one
byte that a machine was given differs (EDIT makes it), or a damaged one, is told from it. No recording holds an API key
or a salt, nor a prompt that was not asked for."""
import glob
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

from command import refuse, run
from server import PATIENCE, Server, fathom

EDIT, WAYS = sys.argv[2], sys.argv[3].split(",")
rolls = random.Random(16)
SECRET = "the heron waits beside the reeds for what the river brings"
KEY, DIGEST = subprocess.run([fathom, "keygen", "--api-key"], check=True, capture_output=True,
                             text=True).stdout.split()[:2]
SCHEMA = {"type": "object", "properties": {"heron": {"type": "integer"}}, "required": ["heron"],
          "additionalProperties": False}


def ask(server, number):
    body = {"prompt": ("%s, again. " % SECRET) * (1 + number % 5 * 6) + str(number // 3), "max_tokens": 5 + number % 20,
            "seed": number, "ignore_eos": number % 3 == 0, "stream": number % 2 == 0}
    body.update([{}, {"logprobs": 3}, {"n": 2}, {"frequency_penalty": 1, "logit_bias": {"300": -5}},
                 {"echo": True, "logprobs": 1}, {"stop": ["the"]}][number % 6])
    if number % 7 == 3:
        body = {"prompt": SECRET, "max_tokens": 30, "response_format": {
            "type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}}
    request = urllib.request.Request(server.at("/v1/completions"), json.dumps(body).encode(),
                                     {"Content-Type": "application/json", "Authorization": "Bearer " + KEY})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            if number % 11 == 5:
                answer.read(40)  # and leaves
            else:
                answer.read()
    except urllib.error.HTTPError as error:
        raise AssertionError((error.code, error.read(), server.said()))
    except OSError:
        assert server.is_killed, server.said()


def serve(folder, *options, count=24, kill=False):
    """The recordings of a server that has answered many at once."""
    server = Server("--record", folder, *options)
    server.is_killed = kill
    crowd = [threading.Thread(target=ask, args=(server, number)) for number in range(count)]
    for one in crowd:
        one.start()
        time.sleep(0.005)
    if kill:
        time.sleep(0.5)
        server.kill()
    for one in crowd:
        one.join()
    if not kill:
        ask(server, 0)  # who stays to the end: nothing follows from the last token of one who has left
        server.stop()
    return sorted(glob.glob(folder + "/*.rec"))


def replay(folder, count, words="the process ended"):
    lines = run("replay", folder).splitlines()
    assert len(lines) == count and all(words in line for line in lines), lines
    return lines


def holds(path, text):
    with open(path, "rb") as file:
        return text in file.read()


with tempfile.TemporaryDirectory() as top:
    # a unit without prompts: nothing of them is told, and the machine does the same
    units = serve(top + "/masked", "--kv-memory", "8MiB")
    assert len(units) == 1 and "/unit-" in units[0], units
    assert not holds(units[0], b'"heron"'), "a schema is told"
    replay(top + "/masked", 1)

    # with prompts, a storage and an account
    with open(top + "/accounts.yaml", "w") as file:
        print("accounts:\n  - name: one\n    keys: [%s]" % DIGEST, file=file)
    salted = ["--record-prompts", "--accounts", top + "/accounts.yaml", "--kv-dir", top + "/kv", "--kv-host", "16MiB"]
    told = serve(top + "/told", "--kv-memory", "4MiB", *salted)
    assert len(told) == 2 and "/gateway-" in told[0], told
    assert holds(told[0], SECRET.encode()) and holds(told[1], b'"heron"'), "prompts were asked for"
    for path in told:
        assert not holds(path, KEY.encode()) and not holds(path, DIGEST.encode()), path
        assert not holds(path, bytes.fromhex(DIGEST.split(":")[-1])), path
    replay(top + "/told", 2)
    assert len(run("replay", top + "/told", "--machine", "gateway").splitlines()) == 1
    # loads from the storage, with names of blocks that are not those of the recording
    serve(top + "/again", "--kv-memory", "4MiB", *salted)
    replay(top + "/again", 2)

    # killed
    serve(top + "/killed", "--record-prompts", kill=True)
    replay(top + "/killed", 2, "it was cut off")
    serve(top + "/short", "--record-bytes", "16384")
    replay(top + "/short", 1, "--record-bytes were used up")

    # one byte differs
    # the time of a request; the place of tokens; a chosen token
    for path, kind, byte in ((told[0], "CLIENT_REQUEST", 32), (told[0], "TOKENS", 32), (told[1], "STEP_DONE", 64)):
        folder = tempfile.mkdtemp(dir=top)
        copy = os.path.join(folder, os.path.basename(path))
        with open(path, "rb") as source, open(copy, "wb") as target:
            target.write(source.read())
        subprocess.run([EDIT, copy, kind, str(byte)], check=True)
        refuse(1, os.path.basename(path) + ": record [0-9]+ .*in answer to ", "replay", folder)
    with open(units[0], "r+b") as file:
        file.seek(os.path.getsize(units[0]) // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))
    refuse(1, "is damaged", "replay", top + "/masked")
    with open(units[0], "wb") as file:
        file.write(b"no recording")
    refuse(1, "is not a recording by Fathom", "replay", top + "/masked")
    refuse(1, "there is no recording", "replay", top)

    if "ranks" in WAYS:
        assert len(serve(top + "/ranks", "--ranks", "2", "--record-prompts")) == 2
        replay(top + "/ranks", 2)
    if "apart" in WAYS:
        assert len(serve(top + "/apart", "--prefill-units", "1", "--decode-units", "1")) == 2
        replay(top + "/apart", 2)
