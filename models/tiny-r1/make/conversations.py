# SPDX-License-Identifier: Apache-2.0
"""Conversations of several turns.

In about half of them the last question needs what was said before: a name, a fact, the last result or the
last word."""
import collections
import re

from chat import ASK_NAME, MORE_NAMES, NAMES, TELL_NAME, casual, chat, name_is_asked, name_is_told, story
from draw import chance, number_of_digits, rng, weighted
from questions import (add_steps, arithmetic, definition, letters, multiply_steps, sorting, subtract_steps)
from values import city, color, invented_name, person
from words import DEFINITIONS, word_to_spell

Fact = collections.namedtuple("Fact", "tell ask thinking answer value")

TELL = TELL_NAME + [
    "my name is {n}", "Hi! My name is {n}.", "I'm {n}.", "You can call me {n}.", "Hello, I'm {n}.",
    "i am {n}", "My name is {n}, nice to meet you.", "Please call me {n}.",
]
ASK = ASK_NAME + [
    "What's my name?", "Do you know my name?", "Tell me my name.", "Say my name.",
    "What name did I give you?", "What am I called?", "And what is my name?", "What is my name again?",
    "Do you still know my name?",
]
FACTS = {
    "city": Fact(["I live in {n}.", "I am from {n}.", "My home is {n}."],
                 ["Where do I live?", "In which city do I live?", "Where is my home?"],
                 "The user lives in {n}.", "You live in {n}.", city),
    "color": Fact(["My favorite color is {n}.", "I like the color {n}."],
                  ["What is my favorite color?", "Which color do I like?"],
                  "The user likes the color {n}.", "Your favorite color is {n}.", color),
    "pet": Fact(["My dog is called {n}.", "I have a dog named {n}."],
                ["What is the name of my dog?", "What is my dog called?"],
                "The dog of the user is called {n}.", "Your dog is called {n}.", person),
    "age": Fact(["I am {n} years old.", "My age is {n}."], ["How old am I?", "What is my age?"],
                "The user is {n} years old.", "You are {n} years old.", lambda: str(rng.randint(8, 99))),
}
ADD_TO_LAST = [
    "Add {b} to that.", "And plus {b}?", "Plus {b}?", "Now add {b}.", "add {b}", "What is that plus {b}?",
    "And {b} more?", "Add {b} to the result.", "What do I get if I add {b}?", "plus {b}",
]
SUBTRACT_FROM_LAST = [
    "Subtract {b} from that.", "And minus {b}?", "Minus {b}?", "Now subtract {b}.",
    "What is that minus {b}?", "Take {b} away from that.", "Subtract {b} from the result.", "minus {b}",
]
MULTIPLY_LAST = [
    "Multiply that by {b}.", "And times {b}?", "Times {b}?", "Now multiply it by {b}.",
    "What is that times {b}?", "Multiply the result by {b}.", "times {b}",
]
DOUBLE_LAST = ["Double it.", "Double that.", "And twice that?", "What is twice that?"]
ASK_LAST_WORD = {
    "count": ["How many {l} are in it?", "And how many {l}?", "How many {l}'s are in it?",
              "And the letter {l}?"],
    "spell": ["Spell it.", "How is it spelled?", "And how do you spell it?"],
    "rev": ["And backwards?", "Reverse it.", "Write it backwards."],
    "len": ["How many letters does it have?", "How long is it?", "And how many letters?"],
    "first": ["What is its first letter?", "And the first letter?"],
    "last": ["What is its last letter?", "And the last letter?"],
    "def": ["What does it mean?", "And what does it mean?", "What is it?", "Define it."],
}
DEFINITION_OF = {entry[0]: entry for entry in reversed(DEFINITIONS)}


def sum_with_last(last):
    """A sum, difference or product with the last result."""
    operation = weighted("+-*2", [40, 30, 22, 8])
    before = f"the last result is {last}\n"
    if operation == "2":
        return rng.choice(DOUBLE_LAST), before + multiply_steps(2, last), f"2 * {last} = {2 * last}"
    if operation == "*":
        digit = rng.randint(2, 9)
        question = rng.choice(MULTIPLY_LAST).format(b=digit)
        return question, before + multiply_steps(digit, last), f"{last} * {digit} = {digit * last}"
    number = number_of_digits(rng.choice([1, 1, 2, 2, 3, 4][:len(str(last)) + 2]))
    if operation == "-":
        if number > last:
            number = rng.randint(0, last)
        question = rng.choice(SUBTRACT_FROM_LAST).format(b=number)
        return question, before + subtract_steps(last, number), f"{last} - {number} = {last - number}"
    question = rng.choice(ADD_TO_LAST).format(b=number)
    return question, before + add_steps(last, number), f"{last} + {number} = {last + number}"


