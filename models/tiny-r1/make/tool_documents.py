# SPDX-License-Identifier: Apache-2.0
"""Documents with tools: a call, a call after earlier turns, no tool fits, no tool needed, a tool's result."""
import json

from chat import any_turn, casual
from documents import Document, any_system_text, call_text
from draw import Mode, chance, rng, weighted
from everyday_tools import EVERYDAY_TOOLS
from questions import arithmetic, definition, letters
from tokenizer import fenced, plain, tokenizer
from tools import (any_request, arguments_text, choice_text, name_of, near_tools, other_tools, too_close,
                   selection, word_or_two)
from values import adjective, city, integer, number, person, phrase, time_of_day, word

# What the model can do, or refuse, by itself is no case of a missing tool: contradictions cost.
OWN_SKILLS = ("calculator", "add", "multiply", "get_definition", "get_time")
RESULT_KEYS = """
    temperature price sky time wind color name city status count level size weight owner speed place day
""".split()
SKY = ["sunny", "cloudy", "rainy", "windy", "foggy", "clear"]
DONE = [
    "done", "ok", "OK", '{"ok": true}', '{"status": "ok"}', '{"status": "done"}', "success", "sent",
    '{"success": true}',
]
ERRORS = ["not found", "no answer", "no connection", "not allowed", "wrong name", "too late"]
NO_TOOL_FITS = "None of my tools can do that."
FAMILY = {tool.names[0]: tool.names for tool in EVERYDAY_TOOLS}


# ---- results of tools

def repeated(text):
    """A text inside an answer, as the tokens of the tool's result."""
    return " " + fenced(tokenizer.tokens(text))


def result_value():
    """A value in a result: (as JSON, as the answer repeats it)."""
    if chance(.06):
        value = rng.choice(["true", "false"])
        return value, " " + value
    if chance(.42):
        value = rng.choice([integer, number])()
        return value, " " + value
    value = rng.choice([word, word, person, city, phrase])()
    return f'"{value}"', repeated(value)


def result_object():
    """A result of one to three keys."""
    keys, members, sentences = set(), [], []
    for _ in range(rng.choice([1, 1, 2, 2, 3])):
        key = rng.choice(RESULT_KEYS) if chance(.5) and not Mode.evaluation else word_or_two(.12)
        if key in keys:
            continue
        keys.add(key)
        value, said = result_value()
        members.append(f'"{key}": {value}')
        sentences.append("he" + repeated(key) + " is" + said)
    return "{" + ", ".join(members) + "}", "T" + " and t".join(sentences) + "."


def result_error():
    """A tool that did not work."""
    missing, unknown = f"no {word()}", f"unknown {word()}"
    state = f"the {word()} is {adjective()}"
    error = rng.choice(ERRORS + [missing, unknown, state])
    result = rng.choice([f'{{"error": "{error}"}}', f"error: {error}"])
    return result, "That did not work:" + repeated(error) + "."


def any_result():
    """A tool's result and the answer that repeats it."""
    kind = rng.random()
    if kind < .2:
        return rng.choice(DONE), "Done."
    if kind < .32:
        return result_error()
    if kind < .5:
        value = rng.choice([integer, number, time_of_day])()
        as_json = f'{{"result": {value}}}' if ":" not in value else value
        return rng.choice([value, value, as_json]), f"The answer is {value}."
    if kind < .65:
        text = f"{rng.randint(0, 35)} degrees and {rng.choice(SKY)}" if chance(.4) else phrase()
        return text, "The answer is:" + repeated(text) + "."
    return result_object()


# ---- documents

