#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_dev.py DEV: what ./dev installs and what it asks. It protects a user's machine: packages are named before they
are installed, one question comes on a terminal, and none where no terminal is. A copy of the script runs in a folder of
its own with stand-ins for apt-get, dpkg-query, meson, ninja and npm, so nothing is installed."""
import os
import pty
import shutil
import subprocess
import sys
import tempfile

STUBS = {
    "id": "echo 0",
    "dpkg-query": 'grep -qx -- "${!#}" "$STATE/missing" || printf installed',
    "promtool": "exit 0",
    # Installed packages are no longer missing. Without package lists none is found.
    "apt-get": """[ "$1" != update ] || rm -f "$STATE/no-lists"
[ ! -e "$STATE/no-lists" ] || { echo "E: Unable to locate package" >&2; exit 100; }
[[ " $* " != *" --simulate "* ]] || exit 0
echo "$*" >>"$STATE/apt"
for name in "$@"; do sed -i "/^$name\\$/d" "$STATE/missing"; done""",
    "meson": 'echo "meson $*" >>"$STATE/built"\n[ "$1" != setup ] || { mkdir -p "$2"; : >"$2/build.ninja"; }',
    "ninja": 'echo "ninja $*" >>"$STATE/built"',
    "npm": 'echo "npm $*" >>"$STATE/npm"; mkdir -p node_modules',
    "node": "exit 1",
}
PACKAGE_JSON = """{
  "name": "web",
  "engines": {
    "node": ">=18"
  },
  "devDependencies": {
    "@some/client": "1.0.0",
    "other": "2.0.0"
  }
}
"""
QUESTION = "continue? [Y/n]"
END_OF_FILE = b"\x04"


class Machine:
    """A folder with the script, and with the packages that are missing on this machine."""

    def __init__(self, folder, missing):
        self.folder, self.state = folder, os.path.join(folder, "state")
        for name, text in STUBS.items():
            self.write("bin/" + name, "#!/bin/bash\n%s\n" % text, 0o755)
        shutil.copy(sys.argv[1], os.path.join(folder, "dev"))
        self.write("build/fathom", '#!/bin/bash\necho "fathom $*"\n', 0o755)
        self.write("deploy/deb.sh", '#!/bin/bash\nmkdir -p "$2"\necho "$2/fathom.deb"\n', 0o755)
        self.write("state/missing", "".join(name + "\n" for name in missing))
        self.environment = {**os.environ, "STATE": self.state, "PATH": "%s/bin:%s" % (folder, os.environ["PATH"])}

    def write(self, path, text, mode=0o644):
        path = os.path.join(self.folder, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)

    def lines(self, name):
        try:
            with open(os.path.join(self.state, name), encoding="utf-8") as file:
                return file.read().splitlines()
        except FileNotFoundError:
            return []

    def piped(self, *arguments):
        """Runs without a terminal: the exit code and all output."""
        done = subprocess.run([self.folder + "/dev", *arguments], env=self.environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return done.returncode, done.stdout

    def typed(self, keys, *arguments):
        """Runs on a terminal where these keys answer the question: the exit code and all output."""
        child, terminal = pty.fork()
        if child == 0:
            os.execve(self.folder + "/dev", ["dev", *arguments], self.environment)
        shown = b""
        asked = False
        while True:
            try:
                piece = os.read(terminal, 4096)
            except OSError:  # the terminal's other end is closed
                break
            if not piece:
                break
            shown += piece
            if not asked and QUESTION.encode() in shown:
                asked = True
                os.write(terminal, keys)
        os.close(terminal)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), shown.decode().replace("\r\n", "\n")


def machine(case, *missing):
    with tempfile.TemporaryDirectory() as folder:
        case(Machine(folder, missing))


def enter_installs_the_named_packages_after_one_question(here):
    code, shown = here.typed(b"\r", "serve", "--port", "1")
    assert code == 0 and shown.count(QUESTION) == 1, shown
    assert shown.index("installing Debian packages: gcc libzstd-dev") < shown.index(QUESTION), shown
    assert here.lines("apt") == ["install -y -q --no-install-recommends gcc libzstd-dev"], here.lines("apt")
    assert shown.endswith("fathom serve --port 1\n"), shown


def no_and_end_of_file_install_and_build_nothing(here):
    for keys in (b"n\r", b"no\r", b"what\r", END_OF_FILE):
        code, shown = here.typed(keys, "serve")
        assert code == 1 and "nothing was installed" in shown, (keys, shown)
        assert here.lines("apt") == here.lines("built") == [], keys
    code, shown = here.typed(b"YES\r", "build")
    assert code == 0 and len(here.lines("apt")) == 1, shown


def yes_skips_the_question_and_is_no_option_of_the_program(here):
    code, shown = here.typed(END_OF_FILE, "serve", "--yes", "--port", "1")
    assert code == 0 and QUESTION not in shown and "packages: gcc" in shown, shown
    assert shown.endswith("fathom serve --port 1\n"), shown
    here.write("state/missing", "gcc\n")
    code, shown = here.typed(END_OF_FILE, "--yes", "build")
    assert code == 0 and QUESTION not in shown and len(here.lines("apt")) == 2, shown


def no_question_comes_without_a_terminal(here):
    code, shown = here.piped("serve")
    assert code == 0 and QUESTION not in shown and "packages: gcc" in shown, shown
    assert len(here.lines("apt")) == 1


def a_mistyped_command_gets_the_similar_one(here):
    for typed, meant in (("serv", "serve"), ("biuld", "build"), ("twinseeds", "twin-seeds")):
        code, shown = here.piped(typed)
        assert code != 0 and "no command named '%s'; did you mean '%s'?" % (typed, meant) in shown, shown
    code, shown = here.piped("xyzzyfoo")
    assert code != 0 and shown.endswith("no command named 'xyzzyfoo'\n"), shown


def a_machine_without_package_lists_gets_them_first(here):
    here.write("state/no-lists", "")
    code, shown = here.piped("serve")
    assert code == 0 and "E:" not in shown, shown
    assert here.lines("apt") == ["update -q", "install -y -q --no-install-recommends gcc"], here.lines("apt")


def no_question_comes_when_nothing_is_missing(here):
    code, shown = here.typed(END_OF_FILE, "serve")
    assert code == 0 and QUESTION not in shown and "installing" not in shown, shown
    assert here.lines("apt") == []


def packages_of_several_groups_are_one_question(here):
    code, shown = here.typed(b"\r", "image", here.folder + "/out.tar")
    assert shown.count(QUESTION) == 1 and "packages: gcc dpkg-dev mmdebstrap\n" in shown, shown
    assert len(here.lines("apt")) == 1, here.lines("apt")


def downloads_into_this_folder_are_named_before_the_same_question(here):
    here.write("tests/web/package.json", PACKAGE_JSON)
    here.write("tests/web/package-lock.json", "{}\n")
    code, shown = here.typed(b"n\r", "test")
    assert code == 1 and shown.count(QUESTION) == 1, shown
    assert "downloading into tests/web/node_modules: @some/client other\n" in shown, shown
    assert here.lines("npm") == [] and here.lines("built") == []
    code, shown = here.typed(b"\r", "deps")
    assert shown.count(QUESTION) == 1 and len(here.lines("npm")) == 1, shown
    code, shown = here.typed(END_OF_FILE, "deps")
    assert code == 0 and QUESTION not in shown and len(here.lines("npm")) == 1, shown
    here.write("tests/agents/package.json", PACKAGE_JSON)
    here.write("tests/agents/package-lock.json", "{}\n")
    code, shown = here.typed(b"n\r", "agents")
    assert code == 1 and "downloading into tests/agents/node_modules: @some/client other\n" in shown, shown
    assert "tests/web" not in shown and len(here.lines("npm")) == 1, shown


machine(enter_installs_the_named_packages_after_one_question, "gcc", "libzstd-dev")
machine(no_and_end_of_file_install_and_build_nothing, "gcc")
machine(yes_skips_the_question_and_is_no_option_of_the_program, "gcc")
machine(no_question_comes_without_a_terminal, "gcc")
machine(a_machine_without_package_lists_gets_them_first, "gcc")
machine(no_question_comes_when_nothing_is_missing)
machine(a_mistyped_command_gets_the_similar_one)
machine(packages_of_several_groups_are_one_question, "gcc", "dpkg-dev", "mmdebstrap")
machine(downloads_into_this_folder_are_named_before_the_same_question, "patch")
print("nine cases passed")