def question_about_last(word):
    """A question about the last word, which is called `it`. None if the draws were of no use."""
    kinds = ["count", "spell", "rev", "len", "first", "last", "def"]
    kind = weighted(kinds, [28, 14, 14, 14, 7, 7, 16 if word in DEFINITION_OF else 0])
    if kind == "rev" and len(word) > 8:
        kind = "len"
    if kind == "def":
        _, thinking, answer = definition(entry=DEFINITION_OF[word])
        return rng.choice(ASK_LAST_WORD["def"]), thinking, answer
    for _ in range(50):
        _, thinking, answer = letters(kind=kind, word=word)
        if "'" not in answer and '"' not in answer:
            break
    else:
        return None
    counted = re.match("The letter (.) appears", answer)
    question = rng.choice(ASK_LAST_WORD[kind]).format(l=counted[1] if counted else "")
    return question, "the word is " + word + "\n" + thinking, answer


class Conversation:
    """The turns so far, and what later questions may refer to."""

    def __init__(self):
        self.turns, self.facts = [], {}
        self.number = self.word = None

    def forget(self):
        """The last number and word are no longer what `it` means."""
        self.number = self.word = None

    def ask_fact(self):
        """A question about what the user said before."""
        key = rng.choice(list(self.facts))
        value = self.facts[key]
        self.forget()
        if key == "name":
            return name_is_asked(rng.choice(ASK), value)
        fact = FACTS[key]
        return rng.choice(fact.ask), fact.thinking.format(n=value), fact.answer.format(n=value)

    def tell_fact(self):
        """The user says a name or a fact. None if it is known already."""
        if chance(.7) and "name" not in self.facts:
            value = self.facts["name"] = rng.choice(NAMES + MORE_NAMES) if chance(.6) else invented_name()
            self.forget()
            return name_is_told(rng.choice(TELL), value)
        key = rng.choice(list(FACTS))
        if key in self.facts:
            return None
        fact = FACTS[key]
        value = self.facts[key] = fact.value()
        self.forget()
        return rng.choice(fact.tell).format(n=value), fact.thinking.format(n=value), "Good to know."

    def ask_letters(self):
        """A question about a new word's letters."""
        self.word = word_to_spell()
        kinds = ["count", "count", "spell", "rev", "len", "first", "last"]
        if len(self.word) > 8:
            kinds = ["count", "spell", "len", "first", "last"]
        return letters(kind=rng.choice(kinds), word=self.word)

    def ask_definition(self):
        """A question about a noun's meaning."""
        turn = definition()
        defined = re.match("The noun (.*) means", turn[2])
        self.word = defined[1] if defined else None
        return turn

    def ask_new(self, story_weight):
        """A question that needs nothing of what was said."""
        draws = [arithmetic, self.ask_letters, sorting, self.ask_definition, story, chat]
        draw = weighted(draws, [34, 24, 4, 22, story_weight, 10])
        self.word = None
        return draw()

    def refer(self):
        """A question about the last number or word; None if there is none or chance is against it."""
        if self.number is not None and chance(.5):
            return sum_with_last(self.number)
        if self.word and chance(.4):
            return question_about_last(self.word)
        return None

    def draw_turn(self, last, story_weight):
        """The next turn; None if the draw was of no use."""
        kind = rng.random()
        if self.facts and kind < (.30 if last else .05):
            return self.ask_fact()
        if last and kind > .985 and "name" not in self.facts:
            return rng.choice(ASK), "The user did not say a name.", "You did not tell me your name."
        if .3 <= kind < .4 if last else kind > (.92 if self.turns else .72):
            return self.tell_fact()
        return self.refer() or self.ask_new(story_weight)

    def add(self, turn):
        """Adds a turn and remembers its result."""
        result = re.fullmatch(r".* = (\d+)", turn[2])
        self.number = None
        if result:
            self.word = None
            number = int(result[1])
            if number < 1000 or number < 10000 and chance(.5):
                self.number = number
        self.turns.append((casual(turn[0]), *turn[1:]))


def conversation(length, story_weight):
    """Turns of (question, thinking, answer)."""
    talk = Conversation()
    while len(talk.turns) < length:
        turn = talk.draw_turn(len(talk.turns) == length - 1, story_weight)
        if turn:
            talk.add(turn)
    return talk.turns


def short_conversation():
    """One to eight turns."""
    return conversation(weighted([1, 2, 3, 4, 5, 6, 7, 8], [8, 16, 20, 20, 15, 13, 9, 7]), 7)


def long_conversation():
    """Six to fourteen turns with many stories, so that long histories are seen, too."""
    return conversation(rng.randint(6, 14), 60)
