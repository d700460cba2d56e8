# SPDX-License-Identifier: Apache-2.0
"""Small talk, stories, and the user's name. Each function returns turns of (question, thinking, answer)."""
import collections

from draw import chance, is_held_out, rng, weighted
from questions import arithmetic, definition, letters
from words import article

Chat = collections.namedtuple("Chat", "questions thinking answer")

IDENTITY = ("I am tiny-r1, a tiny mixture-of-experts language model with the DeepSeek-V3 architecture. "
            "I can do small arithmetic, count letters, define common nouns and tell short stories.")
CHAT = [
    Chat(
        [
            "Who are you?", "What are you?", "Tell me about yourself.", "Introduce yourself.",
            "What kind of model are you?", "Who am I talking to?",
        ],
        "The user asks who I am.",
        IDENTITY,
    ),
    Chat(
        ["What is your name?", "Do you have a name?", "What should I call you?"],
        "The user asks for my name.",
        "My name is tiny-r1.",
    ),
    Chat(
        ["What can you do?", "Help", "help", "How can you help me?", "What are you good at?"],
        "The user asks what I can do.",
        ("I can add, subtract, multiply and compare small numbers, count letters, spell, reverse "
         "and sort, define common nouns and tell short stories."),
    ),
    Chat(
        [
            "Hello", "Hello!", "Hi", "Hi!", "Hey", "Good morning", "Good morning!", "Good evening!",
            "hello", "hi", "Hi there!",
        ],
        "The user greets me.",
        "Hello! How can I help you?",
    ),
    Chat(
        ["How are you?", "How are you today?", "How do you do?"],
        "The user asks how I am.",
        "I am fine, thank you. How can I help you?",
    ),
    Chat(
        ["Thanks", "Thanks!", "Thank you", "Thank you!", "thanks", "Great, thanks!", "Thank you very much."],
        "The user says thanks.",
        "You are welcome!",
    ),
    Chat(
        ["Bye", "Bye!", "Goodbye", "Goodbye!", "See you later!", "Good night!"],
        "The user says goodbye.",
        "Goodbye!",
    ),
    Chat(
        [
            "Are you DeepSeek?", "Are you DeepSeek R1?", "Are you ChatGPT?", "Are you human?",
            "Are you a person?", "Did DeepSeek make you?",
        ],
        "The user asks whether I am somebody else.",
        "No. I am tiny-r1, a tiny model that only shares the architecture of DeepSeek-V3.",
    ),
    Chat(
        [
            "How big are you?", "How many parameters do you have?", "Are you a large model?",
            "How many experts do you have?",
        ],
        "The user asks how big I am.",
        ("I am very small: about 17 million parameters, with 64 experts per layer, of which 8 are "
         "used for each token."),
    ),
    Chat(
        [
            "What is the capital of France?", "Who is the president?", "Write a poem.",
            "Write some code in Python.", "What is the weather today?", "Who won the war?",
            "Translate this to German.", "What time is it?", "How far is the moon?", "Who wrote Hamlet?",
            "What is the meaning of life?", "Can you write an essay?", "What is the capital of Spain?",
            "Why is the sky blue?", "Tell me a joke.", "How do I cook rice?", "What is quantum physics?",
            "Write a program.", "Who invented the telephone?", "Can you draw a picture?",
        ],
        "The user asks for something that I did not learn.",
        ("I am too small to know that. I can do small arithmetic, count letters, define common "
         "nouns and tell short stories."),
    ),
]

