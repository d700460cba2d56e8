# SPDX-License-Identifier: Apache-2.0
"""Values of tools' arguments: cities, persons, words, texts, numbers, times.

Open values (cities, persons, words) are split by a hash: the evaluation has others than the training.
Invented names are made of syllables, so that the model copies tokens instead of knowing names by heart."""
from chat import MORE_NAMES, NAMES
from draw import allowed, chance, number_of_digits, rng, weighted
from words import DEFINED, WORDS

CITIES = """
    Paris London Berlin Rome Madrid Lisbon Vienna Prague Warsaw Oslo Stockholm Helsinki Copenhagen
    Dublin Athens Brussels Amsterdam Zurich Geneva Munich Hamburg Cologne Milan Venice Naples Florence
    Turin Barcelona Seville Valencia Porto Lyon Nice Marseille Bordeaux Toulouse Moscow Kiev Istanbul
    Ankara Cairo Tunis Lagos Nairobi Dakar Accra Tokyo Kyoto Osaka Seoul Busan Beijing Shanghai Shenzhen
    Hangzhou Delhi Mumbai Chennai Bangkok Hanoi Manila Jakarta Singapore Sydney Melbourne Perth Auckland
    Toronto Montreal Vancouver Ottawa Boston Chicago Denver Seattle Portland Austin Dallas Houston Miami
    Atlanta Phoenix Detroit Memphis Nashville Orlando Havana Lima Quito Bogota Santiago Recife Brasilia
    Caracas Riga Vilnius Tallinn Sofia Zagreb Belgrade Budapest Krakow Gdansk Leipzig Dresden Bremen
    Salzburg Graz Basel Bern Lausanne Dubai Doha Baghdad Tehran Kabul Karachi Lahore Dhaka
""".split()
LONG_CITIES = [
    "San Francisco", "New York", "Los Angeles", "Hong Kong", "Tel Aviv", "Cape Town", "Rio de Janeiro",
    "Buenos Aires", "Mexico City", "Kuala Lumpur", "San Diego", "Las Vegas", "New Delhi", "Abu Dhabi",
    "Santa Fe", "Addis Ababa", "San Jose", "Salt Lake City", "St. Petersburg", "Sao Paulo", "Panama City",
    "El Paso", "Baden Baden", "Den Haag",
]
CITY_BEGINNINGS = ["San ", "New ", "Port ", "Bad ", "Old ", "Santa ", "Lake ", "East "]
SYLLABLES = """
    ba be bi bo bra cal cor da del dor el en fa fin gar gra ha hel il jo ka kel kor la len lo lu ma mar
    mel mi mon na nel no or pa per ra ri ro sa sel sha so ta tel tho ti tor u va vel vi wen wil ya zan
    zo
""".split()
ENDINGS = """
    n r s l a o ia us en is ard el ton ville burg field mont dale ford wick more stad by
""".split()
ADJECTIVES = """
    red blue green old new big small fast slow cold warm dark light fresh empty open quiet ready late early
    lost free busy clean broken
""".split()
DAYS = """
    Monday Tuesday Wednesday Thursday Friday Saturday Sunday
""".split()
LANGUAGES = """
    French German Spanish Italian Dutch Polish Greek Turkish Japanese Korean Swedish Danish
""".split()
COLORS = """
    red blue green yellow white black orange purple pink brown gray
""".split()
ROOMS = """
    kitchen bedroom office garage hall garden attic cellar bathroom library
""".split()
ENUMS = [
    ["small", "medium", "large"], ["low", "high"], ["low", "medium", "high"], ["celsius", "fahrenheit"],
    ["on", "off"], ["left", "right"], ["day", "night"], ["fast", "slow"],
    ["north", "south", "east", "west"], ["short", "long"], ["red", "green", "blue"], ["gold", "silver"],
    ["wood", "stone", "glass"], ["spring", "summer", "autumn", "winter"], ["male", "female"],
    ["hot", "cold"], ["light", "dark"], ["first", "last"], ["easy", "hard"],
]
CHORES = ["buy", "find", "clean", "fix", "paint", "sell", "water", "feed"]
MINUTES = [0, 5, 10, 15, 20, 30, 40, 45, 50]
DISHES = "pizza soup salad pasta sushi rice bread cake noodles curry".split()
COMMANDS = ["ls", "make", "git status", "git log", "npm test", "make test", "date", "pwd", "df", "uptime"]


