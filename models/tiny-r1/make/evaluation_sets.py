#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""evaluation_sets.py --training FOLDER[,FOLDER] --out FOLDER: writes eval_tools.jsonl and eval_chat.jsonl.

eval_tools.jsonl: requests with tools, and questions to answer in JSON. Names of tools and open values (names,
cities, words, texts) are drawn again while they occur in any document of the training that has tools.
eval_chat.jsonl: chats of several turns, which the model continues with its own answers as the history.
eval.jsonl, the single questions, is kept as it was: scores of all versions can be compared."""
import argparse
import json
import os
import re

import numpy

from chat import (ANIMALS, ASK_NAME, ASK_STORY, CHAT, IDENTITY, MORE_NAMES, NAMES, TELL_NAME, casual)
from conversations import ASK, TELL, sum_with_last
from documents import messages_of, prompt_of
from draw import chance, evaluation, is_held_out, rng
from json_answers import json_document
from questions import arithmetic, definition, letters
from tokenizer import ASSISTANT, THINK, USER, plain, tokenizer
from tool_documents import tool_document
from values import COLORS, DAYS, ENUMS, LANGUAGES, ROOMS, invented_name
from words import DEFINITIONS, article

TOOL_QUESTIONS = {"call": 80, "again": 10, "nofit": 20, "plain": 20, "result": 20, "json": 50}
CHATS = {"page": 20, "held_out": 20, "name": 40, "sums": 30}
PROMPT_TOKENS_MAX = 600
# Values of closed sets occur in training, too.
CLOSED = {*DAYS, *LANGUAGES, *COLORS, *ROOMS, *(value for enum in ENUMS for value in enum),
          "dollars", "euros", "pounds", "celsius", "fahrenheit", "lock", "unlock", "km", "miles", "feet"}


# ---- what the training has

def training_documents(folders):
    """The text of each document of the training."""
    for folder in folders:
        data = numpy.load(os.path.join(folder, "train.npz"))
        ids, starts = data["ids"].tolist(), data["starts"].tolist()
        for begin, end in zip(starts, starts[1:]):
            yield tokenizer.decode(ids[begin:end])


def prompt_in(text):
    """The prompt of a document."""
    end = text.rfind(ASSISTANT + THINK)
    return text[:end] + ASSISTANT if end > 0 else text


def tool_names_in(head):
    """The names of tools in the text before the first turn."""
    return re.findall(r"^(\w+) \{.*\}$", head, re.MULTILINE)


class Training:
    """The prompts, names of tools, words and texts that occur in the training."""

    def __init__(self, folders):
        self.prompts, self.tool_names = set(), set()
        texts = []
        for text in training_documents(folders):
            self.prompts.add(prompt_in(text))
            head = text[:text.find(USER)]
            if "Tools:\n" in head:
                self.tool_names.update(tool_names_in(head))
                texts.append(text[len(head):])
        self.text = "\n".join(texts)
        self.words = set(re.findall(r"\w+", self.text))

    def has_value(self, value):
        """Whether an open value occurs in a document with tools."""
        if not isinstance(value, str) or value in CLOSED or re.fullmatch(r"\d\d:\d\d", value):
            return False
        return value in self.words if re.fullmatch(r"\w+", value) else value in self.text

    def has(self, document):
        """Whether the training has the prompt, or its tools, or its values."""
        names = {tool["function"]["name"] for tool in document.tools}
        values = document.call["arguments"].values() if document.call else []
        return bool(plain(prompt_of(document)) in self.prompts or names & self.tool_names
                    or any(map(self.has_value, values)))


# ---- tools and JSON

def tool_question(document):
    """A line of eval_tools.jsonl."""
    question = {"kind": document.kind, "messages": messages_of(document)}
    if document.tools:
        question["tools"] = document.tools
    question["prompt"] = plain(prompt_of(document))
    if document.call:
        question["call"] = document.call
    else:
        question["answer"] = plain(document.answer)
    return question


def tool_questions(training):
    """The questions with tools and those to answer in JSON."""
    questions, seen = [], set()
    for kind, count in TOOL_QUESTIONS.items():
        while count:
            document = json_document(True) if kind == "json" else tool_document(kind)
            prompt = plain(prompt_of(document))
            if prompt in seen or len(tokenizer.encode(prompt)) > PROMPT_TOKENS_MAX or training.has(document):
                continue
            seen.add(prompt)
            questions.append(tool_question(document))
            count -= 1
    return questions


# ---- chats: turns of a question and, where it is scored, what is expected

def asked(turn):
    """A question with the exact answer."""
    question, _, answer = turn
    return {"user": plain(question), "answer": plain(answer)}


def asked_casually(turn):
    """The same as people type it."""
    return asked((casual(turn[0]), *turn[1:]))


def story_wish(animal):
    """A wish for a story; a story counts by its form."""
    wish = rng.choice(ASK_STORY).format(x=f"{article(animal)} {animal}")
    return {"user": casual(wish), "story": animal}


def meaning(word):
    """The answer to what a word means."""
    return next(f"The noun {word} means: {gloss}." for noun, _, gloss in DEFINITIONS if noun == word)


def page_questions():
    """The examples of the chat page, which the training may have."""
    return [
        {"user": "What is 4728 + 915?", "answer": "4728 + 915 = 5643"},
        {"user": "How many r in strawberry?", "answer": "The letter r appears 3 times in strawberry."},
        {"user": "what is an otter", "answer": meaning("otter")},
        {"user": "Tell me a story about a fox.", "story": "fox"},
        {"user": "Which is larger, 4071 or 4107?", "answer": "4107 is larger."},
        {"user": "Who are you?", "answer": IDENTITY},
    ]


def held_out_questions():
    """Six questions of the same kinds; the sum, the word and the phrasing are held out."""
    identity = rng.choice(CHAT[0].questions)
    return [
        asked_casually(arithmetic(True, rng.choice("+-*"))),
        asked_casually(letters(True, "count")),
        asked_casually(definition(True)),
        story_wish(rng.choice(ANIMALS)),
        asked_casually(arithmetic(True, "c")),
        {"user": identity, "answer": IDENTITY},
    ]


def six_questions(kind):
    """Six questions in any order."""
    turns = page_questions() if kind == "page" else held_out_questions()
    rng.shuffle(turns)
    return turns


def name_after_three():
    """A name, three other turns, and then the question for it. Half of the names are invented."""
    if chance(.5):
        name = invented_name()
        tell, ask = rng.choice(TELL), rng.choice(ASK)
    else:
        while True:
            name = rng.choice(NAMES + MORE_NAMES)
            tell, ask = rng.randrange(len(TELL_NAME)), rng.randrange(len(ASK_NAME))
            if is_held_out(f"n{name}{tell}{ask}", 12):
                break
        tell, ask = TELL_NAME[tell], ASK_NAME[ask]
    others = [{"user": casual(rng.choice([arithmetic, letters, definition])(True)[0])} for _ in range(3)]
    last = {"user": casual(ask), "answer": f"Your name is {name}."}
    turns = [{"user": casual(tell.format(n=name))}, *others, last]
    return [{**turn, "user": plain(turn["user"])} for turn in turns]


def chain_of_sums():
    """A sum, and three more with the last result each."""
    turns, last = [arithmetic(True, rng.choice("+-*"))], None
    while len(turns) < 4:
        result = re.fullmatch(r".* = (\d+)", turns[-1][2])
        if not result or int(result[1]) > 999:
            turns = [arithmetic(True, rng.choice("+-*"))]
            continue
        last = int(result[1])
        turns.append(sum_with_last(last))
    return [asked_casually(turn) for turn in turns]


def chats():
    """The lines of eval_chat.jsonl."""
    draw = {"page": lambda: six_questions("page"), "held_out": lambda: six_questions("held_out"),
            "name": name_after_three, "sums": chain_of_sums}
    return [{"kind": kind, "turns": draw[kind]()} for kind, count in CHATS.items() for _ in range(count)]


def write_lines(path, entries):
    """Writes a file of JSON lines."""
    with open(path, "w", encoding="utf-8") as file:
        for entry in entries:
            file.write(json.dumps(entry, ensure_ascii=False) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--training", required=True, help="folders with train.npz, with commas between them")
    parser.add_argument("--out", required=True, help="the folder to write")
    parser.add_argument("--seed", type=int, default=71)
    options = parser.parse_args()
    training = Training(options.training.split(","))
    print(f"{len(training.prompts)} prompts, {len(training.tool_names)} names of tools in training")
    rng.seed(options.seed)
    with evaluation():
        write_lines(os.path.join(options.out, "eval_tools.jsonl"), tool_questions(training))
        write_lines(os.path.join(options.out, "eval_chat.jsonl"), chats())


if __name__ == "__main__":
    main()
