#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_serve_ranks.py FATHOM: the server over several processes: many requests at once get the very answers
that one process gives each alone, with replicas, shuffled experts, drafts, and experts that move meanwhile; all ranks take requests; the
pages of all are back at the end; SIGTERM lets what has begun finish, and the exit code is 0. The
ranks' common weights are in memory once. Experiments reach the ranks. Too few open files are told in one line. Ranks of one host listen
nowhere."""
import concurrent.futures
import glob
import json
import os
import re
import resource
import subprocess
import time
import urllib.error

from server import PATIENCE, Server, environment, fathom

QUESTIONS = ["What is %d + %d?" % (37 * i, 915 + i) for i in range(8)] + [
    "Spell the word lantern.", "How many letters r are in strawberry?"]


class Talker(Server):
    def ask(self, question, seed=None):
        body = {"messages": [{"role": "user", "content": question}], "max_tokens": 90, "temperature": 0}
        if seed is not None:
            body.update(temperature=1, seed=seed)
        with self.open("/v1/chat/completions", body) as answer:
            found = json.load(answer)
        choice = found["choices"][0]
        return choice["message"], choice["finish_reason"], found["usage"]["completion_tokens"]

    def stream(self, question):
        return self.open("/v1/chat/completions", {
            "messages": [{"role": "user", "content": question}], "max_tokens": 90, "stream": True})

    def lines(self):
        return self.said().splitlines()


def ask_all(server, workers):
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        plain = list(pool.map(server.ask, QUESTIONS))
        drawn = list(pool.map(server.ask, QUESTIONS, range(len(QUESTIONS))))
    return plain + drawn


def check_rebalancing(wanted):
    """Topics change while experts move to where the load is: the answers are those of one process."""
    server = Talker("--ranks", "8", "--redundant-experts", "8", "--mtp", "off", "--rebalance-seconds", "0.1")
    until = time.monotonic() + 600
    while sum("experts  lie as their loads want it" in line for line in server.lines()) < 2:
        for topic in (QUESTIONS[:8], QUESTIONS[8:]):  # sums, then words, each for many looks at the load
            began = time.monotonic()
            while time.monotonic() - began < 2:
                with concurrent.futures.ThreadPoolExecutor(len(topic)) as pool:
                    for question, answer in zip(topic, pool.map(server.ask, topic)):
                        assert answer == wanted[QUESTIONS.index(question)], question
        assert time.monotonic() < until, server.lines()
    server.no_page_is_held()
    server.stop()
    print("\n".join(line for line in server.lines() if "experts" in line))


def check_nodes(wanted):
    """Two nodes of two ranks, whose link is slow: a map is chosen by price, the log says why, and the answers are
    those of one process."""
    server = Talker("--ranks", "4", "--redundant-experts", "16", "--mtp", "off", "--rebalance-seconds", "0.1",
                    "--experiment", "ranks-per-node=2,link-gbps=1,levels=two")
    until = time.monotonic() + 600
    while not any("cost least with it why=price" in line for line in server.lines()):
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            assert list(pool.map(server.ask, QUESTIONS)) == wanted[:len(QUESTIONS)]
        assert time.monotonic() < until, server.lines()
    server.no_page_is_held()
    server.stop()
    print("\n".join(line for line in server.lines() if "experts" in line))


def check_memory(server, ranks):
    """What all ranks need is in memory once: their shares of its pages add up to one file's."""
    shares, files = [], set()
    for path in glob.glob("/proc/[0-9]*/smaps"):
        try:
            with open(path, encoding="utf-8") as file:
                mappings = re.split(r"\n(?=[0-9a-f]+-[0-9a-f]+ )", file.read())
        except OSError:  # it has ended, or is not ours
            continue
        mine = [one for one in mappings if "/%d-" % server.process.pid in one.split("\n")[0] and "/common-" in one]
        if mine:
            files |= {one.split("\n")[0].split()[-1] for one in mine}
            shares.append(sum(int(re.search(r"\nPss: +(\d+)", one)[1]) for one in mine) << 10)
    assert len(shares) == ranks and len(files) == 1, (shares, files)
    size = os.stat(files.pop()).st_size
    assert size / 2 < sum(shares) < size * 1.1, (shares, size)


def check_experiment(server):
    """The ranks' own command lines have the experiment that the server was given, and the fallbacks of the others."""
    for pid in server.units()[0]:
        with open("/proc/%d/cmdline" % pid, encoding="utf-8") as file:
            words = file.read().split("\0")
        assert "--experiment=placement-seed=4" in words and "--experiment=rank-binding=late" in words, words


