# SPDX-License-Identifier: Apache-2.0
"""English words: which ones are spelled and defined, and what the definitions are.

The words come from Debian's wamerican-small, the definitions from WordNet 3.0 (Debian's wordnet-base). Common
nouns with a long gloss have a shorter definition of our own."""
import re

from draw import chance, is_held_out, rng
from tokenizer import tokenizer

WORD_LIST = "/usr/share/dict/american-english-small"
WORDNET = "/usr/share/wordnet/"
DEFINITION_COUNT = 1200

FAVORITES = """
    strawberry raspberry blueberry banana mississippi bookkeeper committee balloon coffee pepper letter
    rabbit apple butterfly elephant chocolate
""".split()

# A noun, what kind of thing it is, and its definition.
OWN_DEFINITIONS = """
dog|animal|a loyal animal with four legs that people keep as a pet
cat|animal|a small furry animal that purrs and catches mice
tiger|feline|a large striped cat that lives in the forests of Asia
lion|feline|a large cat with a mane that lives in Africa
apple|fruit|a round fruit with red or green skin and crisp white flesh
banana|fruit|a long curved fruit with yellow skin and soft sweet flesh
orange|fruit|a round juicy fruit with a thick skin that grows in warm places
lemon|fruit|a sour yellow fruit with much juice
grape|fruit|a small juicy fruit that grows in bunches and is used for wine
strawberry|fruit|a sweet red fruit with small seeds on its surface
potato|vegetable|a starchy vegetable that grows under the ground
tomato|vegetable|a soft red fruit that is eaten as a vegetable
hammer|tool|a tool with a heavy head that is used to hit nails
piano|instrument|a large instrument with black and white keys that strike strings
violin|instrument|a small instrument with four strings that is played with a bow
guitar|instrument|an instrument with six strings that are plucked by hand
doctor|person|a person who is trained to treat sick people
teacher|person|a person whose work is to teach
farmer|person|a person who grows plants and keeps animals
king|ruler|a man who rules a country
queen|ruler|a woman who rules a country
house|building|a building in which people live
school|institution|a place where children learn
car|vehicle|a motor vehicle with four wheels
train|vehicle|a line of coaches that runs on rails
bicycle|vehicle|a vehicle with two wheels that is moved by pedals
boat|vessel|a small vessel that travels on water
ship|vessel|a large vessel that carries people or goods over the sea
tree|plant|a tall plant with a wooden trunk and branches
flower|plant|the colored part of a plant from which seeds grow
rose|flower|a fragrant flower on a stem with thorns
moon|satellite|the natural satellite of the earth
sun|star|the star around which the earth moves
star|body|a hot ball of gas that shines in the night sky
earth|planet|the planet on which we live
planet|body|a large body that moves around a star
elephant|mammal|a very large animal with a trunk and two tusks
monkey|primate|a clever animal with long arms and a long tail that climbs trees
rabbit|mammal|a small animal with long ears that lives in burrows
mouse|rodent|a small rodent with a pointed nose and a long thin tail
bear|mammal|a big heavy animal with thick fur and strong claws
wolf|canine|a wild animal like a dog that hunts in packs
cow|mammal|a large female animal that is kept for milk
bee|insect|a flying insect that makes honey
spider|animal|a small animal with eight legs that spins a web
fish|animal|an animal that lives in water and breathes with gills
bird|animal|an animal with feathers and wings that lays eggs
penguin|bird|a black and white bird that swims well but cannot fly
owl|bird|a bird with large eyes that hunts at night
frog|animal|a small green animal that jumps and lives near water
turtle|reptile|a slow animal with a hard shell
whale|mammal|a very large mammal that lives in the sea
snake|reptile|a long thin reptile without legs
book|work|pages of writing that are bound together
computer|machine|a machine that computes by following a program
telephone|device|a device that carries voices over a distance
clock|device|a device that shows the time
knife|tool|a tool with a sharp blade for cutting
bread|food|a food that is baked from flour and water
cheese|food|a solid food that is made from milk
water|liquid|a clear liquid that falls as rain and fills the seas
fire|process|the heat and light of something that burns
snow|weather|water that falls from the sky as white flakes
rain|weather|water that falls from the clouds in drops
mountain|land|a very high piece of land
ocean|water|a very large body of salt water
forest|land|a large area that is covered with trees
island|land|a piece of land with water all around it
city|place|a large town in which many people live
robot|machine|a machine that can do work by itself
model|program|a program that has learned from examples
language|system|a system of words that people use to speak with each other
number|idea|an idea that is used to count and measure
letter|sign|a sign that stands for a sound in writing
word|unit|a unit of language that has a meaning
music|art|sounds that are put together so that they please
table|furniture|a piece of furniture with a flat top and legs
bed|furniture|a piece of furniture to sleep on
door|barrier|a barrier that opens and closes the way into a room
window|opening|an opening in a wall with glass that lets in light
"""

NOT_FOR_A_TOY = re.compile(r"\b(sex|slave|kill|breast|genital|penis|vagina|nazi|drug|negro|rape)")
# WordNet sorts its nouns into files by number.
ANIMAL, FOOD, PERSON, PLANT = 5, 13, 18, 20
CONCRETE = (6, 8, 15, 17, 25, 27)  # artifacts, bodies, locations, objects, shapes, substances


def read_lines(path):
    """The lines of a file; the lines of WordNet's licence, which begin with a space, are left out."""
    with open(path, encoding="utf-8") as file:
        return [line for line in file.read().splitlines() if not line.startswith(" ")]


