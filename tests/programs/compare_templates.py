#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compare_templates.py FATHOM DIR: renders every template of DIR (*.jinja, those that are the same once, and the
chat_template of every tokenizer_config.json) with every conversation of tests/programs/templates, by `fathom template`
and by Python's Jinja2 in transformers' set-up. Both must write the same bytes or both refuse.
compare_templates.py FATHOM --random COUNT [SEED]: the same with templates and data drawn at random.

A line for each difference, then the counts; ends with 1 if there is any difference."""
import contextlib
import datetime
import glob
import json
import os
import random
import re
import subprocess
import sys
import warnings

import random_templates

try:
    import jinja2
    import jinja2.ext
    import jinja2.sandbox
except ImportError:
    sys.exit("compare_templates: Python's jinja2 is not installed; on Debian: apt-get install python3-jinja2")

NOW = 1753531200 + 86399  # what both take for now, in UTC
TRIES = 8
CONVERSATIONS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "templates")


# --- Jinja2 as transformers sets it up ---

class AssistantTracker(jinja2.ext.Extension):
    """{% generation %}: a call of a method that returns what its body writes."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("write"), [], [], body).set_lineno(line)

    @jinja2.pass_eval_context
    def write(self, _context, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def strftime_now(form):
    return datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc).replace(tzinfo=None).strftime(form)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                           extensions=[AssistantTracker, jinja2.ext.loopcontrols])
environment.filters["tojson"] = tojson
environment.globals["raise_exception"] = raise_exception
environment.globals["strftime_now"] = strftime_now


def variables_of(request, tokens):
    """The template's variables, as apply_chat_template gives them."""
    return {**{name: value for name, value in tokens.items() if value},
            **{name: request[name] for name in ("bos_token", "eos_token") if request.get(name) is not None},
            "messages": request.get("messages"), "tools": request.get("tools"),
            "documents": request.get("documents"),
            "add_generation_prompt": request.get("add_generation_prompt") or False,
            **(request.get("chat_template_kwargs") or {})}


def jinja2_renders(compiled, request, tokens):
    """("text", bytes) or ("error", reason)."""
    try:
        return "text", compiled().render(**variables_of(request, tokens)).encode()
    except Exception as error:  # pylint: disable=broad-except # whatever Python raises is a refusal
        return "error", f"{type(error).__name__}: {error}"


# --- Fathom ---

def fathom_renders(fathom, lines, *arguments):
    """The answers to lines of requests, in their order."""
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(open(os.devnull, "rb"))
        done = subprocess.run([fathom, "template", "--jsonl", "--time", str(NOW), *arguments],
                              input="".join(json.dumps(line) + "\n" for line in lines).encode(),
                              stdin=None if lines else source, capture_output=True, timeout=3600, check=False)
    answers = [json.loads(line) for line in done.stdout.split(b"\n") if line]
    if done.returncode or len(answers) != len(lines):
        sys.exit(f"compare_templates: fathom template ended with {done.returncode} after {len(answers)} of {len(lines)} "
                 f"renderings: {done.stderr.decode(errors='replace')[:500]}")
    return [("text", answer["text"].encode()) if "text" in answer else ("error", answer["error"])
            for answer in answers]


# --- comparing ---

class Counts:
    def __init__(self):
        self.equal = self.refused = self.unsupported = self.different = 0

    def add(self, name, expected, found):
        if expected[0] == found[0] == "error":
            self.refused += 1
        elif expected == found:
            self.equal += 1
        else:
            self.different += 1
            print(f"{name}: {difference(expected, found)}")

    def end(self, what):
        unsupported = f"{self.unsupported} not supported, " if self.unsupported else ""
        print(f"{what}: {self.equal} equal, {self.refused} refused by both, {unsupported}{self.different} different")
        return 1 if self.different else 0


def difference(expected, found):
    if expected[0] == "error":
        return f"Jinja2 refuses ({expected[1]}), Fathom writes {found[1][:120]!r}"
    if found[0] == "error":
        return f"Fathom refuses ({found[1]}), Jinja2 writes {expected[1][:120]!r}"
    at = next((i for i, (x, y) in enumerate(zip(expected[1], found[1])) if x != y),
              min(len(expected[1]), len(found[1])))
    start = max(0, at - 20)
    return f"byte {at}: Jinja2 {expected[1][start:at + 60]!r}, Fathom {found[1][start:at + 60]!r}"


def compiled_once(source):
    """What compiles `source` at its first call, and raises what that raises at each."""
    kept = []

    def take():
        if not kept:
            kept.append(environment.from_string(source))
        return kept[0]
    return take