# ---- names and words

def invent():
    """A name that no one has, of two to four syllables."""
    count = rng.choice([1, 2, 2])
    return ("".join(rng.choice(SYLLABLES) for _ in range(count)) + rng.choice(ENDINGS)).capitalize()


def any_city():
    """A city of the lists, or an invented one."""
    kind = rng.random()
    if kind < .48:
        return rng.choice(CITIES)
    if kind < .56:
        return rng.choice(LONG_CITIES)
    if kind < .62:
        return rng.choice(CITY_BEGINNINGS) + invent()
    return invent()


def city():
    """A city."""
    return allowed(any_city, "city")


def person():
    """A first name, often an invented one."""
    return allowed(lambda: rng.choice(NAMES + MORE_NAMES) if chance(.6) else invent(), "person")


def invented_name():
    """The name of a company or a restaurant."""
    return allowed(invent, "person")


def word():
    """A lower-case word."""
    return allowed(lambda: rng.choice(DEFINED if chance(.4) else WORDS), "lw")


def app_name():
    """The name of an app."""
    return allowed(lambda: invent() if chance(.6) else word(), "person")


def adjective():
    """An adjective."""
    return rng.choice(ADJECTIVES)


# ---- texts

def phrase():
    """A short text, such as a message or a title."""
    kind = rng.random()
    if kind < .14:
        return f"the {word()} is {adjective()}"
    if kind < .24:
        place = "at the " + word()
        return "see you " + rng.choice(["soon", "at noon", "on Monday", "tomorrow", place])
    if kind < .32:
        place = "at the " + word()
        return "I will be " + rng.choice(["late", "there", "home soon", place])
    if kind < .40:
        return f"please bring the {word()}"
    if kind < .46:
        return f"happy birthday {person()}"
    if kind < .52:
        hour = f"at {number_of_digits(2)}"
        return "call me " + rng.choice(["now", "later", hour])
    if kind < .60:
        return f"{rng.choice(CHORES)} the {word()}"
    if kind < .72:
        return f"{adjective()} {word()}"
    count = 2 if kind < .86 else 3
    return " ".join(word() for _ in range(count))


def query():
    """What is searched for."""
    return word() if chance(.3) else phrase()


def any_path():
    """The path of a file."""
    folder = rng.choice(["", "", "src/", "docs/", word() + "/"])
    return folder + word() + rng.choice([".txt", ".c", ".py", ".md", ".json", ".js"])


def file_path():
    """The path of a file, split between training and evaluation as a whole."""
    return allowed(any_path, "path")


def command():
    """A command of a shell."""
    with_paths = ["python " + file_path(), "cat " + file_path()]
    return rng.choice(COMMANDS + with_paths)


# ---- numbers, as text

def integer(digits=None):
    """A whole number."""
    return str(number_of_digits(digits or weighted([1, 2, 3, 4], [3, 5, 3, 1])))


def digit():
    """A digit."""
    return integer(1)


def integer_of_one_or_two_digits():
    """A small number."""
    return integer(rng.choice([1, 2]))


def integer_of_two_or_three_digits():
    """A larger number."""
    return integer(rng.choice([2, 3]))


def integer_of_four_digits():
    """A number as orders have it."""
    return integer(4)


def number():
    """A whole number, or one with a digit behind the point."""
    if chance(.6):
        return integer(rng.choice([1, 2, 3])) + "." + str(rng.randint(1, 9))
    return integer()


def time_of_day():
    """A time, such as 07:30."""
    return f"{rng.randint(0, 23):02d}:{rng.choice(MINUTES):02d}"


def expression():
    """An arithmetic expression."""
    operation = rng.choice(["+", "-", "*", "/"])
    text = f"{integer()} {operation} {integer()}"
    if chance(.3):
        return f"({text}) {rng.choice('+-*/')} {integer(1)}"
    return text.replace(" ", "") if chance(.25) else text


# ---- closed sets

def day():
    """A day of the week."""
    return rng.choice(DAYS)


def language():
    """A language."""
    return rng.choice(LANGUAGES)


def color():
    """A color."""
    return rng.choice(COLORS)


def room():
    """A room."""
    return rng.choice(ROOMS)


def dish():
    """Something to eat."""
    return rng.choice(DISHES)