def read_words():
    """The lower-case words of 3 to 11 letters."""
    return [word for word in map(str.strip, read_lines(WORD_LIST)) if re.fullmatch("[a-z]{3,11}", word)]


def read_senses():
    """WordNet's senses of nouns by offset: file number, first word, gloss, offsets of more general ones."""
    senses = {}
    for line in read_lines(WORDNET + "data.noun"):
        head, gloss = line.split("|", 1)
        fields = head.split()
        first_pointer = 5 + 2 * int(fields[3], 16)
        general = [fields[i + 1] for i in range(first_pointer, len(fields) - 1) if fields[i] in ("@", "@i")]
        senses[fields[0]] = (int(fields[1]), fields[4].replace("_", " "), gloss.strip(), general)
    return senses


def read_counts():
    """How often WordNet's authors found a noun, and each of its senses."""
    of_noun, of_sense = {}, {}
    for line in read_lines(WORDNET + "cntlist.rev"):
        key, sense, count = line.split()
        lemma, rest = key.split("%")
        if rest[0] == "1":
            of_noun[lemma] = of_noun.get(lemma, 0) + int(count)
            of_sense[lemma, int(sense)] = int(count)
    return of_noun, of_sense


def choose_sense(word, offsets, senses, of_sense):
    """The sense to define, and how well it suits a small model.

    A second sense is taken only where the first one is not used more often."""
    for index, offset in enumerate(offsets[:2]):
        file_number = senses[offset][0]
        as_common = of_sense.get((word, 1), 0) <= of_sense.get((word, index + 1), 0) + 1
        if file_number in (ANIMAL, FOOD, PLANT) and as_common:
            return offset, 2 if file_number == PLANT else 6
    first = senses[offsets[0]][0]
    return offsets[0], 2 if first in CONCRETE else 1 if first == PERSON else 0


def shorten(gloss):
    """A gloss without its examples, remarks and second part."""
    gloss = re.sub(r"\([^)]*\)", "", gloss).split(";")[0].split('"')[0]
    gloss = re.sub(r"\s+", " ", gloss).strip(" ,:")
    return re.sub(r" ,", ",", gloss)


def is_simple(word, gloss, kind):
    """Whether a definition is short, plain and harmless."""
    if not 3 <= len(gloss.split()) <= 13 or not gloss.isascii() or re.search(r"[0-9:`]", gloss):
        return False
    if NOT_FOR_A_TOY.search(gloss + " " + word):
        return False
    return kind.islower() and kind.replace(" ", "").isalpha() and len(kind) <= 18


def read_definitions():
    """WordNet's definitions of common nouns, the best known first: (word, kind, gloss)."""
    senses = read_senses()
    of_noun, of_sense = read_counts()
    known = set(WORDS)
    other_uses = {line.split(" ", 1)[0] for kind in ("adj", "adv", "verb")
                  for line in read_lines(WORDNET + "index." + kind)}
    found = []
    for line in read_lines(WORDNET + "index.noun"):
        fields = line.split()
        word, count = fields[0], of_noun.get(fields[0], 0)
        if word not in known or not 3 <= len(word) <= 10 or word in OWN or count == 0 and word in other_uses:
            continue
        offset, bonus = choose_sense(word, fields[-int(fields[2]):], senses, of_sense)
        _, _, gloss, general = senses[offset]
        gloss = shorten(gloss)
        if general and is_simple(word, gloss, senses[general[0]][1]):
            found.append((bonus * 3 + min(count, 40) ** .5 * 2, word, senses[general[0]][1], gloss))
    found.sort(key=lambda entry: (-entry[0], entry[1]))
    return [entry[1:] for entry in found]


def words_by_token():
    """The words of the training in which each token of the vocabulary occurs."""
    found = {}
    for word in WORDS:
        if not is_held_out("w" + word, 40):
            for token in tokenizer.encode(" " + word):
                found.setdefault(token, []).append(word)
    return found


OWN = {line.split("|")[0]: tuple(line.split("|")[1:]) for line in OWN_DEFINITIONS.strip().splitlines()}
WORDS = read_words()
WORDNET_DEFINITIONS = read_definitions()
DEFINITIONS = [(word, *definition) for word, definition in OWN.items()]
DEFINITIONS += WORDNET_DEFINITIONS[:DEFINITION_COUNT - len(OWN)]
DEFINED = [word for word, _, _ in DEFINITIONS]
# Nouns that the model is to say it does not know. A few hundred in between are in neither list.
UNDEFINED = [word for word, _, _ in WORDNET_DEFINITIONS[DEFINITION_COUNT + 300:]]
BY_TOKEN = words_by_token()
TOKENS = sorted(BY_TOKEN)


def any_word(held_out, shortest, longest):
    """A word of the list, with a preference for nouns that the model can define."""
    while True:
        if chance(.01) and not held_out:
            word = rng.choice(FAVORITES)
        else:
            word = rng.choice(DEFINED if chance(.35) else WORDS)
        if shortest <= len(word) <= longest and is_held_out("w" + word, 40) == held_out:
            return word


def word_to_spell(held_out=False, shortest=3, longest=11):
    """A word to spell. In half of the cases a token is drawn first, then one of its words.

    So the spelling of each token is seen equally often; by words alone, rare tokens are hardly ever seen."""
    while not held_out and chance(.5):
        word = rng.choice(BY_TOKEN[rng.choice(TOKENS)])
        if shortest <= len(word) <= longest:
            return word
    return any_word(held_out, shortest, longest)


def article(word):
    """The indefinite article."""
    return "an" if word[0] in "aeiou" else "a"
