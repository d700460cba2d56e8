#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_faults.py FATHOM RANKS MODEL: a server under load loses ranks. One is killed, one is stopped, a whole unit is
killed: every answer is the very one that an undisturbed server gives, streamed ones too; no request is lost; one
line names the rank; pages are all back. A rank that stands still before its unit ever served has it started again. A program that is
replaced under way is not taken for a part of what runs. Prints when it was seen, and how long the streams stood still."""
import concurrent.futures
import glob
import os
import re
import shutil
import signal
import sys
import tempfile
import time

import server as server_module
from server import Server, wait_until
from streams import Tokens, ask_all

ranks = int(sys.argv[2])


def disturb(server, wanted, harm, line, name):
    """Does `harm` among the answers, and times what follows."""
    tokens = Tokens()
    seen = len(re.findall(line, server.said()))
    back = len(re.findall("is there again", server.said()))
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answers = pool.submit(ask_all, server, tokens)
        while tokens.count() < 100 and not answers.done():
            time.sleep(0.001)
        began = time.monotonic()
        harm()
        server.wait_for(line, seen + 1)
        detected = time.monotonic()
        server.wait_for("is there again", back + 1)
        serves = time.monotonic()
        found = answers.result()
    next_token = tokens.first_after(detected)
    print("%s: seen after %.3f s, there again after %.2f s, next token after %s" % (
        name, detected - began, serves - began,
        "%.2f s" % (next_token - began) if next_token else "no wait: all was answered"), flush=True)
    assert found == wanted, [(a, b) for a, b in zip(found, wanted) if a != b][:1]
    server.no_page_is_held()


def main():
    with concurrent.futures.ThreadPoolExecutor(1) as pool:  # it is patience for the most part
        still = pool.submit(still_from_the_start)
        lose_ranks()
        still.result()
    orphans()
    another_build_is_installed()


def lose_ranks():
    alone = Server("--mtp", "off")
    wanted = ask_all(alone, Tokens())
    alone.stop()
    server = Server("--ranks", str(ranks), "--rank-timeout", "0.5")
    for rank in (ranks - 1, 0):
        disturb(server, wanted, lambda: os.kill(server.units()[0][rank], signal.SIGKILL),
                r"a rank died, its unit starts again job=1 rank=%d where=.*pid \d+, layer \d+ \S+\"" % rank, "rank %d of %d killed" % (rank, ranks))
    disturb(server, wanted, lambda: os.kill(server.units()[0][1], signal.SIGSTOP),
            "a rank was not run, it is killed job=1 rank=1 ", "rank 1 of %d stopped" % ranks)
    server.stop()
    several = Server("--units", "2")

    def kill_one_of_two():
        os.kill(several.units()[0][0], signal.SIGKILL)

    disturb(several, wanted, kill_one_of_two, r"a unit ended, it starts again job=\d how=\"signal 9\"", "one of 2 units killed")
    several.stop()


def still_from_the_start():
    """A rank that stands still before its unit has ever served: the unit is started again, and serves."""
    for _ in range(20):
        server = StoppedServer("--ranks", "2", "--rank-timeout", "0.3")
        said = server.said()
        server.stop()
        seen = re.search(r"(have not met|a rank was not heard|a rank was never heard), the unit ends", said)
        again = "before it was ready, it starts again" in said
        if seen and again:
            break  # else, on a busy machine, the unit was ready before its rank was found, or its host silent for 0.3 s
    assert seen and again, said


class StoppedServer(Server):
    def wait_for_url(self):
        os.kill(self.process_of_rank(1), signal.SIGSTOP)
        return super().wait_for_url()


def is_alive(pid):
    try:
        os.kill(pid, 0)
        return True
    except ProcessLookupError:
        return False


def orphans():
    """Ranks end with their server, also when it is killed; what it leaves in memory goes with the next one."""
    server = Server("--ranks", "2")
    pids = server.units()[0]
    folders = [path for path in glob.glob("/dev/shm/fathom-%d/%d-*" % (os.getuid(), server.process.pid))]
    server.process.kill()
    server.process.wait()
    wait_until(lambda: not any(is_alive(pid) for pid in pids), found=lambda: pids)
    Server("--ranks", "2").stop()
    assert not any(os.path.exists(folder) for folder in folders), folders


def agents_of(process):
    """The children of a process that start ranks on its host."""
    found = []
    for path in glob.glob("/proc/[0-9]*"):
        try:
            with open(path + "/cmdline", "rb") as cmdline, open(path + "/stat") as stat:
                if int(stat.read().rsplit(") ")[-1].split()[1]) == process.pid and b"\0agent\0" in cmdline.read():
                    found.append(int(path.split("/")[-1]))
        except OSError:
            pass
    return found


def another_build_is_installed():
    """A server goes on with the program that it was started from, for its host's agent, too, when that one dies."""
    installed = server_module.fathom
    with tempfile.TemporaryDirectory() as folder:
        server_module.fathom = os.path.join(folder, "fathom")
        shutil.copy(installed, server_module.fathom)
        server = Server("--ranks", "2", "--model", sys.argv[3])
        shutil.copy(installed, server_module.fathom + ".new")
        with open(server_module.fathom + ".new", "ab") as file:
            file.write(b"another build")
        os.replace(server_module.fathom + ".new", server_module.fathom)
        for back in (1, 2):
            for pid in agents_of(server.process) or sys.exit("no agent was found"):
                os.kill(pid, signal.SIGKILL)
            server.wait_for("is there again", back)
        server.stop()
    server_module.fathom = installed


if __name__ == "__main__":
    main()
