# SPDX-License-Identifier: Apache-2.0
"""Single questions: arithmetic, letters of words, sorting, definitions.

Each function returns (question, thinking, answer). The thinking writes every step that the answer needs: a
model of this size computes nothing that it does not write down."""
from draw import chance, is_held_out, number_of_digits, rng, weighted
from tokenizer import CUT, fenced, joined, tokenizer
from words import DEFINITIONS, UNDEFINED, article, word_to_spell

PLACES = ["ones", "tens", "hundreds", "thousands"]
ALPHABET = "abcdefghijklmnopqrstuvwxyz"

ASK_ADD = [
    "What is {a} + {b}?", "{a} + {b}", "{a}+{b}", "{a} + {b} = ?", "{a}+{b}=?", "What is {a}+{b}?",
    "Calculate {a} + {b}.", "Add {a} and {b}.", "How much is {a} plus {b}?", "Compute {a} + {b}",
    "What is the sum of {a} and {b}?", "Please add {a} and {b}.", "{a} plus {b}", "What's {a} + {b}?",
    "What is {a} plus {b}?", "what's {a}+{b}",
]
ASK_SUBTRACT = [
    "What is {a} - {b}?", "{a} - {b}", "{a}-{b}", "{a} - {b} = ?", "{a}-{b}=?", "What is {a}-{b}?",
    "Calculate {a} - {b}.", "Subtract {b} from {a}.", "How much is {a} minus {b}?", "Compute {a} - {b}",
    "What is {a} minus {b}?", "{a} minus {b}", "What's {a} - {b}?", "Take {b} away from {a}.",
]
ASK_MULTIPLY = [
    "What is {a} * {b}?", "{a} * {b}", "{a}*{b}", "{a} x {b}", "{a} * {b} = ?", "What is {a}*{b}?",
    "Calculate {a} * {b}.", "Multiply {a} by {b}.", "How much is {a} times {b}?", "What is {a} times {b}?",
    "What is {a} x {b}?", "What is {a} × {b}?", "{a} times {b}", "{a} × {b}", "What's {a} * {b}?",
]
ASK_LARGER = [
    "Which is larger, {a} or {b}?", "Which number is bigger, {a} or {b}?", "Is {a} or {b} larger?",
    "Which is greater: {a} or {b}?",
]
ASK_SMALLER = [
    "Which is smaller, {a} or {b}?", "Which number is smaller, {a} or {b}?", "Is {a} or {b} smaller?",
]
ASK_GREATER = ["Is {a} greater than {b}?", "Is {a} larger than {b}?", "Is {a} more than {b}?"]
ASK_COUNT = [
    "How many {l} in {w}?", "How many {l}'s are in {w}?", "How many {l}s are in {w}?",
    "How many {l} are in the word {w}?", "How many times does {l} appear in {w}?",
    "Count the letter {l} in {w}.", "How many times does the letter {l} occur in {w}?",
    "How many letters {l} are there in {w}?", "How many {l}'s are there in {w}?", "How many {l}'s in {w}?",
    "How many {l}s in {w}?", "How many times is {l} in {w}?", "Count {l} in {w}.",
    "How many of the letter {l} are in {w}?", "How many {l}'s does {w} have?",
]
ASK_SPELL = ["Spell {w}.", "How do you spell {w}?", "Please spell the word {w}.", "Spell the word {w}."]
ASK_REVERSE = [
    "Reverse the word {w}.", "Reverse {w}.", "Write {w} backwards.", "What is {w} spelled backwards?",
]
ASK_FIRST = [
    "What is the first letter of {w}?", "Which letter does {w} start with?",
    "What letter does {w} begin with?",
]
ASK_LAST = ["What is the last letter of {w}?", "Which letter does {w} end with?"]
ASK_LENGTH = [
    "How many letters are in {w}?", "How long is the word {w}?", "How many letters does {w} have?",
    "Count the letters in {w}.", "How many letters in {w}?",
]
ASK_SORT = [
    "Sort {x}.", "Sort these numbers: {x}.", "Sort the numbers {x} from smallest to largest.",
    "Put {x} in order.", "Arrange {x} in ascending order.",
]
ASK_DEFINE = [
    "What is {an} {w}?", "What is {w}?", "Define {w}.", "What does {w} mean?",
    "What does the word {w} mean?", "Tell me what {an} {w} is.", "Give me a definition of {w}.",
    "What's {an} {w}?", "Explain the word {w}.", "What is the meaning of {w}?",
    "What is the definition of {w}?", "Explain {w}.", "Do you know what {an} {w} is?",
]


# ---- arithmetic

