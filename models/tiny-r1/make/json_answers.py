# SPDX-License-Identifier: Apache-2.0
"""The single questions again, with answers in JSON where the question or the system text asks for it."""
import json
import re

from chat import casual, chat, names
from documents import Document, any_system_text
from draw import chance, rng, weighted
from questions import arithmetic, definition, letters
from tokenizer import CUT, fenced, plain, tokenizer
from tools import copied
from values import word

SUFFIXES = [
    "Answer as JSON.", "as JSON", "in JSON", "Answer in JSON.", "Reply as JSON.", "Reply in JSON.",
    "Give the answer as JSON.", "Respond with JSON.", "JSON please.", "(as JSON)", "Return JSON.",
    "Output JSON.", "Use JSON.", "Please answer in JSON.", "As JSON, please.",
]
PREFIXES = ["As JSON: ", "In JSON: ", "JSON: ", "Answer in JSON: ", "Reply as JSON. "]
JSON_SYSTEM_TEXTS = [
    "Answer in JSON.", "Answer in JSON", "You answer in JSON.", "Always answer in JSON.",
    "Reply with JSON only.", "Respond in JSON.", "You are a helpful assistant. Answer in JSON.",
    "Output JSON only.", "Answer as JSON.", "You are a JSON service.", "Give all answers as JSON.",
    "You are a helpful assistant that outputs JSON.",
]
WITH_KEY = [
    ' Answer as JSON with the key "{k}".', ' Use JSON with the key "{k}".', ' As JSON with the key "{k}"',
    ' Reply in JSON, key "{k}".',
]
OPERATIONS = {"+": "sum", "-": "difference", "*": "product"}


def asked_word(text):
    """The word that the question was about, as the question's tokens."""
    quoted = text[0] in "\"'"
    word_alone = text.strip("\"'")
    before = " " + text[0] if quoted else " "
    tokens = [token for token in tokenizer.tokens(before + word_alone) if token.strip(" \"'")]
    first = tokens[0].strip(" \"'")
    if quoted or tokens[0][0] != " ":
        return fenced([first] + tokens[1:])
    return fenced(tokenizer.tokens(first) + tokens[1:])


def text_value(text):
    """A JSON string."""
    return f'"{text}"'


def letter_list(spelled):
    """A JSON list of letters."""
    return "[" + ", ".join(map(text_value, spelled.split())) + "]"


# The form of an answer, and the members of its JSON made from the groups of that form.
FORMS = [
    (r"-?\d+ ([-+*]) \d+ = (-?\d+)", lambda operation, result: [(OPERATIONS[operation], result)]),
    (r"(\d+) is (larger|smaller)\.", lambda number, key: [(key, number)]),
    (r"\d+ and \d+ are equal\.", lambda: [("equal", "true")]),
    (r"(Yes|No), \d+ is .*greater than.*", lambda said: [("greater", "true" if said == "Yes" else "false")]),
    (r"The letter (.) appears (\d+) times? in (.*)\.", lambda letter, count, text: [
        ("word", text_value(asked_word(text))), ("letter", text_value(letter)), ("count", count)]),
    (r"The (first|last) letter of .* is (.)\.", lambda key, letter: [(key, text_value(letter))]),
    (r"The word (.*) has (\d+) letters\.", lambda text, count: [
        ("word", text_value(asked_word(text))), ("letters", count)]),
    (r"(\d+(?:, \d+)+)", lambda numbers: [("sorted", f"[{numbers}]")]),
    (r"([a-z](?: [a-z])+)", lambda spelled: [("spelling", letter_list(spelled))]),
    (f"([a-z](?:{CUT}[a-z])+)", lambda reverse: [("reversed", text_value(reverse))]),
    (r"The noun (.*) means: (.*)\.", lambda noun, gloss: [
        ("word", text_value(asked_word(noun))), ("definition", text_value(copied(gloss)))]),
    (r"Sorry, I do not know the word (.*)\.", lambda noun: [
        ("word", text_value(asked_word(noun))), ("definition", "null")]),
    (r"Your name is (.*)\.", lambda name: [("name", text_value(copied(name)))]),
    (r"My name is (tiny-r1)\.", lambda name: [("name", text_value(name))]),
    (r'([^"]*)', lambda text: [("answer", text_value(text))]),
]


def members_of(answer):
    """An answer as the members of a JSON object, or None if it has no such form."""
    for pattern, make in FORMS:
        match = re.fullmatch(pattern, answer)
        if match:
            return make(*match.groups())
    return None


def draw_turn(held_out):
    """(history, turn) of a single question, or None if the draw was of no use."""
    kind = rng.random()
    if kind < .06:
        turns = names(held_out)
        if len(turns) != 2:
            return None
        return [("user", turns[0][0]), ("assistant", turns[0][2])], turns[1]
    if kind < .12 and not held_out:
        return [], chat()
    return [], weighted([arithmetic, letters, definition], [36, 44, 18])(held_out)


def draw_question(held_out):
    """(history, turn, members): a question and its answer as JSON."""
    while True:
        drawn = draw_turn(held_out)
        members = drawn and members_of(drawn[1][2])
        if members:
            return (*drawn, members)


def ask_for_json(question, members):
    """The question with a wish for JSON, and the wished key if there is one."""
    if chance(.15):
        return rng.choice(PREFIXES) + question, None
    if chance(.16) and len(members) == 1:
        key = word()
        return question + rng.choice(WITH_KEY).format(k=key), key
    if question[-1] == "?" and chance(.4):
        return question[:-1].rstrip(" =") + rng.choice([" as JSON?", " in JSON?"]), None
    space = " " if question[-1] in ".?!" else rng.choice([" ", ", ", ". "])
    return question + space + rng.choice(SUFFIXES), None


def is_json(text):
    """Whether a text is JSON: a definition may have a quote in it."""
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def json_document(held_out=False):
    """A question whose answer is a JSON object."""
    while True:
        history, (question, thinking, _), members = draw_question(held_out)
        question, system = casual(question), ""
        if chance(.35):
            system = rng.choice(JSON_SYSTEM_TEXTS)
        else:
            question, key = ask_for_json(question, members)
            system = any_system_text() if chance(.15) else ""
            if key:
                members = [(fenced(tokenizer.tokens(key)), members[0][1])]
        answer = "{" + ", ".join(f'"{key}": {value}' for key, value in members) + "}"
        if is_json(plain(answer)):
            return Document("json", system, [], history + [("user", question)], thinking, answer)
