#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_ranks_by_hand.py FATHOM: units of several ranks that somebody else starts, as an mpirun would, over TCP alone as
between hosts; no supervisor watches them. A rank that stands still, under load, idle or at the start, ends its unit with a line
that names it; the requests go on elsewhere, with the same answers. A rank 0 that stands still has its unit given up."""
import concurrent.futures
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile

from server import PATIENCE, Process, open_url, wait_until

QUESTIONS = ["What is %d + %d?" % (41 * i, 77 + i) for i in range(4)]


def start(count, command):
    """What an mpirun does: starts the ranks, and ends with the first that ends; the others end with it."""
    def environment(rank):
        return dict(os.environ, OMPI_COMM_WORLD_RANK=str(rank), OMPI_COMM_WORLD_SIZE=str(count),
                    OMPI_COMM_WORLD_LOCAL_SIZE=str(count), UCX_TLS="tcp")
    # However this process ends, they do, too.
    command = ["setpriv", "--pdeathsig", "KILL", *command]
    ranks = [subprocess.Popen(command, env=environment(rank)) for rank in range(count)]
    signal.signal(signal.SIGTERM, lambda number, frame: [rank.terminate() for rank in ranks])
    ended, status = os.wait()
    for rank in ranks:
        if rank.pid != ended:
            rank.kill()
            rank.wait()
    sys.exit(os.waitstatus_to_exitcode(status) and 1)


def free_port():
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return place.getsockname()[1]


def answer(url, question):
    body = {"messages": [{"role": "user", "content": question}], "max_tokens": 40, "temperature": 0}
    with open_url(url + "/v1/chat/completions", body) as response:
        return json.load(response)["choices"][0]["message"]


def answers(url):
    with concurrent.futures.ThreadPoolExecutor(len(QUESTIONS)) as pool:
        return list(pool.map(lambda question: answer(url, question), QUESTIONS))


class Unit(Process):
    """Ends when a rank of its job has ended."""

    def __init__(self, address, timeout, ranks=2, before=()):
        super().__init__("unit", "--connect", address, "--kv-memory", "64MiB", "--cpu-mask", "c", "--threads", "1",
                         *(["--ranks", str(ranks), "--rank-timeout", str(timeout),
                            "--rank-meeting", "127.0.0.1:%d" % free_port()] if ranks > 1 else []),
                         wrap=[*([sys.executable, __file__, "--start", str(ranks)] if ranks > 1 else []), *before])

    def ended(self, line):
        assert self.process.wait(PATIENCE) != 0
        (found,) = [said for said in self.said().split("\n") if "the unit ends" in said]
        assert line in found, self.said()


def serving(gateway, count):
    units = [unit for unit in gateway.fleet()["units"] if unit["state"] == "serving"]
    return units if len(units) == count else None


def main():
    alone = Process("serve", "--port", "0", "--kv-memory", "64MiB", "--mtp", "off", "--cpu-mask", "c")
    wanted = answers(alone.wait_for_url())
    alone.stop()
    with tempfile.TemporaryDirectory() as folder:
        address = "ipc://" + os.path.join(folder, "wire")
        gateway = Process("gateway", "--listen", address, "--port", "0")
        url = gateway.wait_for_url()
        stops = "if [ $OMPI_COMM_WORLD_RANK = 1 ]; then kill -STOP $$; fi; exec \"$@\""
        never = Unit(address, 0.1, before=["sh", "-c", stops, "sh"])  # it takes its time, and nobody hears of it

        unit = Unit(address, 0.5)  # idle
        (found,) = wait_until(lambda: serving(gateway, 1), unit)
        assert answers(url) == wanted
        pid = found["ranks"][1]["pid"]
        os.kill(pid, signal.SIGSTOP)
        unit.ended("a rank was not heard, the unit ends rank=1 ")
        assert "pid %d, layer" % pid in unit.said()
        wait_until(lambda: serving(gateway, 0) == [], gateway)

        unit = Unit(address, 0.5)  # under load: others go on
        (found,) = wait_until(lambda: serving(gateway, 1), unit)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            told = pool.submit(answers, url)
            wait_until(lambda: gateway.fleet()["units"][0]["requests_running"], unit)
            os.kill(found["ranks"][1]["pid"], signal.SIGSTOP)
            unit.ended("a rank was not heard, the unit ends rank=1 ")
            other = Unit(address, 0, ranks=1)
            assert told.result(PATIENCE) == wanted

        unit = Unit(address, 0.5)  # the one that speaks for the unit
        wait_until(lambda: serving(gateway, 2), unit)
        (found,) = [each for each in gateway.fleet()["units"] if len(each["ranks"]) == 2]
        os.kill(found["ranks"][0]["pid"], signal.SIGSTOP)
        assert answers(url) == wanted
        wait_until(lambda: serving(gateway, 1), gateway)
        os.kill(found["ranks"][0]["pid"], signal.SIGCONT)
        unit.kill()
        other.stop()

        never.ended("have not met, ")
        stops = "if [ $OMPI_COMM_WORLD_RANK = 1 ]; then (sleep 0.7; kill -STOP $$) & fi; exec \"$@\""
        Unit(address, 0.3, before=["sh", "-c", stops, "sh"]).ended("silent_s=")  # wherever it was
        gateway.stop()


if sys.argv[1] == "--start":
    start(int(sys.argv[2]), sys.argv[3:])
main()