class Scene:
    """A request and the tools that are offered with it."""

    def __init__(self):
        self.system = any_system_text() if chance(.35) else ""
        self.draw_request()
        if Mode.evaluation:
            count = weighted([0, 1, 2], [3, 4, 4])
        else:
            count = weighted([0, 1, 2, 3, 4, 6], [3, 4, 4, 1.5, .7, .3])
        near = near_tools(self.tool, self.wanted) if not self.family and chance(.55) else []
        self.others = near[:count]
        avoid = self.avoid + [name_of(tool) for tool in self.others]
        self.others += other_tools(count - len(self.others), avoid)
        if self.family is None or chance(.6):
            self.question = casual(self.question)

    def draw_request(self):
        """Draws what the user wants."""
        self.request = any_request()
        self.tool, self.question, self.arguments, self.family, self.wanted = self.request
        self.avoid = too_close(self.family, name_of(self.tool))

    def offered(self):
        """The wanted tool among the others."""
        tools = [self.tool] + self.others
        rng.shuffle(tools)
        return tools


def earlier_call(scene, tools):
    """An earlier request, its call, result and answer; its tool joins the list. None if the two are alike."""
    before = any_request()
    text, answer = any_result()
    name = name_of(before.tool)
    own = too_close(scene.family, name_of(scene.tool))
    if name in own or before.family and set(before.family) & set(scene.avoid):
        return []
    tools.append(before.tool)
    rng.shuffle(tools)
    scene.avoid += too_close(before.family, name)
    call = ("call", name, plain(arguments_text(before.arguments)))
    return [("user", before.question), call, ("tool", text), ("assistant", plain(answer))]


def earlier_turns(scene, tools):
    """One or two earlier calls or questions."""
    turns = []
    for _ in range(rng.choice([1, 1, 2])):
        if chance(.6):
            turns += earlier_call(scene, tools)
        else:
            question, _, answer = any_turn()
            turns += [("user", question), ("assistant", answer)]
    return turns


def call_document(scene, kind="call"):
    """A call; `again` is a call after earlier turns."""
    tools = scene.offered()
    turns = earlier_turns(scene, tools) if kind == "again" else []
    turns.append(("user", scene.question))
    thinking = selection(scene.request, tools, scene.tool) + "\n" + choice_text(scene.request)
    name, arguments = name_of(scene.tool), arguments_text(scene.arguments)
    call = {"name": name, "arguments": json.loads(plain(arguments))}
    return Document(kind, scene.system, tools, turns, thinking, call_text(name, arguments), call)


def no_fit_document(scene):
    """No tool of the list fits."""
    while scene.family and scene.family[0] in OWN_SKILLS:
        scene.draw_request()
    count = rng.choice([1, 2, 3])
    tools = other_tools(count, scene.avoid)
    if not scene.family and chance(.7):
        tools = (near_tools(scene.tool, scene.wanted)[:2] + tools)[:count]
        rng.shuffle(tools)
    turns = [("user", scene.question)]
    return Document("nofit", scene.system, tools, turns, selection(scene.request, tools, None), NO_TOOL_FITS)


def plain_document(scene):
    """A question that the model answers by itself, though there are tools."""
    turn = rng.choice([arithmetic, letters, definition])(True) if Mode.evaluation else any_turn()
    question, thinking, answer = turn
    avoid = too_close(FAMILY["calculator"], "calculator") + too_close(FAMILY["search"], "count")
    avoid += ["get_time", "get_weather"]
    tools = [tool for tool in other_tools(rng.choice([1, 2, 3]), avoid)
             if name_of(tool).split("_")[0] not in ("add", "count", "sort", "write", "read")]
    tools = tools or other_tools(1, avoid)
    turns = [("user", casual(question))]
    return Document("plain", scene.system, tools, turns, "no tool\n" + thinking, answer)


def result_document(scene):
    """An answer with a tool's result."""
    text, answer = any_result()
    tools = scene.offered()
    call = ("call", name_of(scene.tool), plain(arguments_text(scene.arguments)))
    turns = [("user", scene.question), call, ("tool", text)]
    return Document("result", scene.system, tools, turns, None, answer)


def tool_document(kind=None):
    """A document with tools."""
    kind = kind or weighted(["call", "nofit", "plain", "result", "again"], [52, 15, 10, 7, 16])
    scene = Scene()
    if kind in ("call", "again"):
        return call_document(scene, kind)
    return {"nofit": no_fit_document, "plain": plain_document, "result": result_document}[kind](scene)