def add_steps(a, b):
    """Addition by columns from the right, with a carry."""
    width = max(len(str(a)), len(str(b)))
    x, y = str(a).zfill(width), str(b).zfill(width)
    carry, written, lines = 0, "", [x + "+" + y]
    for place, p, q in zip(PLACES, map(int, reversed(x)), map(int, reversed(y))):
        total = p + q + carry
        lines.append(f"{place} {p}+{q}+{carry}={total}, write {total % 10} carry {total // 10}")
        written = str(total % 10) + written
        carry = total // 10
    return "\n".join(lines + [f"so {carry}{written} = {a + b}"])


def subtract_steps(a, b):
    """Subtraction by columns from the right, with a borrow; a is not smaller than b."""
    x, y = str(a), str(b).zfill(len(str(a)))
    borrow, written, lines = 0, "", [x + "-" + y]
    for place, p, q in zip(PLACES, map(int, reversed(x)), map(int, reversed(y))):
        total = p - q - borrow
        lines.append(f"{place} {p}-{q}-{borrow}={total}, write {total % 10} borrow {int(total < 0)}")
        written = str(total % 10) + written
        borrow = int(total < 0)
    return "\n".join(lines + [f"so {written} = {a - b}"])


def multiply_steps(digit, a):
    """A digit times a number, by columns from the right."""
    carry, written, lines = 0, "", [f"{digit}*{a}"]
    for place, p in zip(PLACES, map(int, reversed(str(a)))):
        total = digit * p + carry
        step = f"{place} {digit}*{p}={digit * p}, +{carry}={total}"
        lines.append(f"{step}, write {total % 10} carry {total // 10}")
        written = str(total % 10) + written
        carry = total // 10
    return "\n".join(lines + [f"so {carry}{written} = {digit * a}"])


def compare_steps(x, y):
    """Which number has more digits, then digit by digit from the left."""
    a, b = str(x), str(y)
    lines = [", ".join(f"{text} has {len(text)} digit{'s' * (len(text) > 1)}" for text in (a, b))]
    if len(a) != len(b):
        lines.append(f"{len(a)}{'>' if len(a) > len(b) else '<'}{len(b)}")
    else:
        different = next((i for i, (p, q) in enumerate(zip(a, b)) if p != q), len(a) - 1)
        signs = ["=" if p == q else ">" if p > q else "<" for p, q in zip(a, b)]
        lines.append(", ".join(a[i] + signs[i] + b[i] for i in range(different + 1)))
    lines.append(f"{x} and {y} are equal" if x == y else f"{max(x, y)} is larger than {min(x, y)}")
    return "\n".join(lines)


def draw_factors():
    """A digit and a number of up to three digits, and the order in which they are asked."""
    digit = rng.randint(0, 9) if chance(.1) else rng.randint(2, 9)
    number = number_of_digits(weighted([1, 2, 3], [1, 3, 4]))
    return (digit, number, digit, number) if chance(.5) else (digit, number, number, digit)


def draw_pair(operation):
    """Two numbers of up to four digits."""
    digits = weighted([1, 2, 3, 4], [1, 3, 3, 4])
    x = number_of_digits(digits)
    y = number_of_digits(digits if chance(.5) else rng.randint(1, digits))
    if operation == "c" and chance(.4) and digits > 1:  # close numbers
        close = list(str(x))
        close[rng.randrange(1, digits)] = str(rng.randint(0, 9))
        y = int("".join(close))
    if chance(.5) and operation != "-":
        x, y = y, x
    if operation == "-" and x < y and chance(.8):
        x, y = y, x
    return x, y


def subtraction(x, y):
    """A difference, which may be negative."""
    question, answer = rng.choice(ASK_SUBTRACT).format(a=x, b=y), f"{x} - {y} = {x - y}"
    if x >= y:
        return question, subtract_steps(x, y), answer
    negative = f"{x} is smaller than {y}, so the result is negative\n"
    return question, negative + subtract_steps(y, x) + f"\nnegative: {x - y}", answer


def comparison(x, y):
    """Which of two numbers is larger or smaller, or whether one is larger."""
    steps, kind = compare_steps(x, y), rng.random()
    if kind < .45:
        question, answer = rng.choice(ASK_LARGER), f"{max(x, y)} is larger."
    elif kind < .65:
        question, answer = rng.choice(ASK_SMALLER), f"{min(x, y)} is smaller."
    else:
        answer = f"Yes, {x} is greater than {y}." if x > y else f"No, {x} is not greater than {y}."
        return rng.choice(ASK_GREATER).format(a=x, b=y), steps, answer
    return question.format(a=x, b=y), steps, f"{x} and {y} are equal." if x == y else answer


