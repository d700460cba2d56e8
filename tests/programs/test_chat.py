#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_chat.py FATHOM: `fathom chat`, through a pipe and on a terminal: turns, commands, Ctrl-C, Ctrl-D."""
import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import termios
import time

from chat_server import Puppet, event

fathom = sys.argv[1]
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp()  # for the history of questions
PATIENCE = 600
ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
SAME = ("--cpu-mask", "avx512")  # the same answers on every machine with AVX2


def through_a_pipe():
    done = subprocess.run([fathom, "chat", "--temperature", "0", *SAME], text=True, capture_output=True,
                          timeout=PATIENCE,
                          input="My name is Anna.\n\nWhat is my name?\n/reset\nWhat is 12 + 30?\n/frob\n/quit\nWhat is 1 + 1?\n")
    assert done.returncode == 0, done
    answers = done.stdout.split("\n\n")
    assert len(answers) == 4 and "Anna" in answers[1] and answers[2:] == ["12 + 30 = 42", ""], done.stdout
    assert "ones 2+0" in done.stderr, "the thoughts"
    assert "\033" not in done.stdout + done.stderr, "colours in a pipe"
    assert "/help" in done.stderr, done.stderr


class Terminal:
    def __init__(self, *options, kind="xterm"):
        self.child, self.file = pty.fork()
        if self.child == 0:
            os.environ["TERM"] = kind
            os.environ.pop("NO_COLOR", None)
            for number in ENDING:  # a program in the background of a shell ignores some, and so do its children
                signal.signal(number, signal.SIG_DFL)
            os.execv(fathom, [fathom, "chat", *options])
        self.received = self.last = ""

    def wait_for(self, pattern):
        """Reads until the pattern; forgets what was read up to its end, and returns it."""
        until = time.monotonic() + PATIENCE
        while not (match := re.search(pattern, self.received)):
            assert time.monotonic() < until, "%r is not in %r" % (pattern, self.received)
            if select.select([self.file], [], [], 0.2)[0]:
                try:
                    data = os.read(self.file, 4096)
                except OSError:
                    data = b""
                assert data, "ended before %r: %r" % (pattern, self.received)
                self.received += re.sub(r"\033\[\?2004[hl]", "", data.decode(errors="replace"))
        text, self.received = self.received[:match.end()], self.received[match.end():]
        return text

    def type(self, text):
        os.write(self.file, text.encode())

    def exit_code(self):
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            if select.select([self.file], [], [], 0.1)[0]:
                try:
                    self.last += os.read(self.file, 4096).decode(errors="replace")
                except OSError:
                    pass
            child, status = os.waitpid(self.child, os.WNOHANG)
            if child:
                return os.waitstatus_to_exitcode(status)
        raise AssertionError("does not end")


def on_a_terminal():
    terminal = Terminal("--temperature", "0", *SAME)
    terminal.wait_for("> ")
    terminal.type("/help\n")
    terminal.wait_for(r"Ctrl-D +leave[^>]*> ")
    terminal.type("What is 2 + 3?\n")
    terminal.wait_for(r"\033\[2m[^\033]+\033\[0m")  # thinking is dimmed
    terminal.wait_for(r"2 \+ 3 = 5")
    terminal.wait_for("> ")
    terminal.type("\003")
    terminal.wait_for("Ctrl-D leaves")
    terminal.type("\004")
    assert terminal.exit_code() == 0


def ctrl_c_ends_an_answer_not_the_program():
    """The answer: slow, and so fond of its own words that it goes on until the context is full."""
    terminal = Terminal("--temperature", "0", "--repetition-penalty", "0.3", "--cpu-mask", "c", "--threads", "1")
    terminal.wait_for("> ")
    terminal.type("Tell me a story about a fox.\n")
    terminal.wait_for(r"\033\[2m[^\033]{10}")
    terminal.type("\003")
    rest = terminal.wait_for(r"\n\r?\n?> ")
    assert "is full" not in rest, "the answer went on: %r" % rest
    terminal.type("\004")
    assert terminal.exit_code() == 0


ERASE = r"\r\033\[K"


def a_long_wait_is_one_line():
    """It says how much of the prompt is computed, and disappears with the first word."""
    terminal = Terminal("--temperature", "0", "--max-new", "3", "--cpu-mask", "c", "--threads", "1")
    terminal.wait_for("> ")
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("one and two and " * 400)
        file.flush()
        terminal.type("/file %s\n" % file.name)
        terminal.wait_for("go with the next question[^>]*> ")
        terminal.type("Hi\n")
        shown = terminal.wait_for(ERASE + r"\033\[2m")
    lines = re.split(ERASE, shown)
    assert len(lines) > 2 and all(re.fullmatch(r"Reading the prompt: [1-9]?\d %", line) for line in lines[1:-1]), shown
    terminal.wait_for("> ")
    terminal.type("\004")
    assert terminal.exit_code() == 0


def a_server_s_wait_is_one_line():
    Puppet.events = [b": waiting, 100 or more ahead\n\n", b": waiting, 3 ahead\n\n", b": prompt 8192 of 31000\n\n",
                     b": prompt 9 of 3\n\n", b": \033[31mred\n\n", event(content="Here."), b"data: [DONE]\n\n"]
    url = Puppet.start()
    terminal = Terminal("--url", url)
    terminal.wait_for("> ")
    terminal.type("Hi\n")
    terminal.wait_for(ERASE + "In the server's queue: 100 or more ahead" + ERASE + "In the server's queue: 3 ahead" +
                      ERASE + "Reading the prompt: 26 %" + ERASE + "Here")
    terminal.type("\004")
    assert terminal.exit_code() == 0
    terminal = Terminal("--url", url, kind="dumb")
    terminal.wait_for("> ")
    terminal.type("Hi\n")
    assert "Reading" not in terminal.wait_for("Here")
    terminal.type("\004")
    assert terminal.exit_code() == 0


def ctrl_c_at_a_prompt_is_never_lost():
    """However near to the prompt it comes: it fell between the prompt and the read once."""
    terminal = Terminal()
    terminal.wait_for("> ")
    for _ in range(200):
        terminal.type("\003")
        terminal.wait_for(r"Ctrl-D leaves\)\r?\n> ")
    terminal.type("\004")
    assert terminal.exit_code() == 0


def a_signal_that_ends_it_leaves_the_terminal_as_it_was():
    """While a line is edited the terminal is raw, and marks what is pasted."""
    for number in ENDING:
        terminal = Terminal()
        terminal.wait_for("> ")
        terminal.type("What is")
        terminal.wait_for("is")
        slave = os.open(os.readlink("/proc/%d/fd/0" % terminal.child), os.O_RDONLY | os.O_NOCTTY)
        assert not termios.tcgetattr(slave)[3] & termios.ICANON
        os.kill(terminal.child, number)
        code = terminal.exit_code()
        assert termios.tcgetattr(slave)[3] & termios.ICANON and termios.tcgetattr(slave)[3] & termios.ECHO, number
        assert code == -number, (code, number)
        assert terminal.last.endswith("\033[?2004l"), terminal.last
        os.close(slave)


for check in (through_a_pipe, on_a_terminal, a_long_wait_is_one_line, a_server_s_wait_is_one_line,
              ctrl_c_ends_an_answer_not_the_program, ctrl_c_at_a_prompt_is_never_lost, a_signal_that_ends_it_leaves_the_terminal_as_it_was):
    check()
    print("ok", check.__name__)