def listeners_of(pids):
    """Ports on which one of the processes listens over TCP."""
    ports, found = {}, set()
    for name in ("tcp", "tcp6"):
        with open("/proc/net/" + name, encoding="ascii") as file:
            for fields in map(str.split, file.readlines()[1:]):
                if fields[3] == "0A":
                    ports["socket:[%s]" % fields[9]] = int(fields[1].rsplit(":", 1)[1], 16)
    for pid in pids:
        for path in glob.glob("/proc/%d/fd/*" % pid):
            try:
                found.add(ports.get(os.readlink(path)))
            except FileNotFoundError:
                pass
    return found - {None}


def family_of(pid):
    children = []
    for path in glob.glob("/proc/%d/task/*/children" % pid):
        with open(path, encoding="ascii") as file:
            children += map(int, file.read().split())
    return [pid] + [one for child in children for one in family_of(child)]


def check_ports(server, ranks):
    """Ranks of one host listen nowhere: whoever reaches a port of UCX can end its process."""
    family = family_of(server.process.pid)
    assert len(family) > ranks, family
    own = {int(url.rsplit(":", 1)[1]) for url in (server.url, server.admin)}
    assert listeners_of(family) == own, (listeners_of(family), own)


def check_files():
    """Too few for the ranks: one line says how many it takes."""
    for command in (["serve", "--port", "0", "--units", "2"], ["generate", "Hi."],
                    ["unit", "--connect", "ipc:///nowhere"]):
        found = subprocess.run([fathom, *command, "--ranks", "8"], capture_output=True, text=True, timeout=PATIENCE, env=environment,
                               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)))
        assert found.returncode == 1 and found.stderr.count("\n") == 1, found
        assert re.search(r"(16 ranks need 96|8 ranks need 72) open files, and 64 are allowed: `ulimit -n (96|72)`$", found.stderr), found


def check_drain(wanted):
    """A rank goes while requests run, and comes back: nothing is lost, nothing differs."""
    server = Talker("--ranks", "4", "--redundant-experts", "24", "--mtp", "on", "--rebalance-seconds", "0.2")
    def drain(code=200, **wish):
        try:
            with server.open("/debug/fleet/drain", {"unit": 1, **wish}) as answer:
                assert code == 200, wish
                return json.load(answer)
        except urllib.error.HTTPError as refusal:
            assert refusal.code == code, refusal
            return json.load(refusal)["error"]["message"]
    def rank_2():
        return server.fleet()["units"][0]["ranks"][2]
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answers = pool.submit(ask_all, server, len(QUESTIONS))
        assert drain(rank=2)["state"] == "draining"
        assert answers.result() == wanted
    until = time.monotonic() + 600
    while rank_2().get("state") != "drained":
        assert time.monotonic() < until, rank_2()
        time.sleep(0.05)
    pages = rank_2()["kv_pages"]
    assert "--redundant-experts 61" in drain(409, rank=1)
    assert "no rank 4" in drain(404, rank=4)
    drain(400, rank="two")
    assert ask_all(server, len(QUESTIONS)) == wanted
    assert rank_2()["kv_pages"] == pages, (pages, rank_2())  # nobody came there
    assert drain(rank=2, back=True)["state"] == "serving"
    while "state" in rank_2() or rank_2()["kv_pages"] == pages:
        assert ask_all(server, len(QUESTIONS)) == wanted and time.monotonic() < until
    metrics = server.metrics()
    assert metrics['fathom_experts_moved_total{unit="1"}'] >= 2 * 16 * 4, metrics
    assert metrics['fathom_expert_moves_failed_total{unit="1"}'] == 0, metrics
    assert 0 < metrics['fathom_expert_balance{unit="1"}'] <= 1, metrics
    server.no_page_is_held()
    server.stop()


def main():
    check_files()
    alone = Talker("--mtp", "off")
    wanted = ask_all(alone, 1)
    alone.stop()
    for options in (["--ranks", "2", "--mtp", "on", "--schedule", "hexa-batch"],
                    ["--ranks", "3", "--mtp", "off", "--redundant-experts", "5", "--experiment", "placement-seed=4"]):
        server = Talker(*options)
        assert ask_all(server, len(QUESTIONS)) == wanted, options
        server.no_page_is_held()
        check_memory(server, int(options[1]))
        check_ports(server, int(options[1]))
        if "--experiment" in options:
            check_experiment(server)
        streams = [server.stream(question) for question in QUESTIONS[:4]]
        begun = [stream.readline() for stream in streams]
        server.stop()  # what has begun is finished
        for first, stream in zip(begun, streams):
            assert first.startswith(b"data: ") and stream.read().endswith(b"data: [DONE]\n\n"), options
    check_rebalancing(wanted)
    check_nodes(wanted)
    check_drain(wanted)


main()
