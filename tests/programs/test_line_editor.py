#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_line_editor.py FATHOM: `fathom chat` in a terminal that tmux emulates: editing, history and its file, search,
pasted lines, sizes, Ctrl-C. The text on the screen is what counts."""
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

fathom = os.path.abspath(sys.argv[1])
PATIENCE = 600
if not shutil.which("tmux"):
    print("left out: there is no tmux")
    sys.exit(77)


class Screen:
    def __init__(self, folder, *options, columns=80):
        self.socket = os.path.join(folder, "tmux")
        self.saved = os.path.join(folder, "saved.json")
        words = ["env", "XDG_STATE_HOME=" + folder, fathom, "chat", "--temperature", "0", "--cpu-mask", "avx512", *options]
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", "50",
                  shlex.join(words) + "; echo ended $?; read x")
        self.wait_for(r"> *\Z")

    def tmux(self, *arguments, **more):
        return subprocess.run(["tmux", "-S", self.socket, *arguments], check=True, text=True, stdout=subprocess.PIPE,
                              timeout=PATIENCE, **more).stdout

    def text(self):
        return self.tmux("capture-pane", "-p").rstrip()

    def wait_for(self, pattern):
        until = time.monotonic() + PATIENCE
        while not re.search(pattern, text := self.text()):
            assert time.monotonic() < until, "%r is not in:\n%s" % (pattern, text)
            time.sleep(0.05)
        return text

    def type(self, text):
        self.tmux("send-keys", "-l", text)

    def press(self, *keys):
        self.tmux("send-keys", *keys)

    def paste(self, text, marks=True):
        self.tmux("load-buffer", "-", input=text)
        self.tmux("paste-buffer", *["-p"][:marks])

    def close(self):
        self.press("C-u", "C-d")
        self.wait_for("ended 0")
        self.tmux("kill-server")


def lines_are_edited(folder):
    screen = Screen(folder)
    screen.type("What is 2 + 4 grüße 漢字?")
    screen.wait_for(r"> What is 2 \+ 4 grüße 漢字\?")
    screen.press("BSpace", "BSpace", "BSpace")
    screen.wait_for(r"> What is 2 \+ 4 grüße *\Z")
    screen.press("C-w", "BSpace", "BSpace")
    screen.type("3?")
    screen.press("Home", "Right", "Right", "Right", "Right", "Right", "Right", "Right", "Right", "Delete")
    screen.type("1")
    screen.press("Enter")
    screen.wait_for(r"> What is 1 \+ 3\?\n(.*\n)+1 \+ 3 = 4\n\n> *\Z")
    screen.press("Up")
    screen.wait_for(r"= 4\n\n> What is 1 \+ 3\? *\Z")
    screen.press("Down", "C-r")
    screen.type("is 1")
    screen.wait_for(r"is 1(.|\n)*\Z")
    screen.press("Enter")
    screen.wait_for(r"(1 \+ 3 = 4(.|\n)*){2}\n> *\Z")
    screen.close()
    path = os.path.join(folder, "fathom", "chat_history")
    assert os.stat(path).st_mode & 0o777 == 0o600, oct(os.stat(path).st_mode)
    assert os.stat(os.path.dirname(path)).st_mode & 0o777 == 0o700
    screen = Screen(folder, "--no-history")
    screen.type("Who are you?")
    screen.press("Enter")
    screen.wait_for("tiny-r1(.|\n)*\n> *\\Z")
    screen.close()
    screen = Screen(folder)
    screen.press("Up")
    screen.wait_for(r"> What is 1 \+ 3\? *\Z")  # kept from the first, nothing of the second
    screen.close()


for check in (lines_are_edited,):
    with tempfile.TemporaryDirectory() as place:
        check(place)
    print("ok", check.__name__)
