# SPDX-License-Identifier: Apache-2.0
"""A reader of a guide, for the tests that follow one word by word: runs its shell commands in a folder, keeps servers running,
and waits for the output that the guide shows."""
import os
import re
import signal
import subprocess
import tempfile
import time

from server import PATIENCE

BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.M | re.S)


def children_of(pid):
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], check=False, capture_output=True, text=True)
    children = [int(word) for word in found.stdout.split()]
    return children + [grandchild for child in children for grandchild in children_of(child)]


class Reader:
    def __init__(self, folder, place, environment):
        self.folder, self.place, self.environment = folder, place, environment
        self.started, self.said_files, self.answer = [], [], ""

    def words(self, text):
        """The guide's text with the paths of this machine."""
        return text

    def run(self, *command):
        done = subprocess.run(command, check=False, cwd=self.place, env=self.environment, timeout=PATIENCE, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert done.returncode == 0, (command, done.stdout, done.stderr, self.said())
        self.answer = done.stdout

    def start(self, *command):
        file = tempfile.NamedTemporaryFile("w+", dir=self.folder)
        self.said_files.append(file.name)
        self.started.append(subprocess.Popen(command, cwd=self.place, env=self.environment, stdin=subprocess.DEVNULL,
                                             stdout=file, stderr=file, start_new_session=True))
        self.started[-1].file = file

    def said(self):
        text = ""
        for name in self.said_files:
            if os.path.exists(name):
                with open(name, encoding="utf-8") as file:
                    text += file.read()
        return text

    def expect(self, line):
        """The line's words, in this order, on one line of a server or of the last answer; there may be more of the form
        name=value between them."""
        pattern = r"\s+(?:\S+=\S+\s+)*".join(re.escape(word) for word in self.words(line).split())
        until = time.monotonic() + PATIENCE
        while True:
            more = any(process.poll() is None for process in self.started) and time.monotonic() < until
            if re.search(pattern, self.said() + self.answer):
                return
            assert more, (line, self.said(), self.answer)
            time.sleep(0.02)

    def end(self):
        for process in self.started:
            for pid in [process.pid, *children_of(process.pid)]:
                try:
                    os.kill(pid, signal.SIGTERM)
                except ProcessLookupError:
                    pass
        for process in self.started:
            process.wait(PATIENCE)
            process.file.close()
        self.started, self.said_files, self.answer = [], [], ""