def chosen(template, request):
    """Of several named templates the one that transformers takes."""
    if isinstance(template, str):
        return template
    named = {entry["name"]: entry["template"] for entry in template}
    if request.get("tools") is not None and "tool_use" in named:
        return named["tool_use"]
    return named["default"]


def compare_folder(fathom, folder):
    conversations = {os.path.basename(path)[:-5]: json.load(open(path, encoding="utf-8"))
                     for path in sorted(glob.glob(os.path.join(CONVERSATIONS, "*.json")))}
    if not os.path.isdir(folder):
        sys.exit(f"compare_templates: there is no folder '{folder}'")
    files = sorted(glob.glob(os.path.join(glob.escape(folder), "**", "*.jinja"), recursive=True))
    files = [path for path in files if os.path.basename(path) != "chat_template.jinja"
             or not os.path.exists(os.path.join(os.path.dirname(path), "tokenizer_config.json"))]
    models = sorted(glob.glob(os.path.join(glob.escape(folder), "**", "tokenizer_config.json"), recursive=True))
    counts, compared, seen = Counts(), 0, set()
    for path in files:
        with open(path, encoding="utf-8", newline="") as file:
            source = file.read()
        if source in seen:
            continue
        seen.add(source)
        lines = [{**request, "template": source} for request in conversations.values()]
        take, compared = compiled_once(source), compared + 1
        for name, request, found in zip(conversations, conversations.values(), fathom_renders(fathom, lines)):
            counts.add(f"{os.path.relpath(path, folder)} {name}", jinja2_renders(take, request, {}), found)
    for path in models:
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
        beside = os.path.join(os.path.dirname(path), "chat_template.jinja")
        template = config.get("chat_template")
        if os.path.exists(beside):
            with open(beside, encoding="utf-8", newline="") as file:
                template = file.read()
        if not template:
            continue
        names = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
        tokens = {name: value["content"] if isinstance(value, dict) else value
                  for name in names for value in [config.get(name)]}
        compared += 1
        for tokens_given in (True, False):
            requests = [request if tokens_given else
                        {key: value for key, value in request.items() if key not in names}
                        for request in conversations.values()]
            for name, request, found in zip(conversations, requests,
                                            fathom_renders(fathom, requests, "--model", os.path.dirname(path))):
                expected = jinja2_renders(compiled_once(chosen(template, request)), request, tokens)
                counts.add(f"{os.path.relpath(path, folder)} {name}", expected, found)
    if not compared:
        sys.exit(f"compare_templates: '{folder}' holds no *.jinja and no tokenizer_config.json with a chat_template")
    return counts.end(f"{compared} templates, {len(conversations)} conversations")


def draw_request(seed):
    """A request with its template, and what Jinja2 makes of it: of a few drawn the first that it renders, as most
    templates drawn at random fail somewhere; every tenth seed takes what comes."""
    dice = random.Random(seed)
    for _ in range(1 if seed % 10 == 0 else TRIES):
        request = random_templates.draw(dice)
        expected = jinja2_renders(compiled_once(request["template"]), request, {})
        if expected[0] == "text" and not re.search(rb"<.*\bat 0x[0-9a-f]+>|<built-in", expected[1]):
            break  # addresses differ from run to run: Fathom refuses to print them
    return request, expected


def compare_random(fathom, count, seed):
    counts = Counts()
    warnings.simplefilter("ignore")  # of Python about escapes that templates spell
    for start in range(seed, seed + count, 500):
        drawn = [draw_request(one) for one in range(start, min(start + 500, seed + count))]
        found = fathom_renders(fathom, [request for request, _ in drawn])
        for number, ((request, expected), answer) in enumerate(zip(drawn, found), start):
            if expected[0] == "text" and b"<built-in" in expected[1]:
                continue
            if expected[0] == "text" and answer[0] == "error" and "not supported" in answer[1]:
                counts.unsupported += 1  # big integers, complex numbers and what else jinja.h names
                continue
            different = counts.different
            counts.add(f"seed {number}", expected, answer)
            if counts.different != different:
                print(f"    {json.dumps(request, ensure_ascii=False)}")
    return counts.end(f"{count} random templates from seed {seed}")


def main():
    arguments = sys.argv[1:]
    if len(arguments) == 2 and not arguments[1].startswith("-"):
        return compare_folder(*arguments)
    if len(arguments) in (3, 4) and arguments[1] == "--random":
        return compare_random(arguments[0], int(arguments[2]), int(arguments[3]) if len(arguments) == 4 else 0)
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