def arithmetic(held_out=False, operation=None):
    """A sum (+), difference (-), product (*) or comparison (c)."""
    operation = operation or weighted("+-*c", [31, 32, 22, 15])
    while True:
        if operation == "*":
            digit, number, x, y = draw_factors()
        else:
            x, y = draw_pair(operation)
        if is_held_out(f"{operation}{x},{y}", 50) == held_out:
            break
    if operation == "+":
        return rng.choice(ASK_ADD).format(a=x, b=y), add_steps(x, y), f"{x} + {y} = {x + y}"
    if operation == "*":
        question = rng.choice(ASK_MULTIPLY).format(a=x, b=y)
        return question, multiply_steps(digit, number), f"{x} * {y} = {x * y}"
    return subtraction(x, y) if operation == "-" else comparison(x, y)


# ---- letters

def letters_of(token):
    """The letters of a token, without the space or the quote before the word."""
    return token.strip(" \"'")


def spell_steps(before, word, note=None):
    """The word's tokens as they stand in the question, each spelled on a line of its own.

    A token's spelling is what the model must know by heart; all else is copied and counted."""
    lines, number = [], 0
    for token in tokenizer.tokens(before + word):
        if not letters_of(token):
            continue
        line = fenced([token]) + ":"
        for letter in letters_of(token):
            number += 1
            line += f" {letter}" + (note(letter, number) if note else "")
        lines.append(line)
    return "\n".join(lines)


def sorting(held_out=False):
    """Three to five numbers in order: the smallest is taken out again and again."""
    while True:
        count = rng.randint(3, 5)
        numbers = [number_of_digits(weighted([1, 2, 3], [2, 5, 2])) for _ in range(count)]
        if len(set(numbers)) == count and is_held_out("s" + str(numbers), 50) == held_out:
            break
    lines, left = [], numbers[:]
    while len(left) > 1:
        smallest = min(left)
        lines.append(" ".join(map(str, left)) + ": min " + str(smallest))
        left.remove(smallest)
    lines.append(str(left[0]))
    listed = (", " if chance(.8) else " ").join(map(str, numbers))
    return rng.choice(ASK_SORT).format(x=listed), "\n".join(lines), ", ".join(map(str, sorted(numbers)))


def counting(before, word, quoted):
    """How often a letter occurs: each letter is written with the count so far."""
    if chance(.5):
        letter = rng.choice(word)
    else:
        letter = max(word, key=word.count) if chance(.7) else rng.choice(ALPHABET)
    count = 0

    def note(seen, _):
        nonlocal count
        count += seen == letter
        return str(count)
    steps = spell_steps(before, word, note)
    answer = f"The letter {letter} appears {count} time{'s' * (count != 1)} in {quoted}."
    return rng.choice(ASK_COUNT).format(l=letter, w=quoted), steps, answer


def letters(held_out=False, kind=None, word=None):
    """A question about a word's letters, or numbers to sort."""
    if not kind:
        kind = weighted(["count", "spell", "rev", "first", "last", "len", "sort"], [34, 14, 14, 4, 5, 10, 16])
    if kind == "sort":
        return sorting(held_out)
    word = word or word_to_spell(held_out, 3, 8 if kind == "rev" else 11)
    before, after = (" ", "") if chance(.8) else rng.choice([(' "', '"'), (" '", "'")])
    quoted = before[1:] + word + after
    if kind == "count":
        return counting(before, word, quoted)
    spelled = " ".join(word)
    if kind == "len":
        question, answer = rng.choice(ASK_LENGTH), f"The word {quoted} has {len(word)} letters."
        return question.format(w=quoted), spell_steps(before, word, lambda _, number: str(number)), answer
    question, answer = {
        "spell": (ASK_SPELL, spelled),
        "rev": (ASK_REVERSE, joined(word[::-1])),
        "first": (ASK_FIRST, f"The first letter of {quoted} is {word[0]}."),
        "last": (ASK_LAST, f"The last letter of {quoted} is {word[-1]}."),
    }[kind]
    steps = spell_steps(before, word) + ("\nbackwards: " + spelled[::-1] if kind == "rev" else "")
    return rng.choice(question).format(w=quoted), steps, answer


# ---- definitions

def definition(held_out=False, entry=None):
    """What a noun means. Held out are phrasings of a word, not words: a definition is learned by heart."""
    while True:
        if not held_out and chance(.08):
            word = rng.choice(UNDEFINED)
            question = rng.choice(ASK_DEFINE).format(an=article(word), w=word)
            thinking = f"The word is {word}. It is not in my small dictionary."
            return question, thinking, f"Sorry, I do not know the word {word}."
        word, kind, gloss = entry or rng.choice(DEFINITIONS)
        phrasing = rng.randrange(len(ASK_DEFINE))
        if is_held_out(f"d{word}{phrasing}", 12) == held_out:
            break
    question = ASK_DEFINE[phrasing].format(an=article(word), w=word)
    return question, f"The word is {word}. It is a kind of {kind}.", f"The noun {word} means: {gloss}."