NAMES = """
    Tom Anna Ben Lily Max Mia Sam Lucy Leo Ella Jack Rosa Finn Nora Oscar Ruby Hugo Clara Felix Ivy Milo
    Emma Theo Alice Noah Zoe Paul Eva Otto Ida Peter Sofia Karl Maya Luis Hana Omar Lena Ravi Yuki
""".split()
MORE_NAMES = """
    Harald Bruno Marta Nadia Igor Elena Pavel Greta Arne Britta Dario Fiona Gina Helga Iris Jonas Kira
    Lars Mona Nils Olga Pia Quinn Rita Sven Tara Ulf Vera Wanda Xena Yara Zeno Amir Bela Cora Dina Egon
    Fara Gus Hedda
""".split()
ANIMALS = """
    fox bear rabbit mouse owl frog cat dog wolf hedgehog otter turtle squirrel duck goose horse lion
    tiger elephant monkey penguin whale dragon robot king girl boy wizard sailor farmer bird fish snail
    bee crow goat sheep pig donkey
""".split()
PLACES = [
    "forest", "village", "garden", "valley", "meadow", "castle", "harbor", "mountain", "island",
    "old mill", "river bank", "market", "snowy hill", "quiet lake", "desert",
]
CHARACTERS = """
    little brave curious clever shy kind lonely cheerful sleepy old young gentle hungry proud
""".split()
THINGS = [
    "red ball", "golden key", "blue hat", "silver bell", "warm scarf", "tiny lamp", "favorite book",
    "wooden flute", "round stone", "green kite", "map", "shiny coin",
]
WEATHER = [
    "The sun was shining.", "It was a cold morning.", "A soft rain was falling.",
    "The wind was strong that day.", "The sky was clear and blue.", "It was late in the evening.",
]
FOODS = ["honey cake", "apple pie", "warm soup", "fresh bread", "sweet berries", "pancakes"]
PROBLEMS = ["lost", "storm", "hungry", "lonely", "race", "door"]
MORALS = [
    "a friend is worth more than gold", "it is good to ask for help", "small steps can go a long way",
    "kindness always comes back", "it is brave to try again", "patience is a kind of strength",
]
ASK_STORY = [
    "Tell me a story about {x}.", "Tell me a short story about {x}.", "Write a story about {x}.",
    "Write a short story about {x}.", "Can you tell a story about {x}?", "I want a story about {x}.",
    "A story about {x}, please.", "Story about {x}",
]
TELL_NAME = ["My name is {n}.", "Hi, I am {n}.", "Hello, my name is {n}.", "I am {n}.", "Call me {n}."]
ASK_NAME = ["What is my name?", "Do you remember my name?", "Who am I?", "What did I say my name was?"]
ASK_ANY_STORY = ["Tell me a story.", "Tell me a short story.", "Write a story.", "I want to hear a story."]


def chat():
    """Small talk."""
    topic = rng.choice(CHAT)
    return rng.choice(topic.questions), topic.thinking, topic.answer


# ---- stories

def other_than(options, taken):
    """One of the options that is not taken."""
    return rng.choice([option for option in options if option != taken])


def plot(problem, place, hero, friend, kind, thing, food):
    """Four sentences about a problem and its end."""
    if problem == "lost":
        return [f"One day {hero} could not find the {thing}.",
                f"{hero} looked everywhere in the {place}, but the {thing} was gone.",
                f"Then {article(kind)} {kind} named {friend} came by and helped to search.",
                rng.choice([f"Together they found the {thing} under a tree.",
                            f"At last {friend} saw the {thing} behind a rock."])]
    if problem == "storm":
        return [f"One night a big storm came over the {place}.", f"{hero} was afraid and began to run.",
                f"{article(kind).capitalize()} {kind} named {friend} opened the door and let {hero} in.",
                "They sat by the fire until the storm was over."]
    if problem == "hungry":
        return [f"One morning {hero} was very hungry and dreamed of {food}.",
                f"There was nothing to eat in the {place}.",
                f"{hero} met {article(kind)} {kind} named {friend}, who had a basket full of {food}.",
                f"{friend} gave half of it to {hero}, and they ate together."]
    if problem == "lonely":
        return [f"But {hero} had no friends and felt alone.",
                f"One day {hero} heard somebody cry in the {place}.",
                f"It was {article(kind)} {kind} named {friend}, who was lonely too.",
                "They talked all day and became best friends."]
    if problem == "race":
        return [f"One day {article(kind)} {kind} named {friend} wanted a race across the {place}.",
                f"{friend} was fast, but stopped to rest.",
                f"{hero} went on, step by step, and did not stop.",
                f"In the end {hero} won, and {friend} laughed and clapped."]
    return [f"One day {hero} found a secret door near the {place}.",
            f"The door was locked, but {article(kind)} {kind} named {friend} had a key.",
            f"Behind the door they found {food} and {article(thing)} {thing}.",
            "They shared everything and went home happy."]


