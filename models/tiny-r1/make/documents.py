# SPDX-License-Identifier: Apache-2.0
"""Documents: what the model reads and writes, as the chat template of tokenizer_config.json renders it."""
import dataclasses
import json

from draw import rng
from tokenizer import (ASSISTANT, BOS, CALL_BEGIN, CALL_END, CALLS_BEGIN, CALLS_END, END_THINK, EOS,
                       OUTPUT_BEGIN, OUTPUT_END, OUTPUTS_BEGIN, OUTPUTS_END, THINK, TOOL_SEP, USER, plain)

SYSTEM_TEXTS = [
    "You are a helpful assistant.", "You are a careful assistant.", "Be brief.", "You are tiny-r1.",
    "You can use tools.", "Use the tools when they help.", "You are a helpful assistant. Use the tools.",
    "Answer the user.", "You are a friendly assistant.", "Be a good helper.",
]

@dataclasses.dataclass
class Document:
    """A conversation and its last answer.

    turns: ("user", text), ("assistant", text), ("call", tool's name, arguments) or ("tool", result).
    thinking is None after a tool's result, where the template leaves no place for it.
    call: the expected call, if there is one."""
    kind: str
    system: str
    tools: list
    turns: list
    thinking: str
    answer: str
    call: dict = None


def any_system_text():
    """A system text that changes nothing."""
    return rng.choice(SYSTEM_TEXTS)


def call_text(name, arguments):
    """A call of a tool; the arguments are JSON."""
    call = f"{CALL_BEGIN}function{TOOL_SEP}{name}\n```json\n{arguments}\n```{CALL_END}"
    return CALLS_BEGIN + call + CALLS_END


def about(tool):
    """A tool's description, or its name where it has none."""
    return tool["function"]["description"] or tool["function"]["name"]


def parameters_text(tool):
    """A tool's parameters as JSON: each with its type or its enum."""
    properties = tool["function"]["parameters"]["properties"]
    return json.dumps({name: schema.get("enum", schema["type"]) for name, schema in properties.items()})


def tool_list(tools):
    """The numbered list of tools in the prompt. The description comes first, the name after it.

    Attention looks back only: so the tokens of a name have seen what the tool does."""
    lines = ["Tools:"]
    for number, tool in enumerate(tools, 1):
        lines += [f"{number} {about(tool)}", f"{tool['function']['name']} {parameters_text(tool)}"]
    return "\n".join(lines)


def turn_text(turn, after_result):
    """A turn of the history."""
    if turn[0] == "user":
        return USER + turn[1]
    if turn[0] == "assistant":
        return (OUTPUTS_END if after_result else ASSISTANT) + turn[1] + EOS
    if turn[0] == "call":
        return ASSISTANT + call_text(turn[1], turn[2]) + EOS
    return OUTPUTS_BEGIN + OUTPUT_BEGIN + turn[1] + OUTPUT_END


def prompt_of(document):
    """What the model reads."""
    text = BOS + document.system
    if document.tools:
        text += ("\n\n" if document.system else "") + tool_list(document.tools)
    before = ""
    for turn in document.turns:
        text += turn_text(turn, before == "tool")
        before = turn[0]
    return text + (OUTPUTS_END if document.thinking is None else ASSISTANT)


def answer_of(document):
    """What the model writes."""
    if document.thinking is None:
        return document.answer + EOS
    return f"{THINK}\n{document.thinking}\n{END_THINK}\n\n{document.answer}{EOS}"


def of_turns(kind, turns, system=""):
    """A document of turns (question, thinking, answer); the last one is to be answered."""
    history = []
    for question, _, answer in turns[:-1]:
        history += [("user", question), ("assistant", answer)]
    question, thinking, answer = turns[-1]
    return Document(kind, system, [], history + [("user", question)], thinking, answer)


def messages_of(document):
    """The prompt as messages of the OpenAI API."""
    messages = [{"role": "system", "content": document.system}] if document.system else []
    for index, turn in enumerate(document.turns):
        if turn[0] == "call":
            function = {"name": turn[1], "arguments": turn[2]}
            call = {"id": f"call_{index}", "type": "function", "function": function}
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        elif turn[0] == "tool":
            messages.append({"role": "tool", "tool_call_id": f"call_{index - 1}", "content": turn[1]})
        else:
            messages.append({"role": turn[0], "content": plain(turn[1])})
    return messages
