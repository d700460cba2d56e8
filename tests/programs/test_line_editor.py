#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_line_editor.py FATHOM: `fathom chat` in a terminal that tmux emulates: editing, history and its file, search,
pasted lines, widths, Ctrl-C, and answers that try to move the terminal. The text on the screen is what counts."""
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

from chat_server import Puppet, event

fathom = os.path.abspath(sys.argv[1])
PATIENCE = 600
if not shutil.which("tmux"):
    print("left out: there is no tmux")
    sys.exit(77)


class Screen:
    def __init__(self, folder, *options, columns=80, model=("--temperature", "0", "--cpu-mask", "avx512"), more=()):
        self.socket = tempfile.mktemp(prefix="tmux", dir=folder)  # a server of its own
        self.saved = os.path.join(folder, "saved.json")  # of `messages`
        words = ["env", "-u", "NO_COLOR", "XDG_STATE_HOME=" + folder, *more, fathom, "chat", *model, *options]
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

    def messages(self):
        """The conversation, as /save writes it."""
        self.type("/save " + self.saved)
        self.press("Enter")
        self.wait_for(r"/save \S+\n> *\Z")
        with open(self.saved, encoding="utf-8") as file:
            found = json.load(file)["messages"]
        os.remove(self.saved)
        return found

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


PARAGRAPH = "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich. 漢字かな交じり文。 " * 12


def chats_share_a_history(folder):
    """Of two at a time, the file has the questions of both; one that cannot be written is said, and the chat goes on."""
    Puppet.events = [event(content="ok")]
    url = Puppet.start()
    first = Screen(folder, "--url", url, model=())
    second = Screen(folder, "--url", url, model=())
    for screen, asked in ((first, "one"), (second, "two"), (first, "three\nlines")):
        screen.paste(asked)
        screen.press("Enter")
        screen.wait_for(r"%s\nok\n\n> *\Z" % asked.split("\n")[-1])
    path = os.path.join(folder, "fathom", "chat_history")
    with open(path, encoding="utf-8") as file:
        kept = file.read().splitlines()[1:]
    assert kept == ["one", "two", "three\\012lines"], kept
    first.press("Up")
    first.wait_for(r"> three\nlines *\Z")
    os.remove(path)
    os.mkdir(path)
    second.type("four")
    second.press("Enter")
    second.wait_for(r"no history is kept: cannot write (.|\n)*ok\n\n> *\Z")
    assert os.listdir(os.path.dirname(path)) == ["chat_history"], "a partial file is left"
    first.close()
    second.close()


def answers_fit_the_screen(folder):
    """At each width, and at a width that changes: no word is cut, and nothing is left out."""
    url = Puppet.start()
    for columns in (40, 80, 200):
        Puppet.events = [event(content=piece) for piece in re.findall(r".{1,5}", PARAGRAPH)]
        screen = Screen(folder, "--url", url, columns=columns, model=())
        for width in (columns, columns - 13):
            screen.tmux("resize-window", "-x", str(width))
            screen.type("Hi")
            screen.press("Enter")
            lines = screen.wait_for(r"> Hi\n(.|\n)*\n> *\Z").rsplit("> Hi\n", 1)[1].split("\n\n")[0].split("\n")
            words = " ".join(lines).replace(" ", "")
            assert words == PARAGRAPH.replace(" ", ""), lines
            assert all(re.match(r"(Zwölf|Boxkämpfer|jagen|Viktor|quer|über|den|großen|Sylter|Deich\.)( |\Z)", line) or
                       line[0] > "\u3000" for line in lines), lines
            screen.press("C-l")
        screen.close()


def nothing_in_an_answer_moves_the_terminal(folder):
    Puppet.events = [event(reasoning_content="think\x1b[5A"), event(content="a\x1b[2J\x1b]0;title\x07b\x1b[?25l\u009b3Ac\u202ed\r")]
    url = Puppet.start()
    for more, mark in (((), ""), (("NO_COLOR=1",), r"\| "), (("TERM=dumb",), r"\| ")):
        screen = Screen(folder, "--url", url, model=(), more=more)
        screen.type("Hi")
        screen.press("Enter")
        shown = r"a\x1b[2J\x1b]0;title\x07b\x1b[?25l\xc2\x9b3Ac\xe2\x80\xaed"
        screen.wait_for(r"> Hi\n" + mark + r"think\\x1b\[5A\n\n" + re.escape(shown) + r"\n\n> *\Z")
        assert "title" not in screen.tmux("display-message", "-p", "#{pane_title}")
        coloured = screen.tmux("capture-pane", "-p", "-e")
        assert ("\033[2mthink" in coloured) == (not more), coloured
        screen.close()


def pasted_lines_are_one_question(folder):
    """With the terminal's marks and without; bytes of any number; a slash or a control character in them does nothing."""
    Puppet.events = [event(content="ok")]
    screen = Screen(folder, "--url", Puppet.start(), model=())
    asked = ["/new\ngrüße 漢字\n\tthird", "one\ntwo\n  three", "x" * 70, "line of words, ä and 漢\n" * 800 + "end", "y" * 20000]
    assert len(asked[3].encode()) > 20000
    for index, (text, marks) in enumerate(zip(asked, (True, False, False, True, False))):
        screen.paste(text, marks)
        screen.wait_for(text[-1] + r" *\Z")
        screen.press("Enter")
        screen.wait_for(r"(?:\A|\n)ok\n\n> *\Z")
        found = screen.messages()
        assert len(found) == 2 * index + 2 and found[-2]["content"] == text, (text[:60], found[-2]["content"][:60])
    screen.paste("a\x1b[2Jb\x07\nc", True)
    screen.press("Enter")
    screen.wait_for(r"c\nok\n\n> *\Z")
    assert "\x1b" not in screen.messages()[-2]["content"], "a pasted control character"
    screen.close()


def ctrl_c_keeps_what_was_said(folder):
    """In a line, during an answer, and while a server is silent."""
    Puppet.stalls.set()
    Puppet.events = [event(content="Once upon a time ")]
    screen = Screen(folder, "--url", Puppet.start(), model=())
    screen.type("half a line")
    screen.wait_for("half a line *\\Z")
    screen.press("C-c")
    screen.wait_for(r"\(Ctrl-D leaves\)\n> *\Z")
    screen.type("Go")
    screen.press("Enter")
    screen.wait_for(r"> Go\nOnce upon a")
    screen.press("C-c")
    screen.wait_for(r"\(stopped\)\n> *\Z")
    assert Puppet.left.wait(PATIENCE), "the server goes on"
    Puppet.events = []
    screen.type("And?")
    screen.press("Enter")
    screen.wait_for(r"> And\?")
    time.sleep(0.3)
    screen.press("C-c")
    screen.wait_for(r"> And\?(.|\n)*\(stopped\)\n> *\Z")
    Puppet.stalls.clear()
    found = screen.messages()
    assert [turn["content"] for turn in found] == ["Go", "Once upon a time ", "And?", ""], found
    screen.close()


for check in (lines_are_edited, chats_share_a_history, answers_fit_the_screen, nothing_in_an_answer_moves_the_terminal,
              pasted_lines_are_one_question, ctrl_c_keeps_what_was_said):
    with tempfile.TemporaryDirectory() as place:
        check(place)
    print("ok", check.__name__)