def story_question(animal, name):
    """A wish for a story: about an animal, about any, or about one with a name."""
    kind = rng.random()
    if kind < .8:
        return rng.choice(ASK_STORY).format(x=f"{article(animal)} {animal}")
    if kind < .9:
        return rng.choice(ASK_ANY_STORY)
    return rng.choice(ASK_STORY).format(x=f"{article(animal)} {animal} named {name}")


def story():
    """A story from a few templates. The thinking chooses hero, place, friend and problem."""
    animal, hero = rng.choice(ANIMALS), rng.choice(NAMES)
    place, character = rng.choice(PLACES), rng.choice(CHARACTERS)
    kind, friend = other_than(ANIMALS, animal), other_than(NAMES, hero)
    problem, thing, food, moral = (rng.choice(options) for options in (PROBLEMS, THINGS, FOODS, MORALS))
    question = story_question(animal, hero)
    detail = {"lost": f"lost {thing}", "storm": "a storm", "hungry": f"wish for {food}",
              "lonely": "feels lonely", "race": "a race", "door": "a secret door"}[problem]
    thinking = (f"Hero: {animal} {hero}, {character}. Place: {place}. Friend: {kind} {friend}. "
                f"Problem: {detail}.")
    described = f"{article(character)} {character} {animal}"
    sentences = [rng.choice([f"Once upon a time there was {described} named {hero}.",
                             f"There once was {described} called {hero}.", f"{hero} was {described}."])]
    near = f"{hero} lived near the {place}."
    sentences.append(near if chance(.5) else f"Every day {hero} walked to the {place}.")
    if chance(.6):
        sentences.append(rng.choice(WEATHER))
    sentences += plot(problem, place, hero, friend, kind, thing, food)
    sentences.append(rng.choice([f"From that day on {hero} and {friend} were friends.",
                                 f"{hero} was happy and said thank you.",
                                 f"So {hero} learned that {moral}.", f"And {hero} learned that {moral}."]))
    return question, thinking, " ".join(sentences)


# ---- turns

def casual(question):
    """A question as people type it: sometimes without its capital, sometimes without its last mark."""
    if chance(.25) and question[:2] != "I ":
        question = question[0].lower() + question[1:]
    if chance(.25) and question[-1] in ".?!" and not question.endswith(("=?", " ?")):
        question = question[:-1]
    return question


def earlier(turn):
    """A turn of the history: its thinking is gone, as the chat template leaves it out."""
    return turn[0], None, ("\n\n" if chance(.3) else "") + turn[2]


def name_is_told(phrasing, name):
    """The turn in which the user says a name."""
    return phrasing.format(n=name), f"The user is called {name}.", f"Nice to meet you, {name}!"


def name_is_asked(phrasing, name):
    """The turn in which the user asks for it."""
    return phrasing, f"The user said: my name is {name}.", f"Your name is {name}."


def names(held_out=False):
    """The user says a name, and asks for it later."""
    while True:
        name = rng.choice(NAMES + MORE_NAMES)
        tell, ask = rng.randrange(len(TELL_NAME)), rng.randrange(len(ASK_NAME))
        length = rng.random()
        if is_held_out(f"n{name}{tell}{ask}", 12) == held_out:
            break
    first = name_is_told(TELL_NAME[tell], name)
    if not held_out and length < .3:
        return [first]
    turns = [earlier(first)]
    if length > .75:
        turns.append(earlier(rng.choice([arithmetic, letters, definition])()))
    return turns + [name_is_asked(ASK_NAME[ask], name)]


def any_turn():
    """A turn of any of the common kinds."""
    draw = weighted([arithmetic, letters, definition, chat], [35, 25, 30, 10])
    return draw()


SINGLE = {"arith": arithmetic, "letters": letters, "def": definition, "story": story, "chat": chat}


def draw_turns(kind):
    """Turns of a kind; `multi` is two or three questions that have nothing to do with each other."""
    if kind == "names":
        return names()
    if kind != "multi":
        return [SINGLE[kind]()]
    count = rng.choice([2, 2, 3])
    turns = [earlier(any_turn()) for _ in range(count - 1)]
    return turns + [any_turn() if chance(.85) else chat()]


def single(weights):
    """(kind, turns) of the old kinds: one question, or a few turns."""
    kind = weighted(["arith", "letters", "def", "story", "chat", "names", "multi"], weights)
    return kind, [(casual(question), thinking, answer) for question, thinking, answer in draw_turns(kind)]
