# SPDX-License-Identifier: Apache-2.0
"""Tools and requests for them: everyday ones under changing names, and invented ones of a verb and a noun."""
import collections
import re

from documents import about
from draw import Mode, allowed, chance, rng, weighted
from everyday_tools import BOOLEAN, ENUM, EVERYDAY_TOOLS, INTEGER, NAMED_PARAMETERS, NUMBER, STRING
from tokenizer import fenced, tokenizer
from values import ENUMS, city, integer, invent, number, person, phrase, word
from words import DEFINED, WORDS, article

# An argument of a request; `quoted`: the request has it in quotes.
Argument = collections.namedtuple("Argument", "name type value quoted")
# A request for a tool; `family`: the names of an everyday tool, None for an invented one.
Request = collections.namedtuple("Request", "tool question arguments family wanted")

VERBS = """
    make open close start stop find get show read write send paint clean sell buy rent move lock check
    count print save load copy delete create build fix order book cancel draw play record share hide
    sort update watch wash cook cut mix test scan call invite feed water park plan list pack lift heat
    cool fill empty weigh measure rate block mark sign store track log add remove set
""".split()
ARTICLES = ["the ", "a ", "my ", "", "the "]
ENUM_NAMES = ["mode", "kind", "size", "type", "style", "unit"]
# A request has one place, one person and one free text at most, and the text comes last.
GROUPS = {
    "city": "place", "place": "place", "name": "person", "person": "person", "to": "person",
    "owner": "person", "user": "person", "text": "text", "title": "text", "topic": "text",
}
INVENTED_REQUESTS = [
    "{V} {a}{n}{b}", "{V} {a}{n}{b}.", "Please {v} {a}{n}{b}.", "Can you {v} {a}{n}{b}?",
    "I want to {v} {a}{n}{b}.", "Could you {v} {a}{n}{b}?", "{v} {a}{n}{b}", "I need to {v} {a}{n}{b}",
    "Use {t} to {v} {a}{n}{b}.",
]
HELD_OUT_PREFIXES = ["my", "new", "do", "run", "the", "app", "home", "x"]
PREFIXES = "tool api call our user please simple quick main try ask web go old get a".split()
SUFFIXES = ["tool", "now", "api", "v2", "user", "for_me"]
MORE_SENTENCES = [
    "Needs {k}.", "Takes {k}.", "Returns text.", "Returns a list.", "Use it when the user asks for it.",
    "It is fast.", "The result is JSON.", "Only for the {k}.",
]
# Everyday tools that one request may mean: none of a row is offered while another one is asked for.
ALIKE = [row.split() for row in """
    calculator add multiply random_number
    search get_news get_definition translate read_file list_files get_user
    find_route book_flight get_distance
    convert_currency convert_units
    set_timer set_alarm create_reminder create_event
    send_message send_email call_person
    book_table find_restaurant order_food book_hotel
    read_file list_files run_command open_app
""".strip().splitlines()]
ALIKE_VERBS = [set(pair.split()) for pair in """
    make build, make create, build create, cancel stop, stop close, send write, log record, log track,
    lift move, make cook, save store, order buy, order book, fix repair, measure check, test check,
    delete remove
""".split(",")]
LOOKING_VERBS = {"get", "show", "find", "list", "check", "read", "watch", "search"}


# ---- a tool and a request for it

def tool_of(name, description, parameters):
    """A tool as the OpenAI API describes it; parameters are (name, type, enum or None)."""
    properties = {key: {"type": "string", "enum": enum} if kind == ENUM else {"type": kind}
                  for key, kind, enum in parameters}
    schema = {"type": "object", "properties": properties, "required": [key for key, _, _ in parameters]}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


def name_of(tool):
    """A tool's name."""
    return tool["function"]["name"]


def in_quotes(value, quoted):
    """A value as the request has it."""
    return f'"{value}"' if quoted else value


def everyday_name(names):
    """A name that is to be read from the list: most are changed, so that none is worth learning by heart."""
    if Mode.evaluation:
        return rng.choice(HELD_OUT_PREFIXES) + "_" + rng.choice(names)
    name, change = rng.choice(names), rng.random()
    if change < .3:
        return word() + "_" + name
    if change < .42:
        suffix = word()
        return name + "_" + rng.choice(SUFFIXES + [suffix])
    if change < .55:
        return rng.choice(PREFIXES) + "_" + name
    if change < .6:
        first, *others = name.split("_")
        return first + "".join(part.capitalize() for part in others)
    return name


def everyday_request():
    """A request for an everyday tool."""
    family = rng.choice(EVERYDAY_TOOLS)
    name = everyday_name(family.names)
    keys = [rng.choice(parameter.names) for parameter in family.parameters]
    wording = rng.choice(family.requests)
    named = [i for i in range(len(keys)) if "{%d}" % i in wording]
    absent = [i for i in range(len(keys)) if i not in named and chance(.6)]
    values = [rng.choice(parameter.values) if parameter.type == ENUM else parameter.values()
              for parameter in family.parameters]
    quoted = [parameter.type == STRING and chance(.12) for parameter in family.parameters]
    if wording.startswith("{0}"):
        quoted[0] = False
    question = wording.format(*map(in_quotes, values, quoted))
    description = rng.choice(family.descriptions)
    parameters = [(keys[i], parameter.type, parameter.values if parameter.type == ENUM else None)
                  for i, parameter in enumerate(family.parameters) if i not in absent]
    arguments = [Argument(keys[i], family.parameters[i].type, values[i], quoted[i]) for i in named]
    return Request(tool_of(name, description, parameters), question, arguments, family.names, family.wanted)


def word_or_two(probability):
    """A word, or with some probability two of them."""
    first = word()
    return first + "_" + word() if chance(probability) else first


def value_of(kind, enum):
    """A value of a type."""
    if kind == STRING:
        return rng.choice([city, person, word, word, phrase])()
    if kind == INTEGER:
        return integer()
    if kind == NUMBER:
        return number()
    return rng.choice(["true", "false"] if kind == BOOLEAN else enum)


class InventedArguments:
    """The parameters of an invented tool, and the part of a request that has the arguments."""

    def __init__(self):
        self.parameters, self.arguments, self.text = [], [], ""
        self.count = weighted([0, 1, 2, 3], [1, 6, 6, 3])
        natural = chance(.45)
        self.pool = list(NAMED_PARAMETERS)
        rng.shuffle(self.pool)
        first, further = self.draw_separators()
        self.separator = first
        for index in range(self.count):
            absent = chance(.1)
            if not natural:
                self.add_by_name(absent, further)
            elif chance(.18):
                self.add_enum(absent)
            else:
                self.add_natural(self.natural_parameters()[index], absent)
        if first == " ({k}: {v}" and self.separator != first:
            self.text += ")"
        if chance(.15) and len(self.parameters) > 1:
            rng.shuffle(self.parameters)
        order = [name for name, _, _ in self.parameters]
        self.arguments.sort(key=lambda argument: order.index(argument.name))

    @staticmethod
    def draw_separators():
        """How the first argument and further ones are named."""
        first = rng.choice([" with {k} {v}", " with {k} {v}", ", {k} {v}", " ({k}: {v}", " with {k} = {v}",
                            ": {k} {v}"])
        after_equals = rng.choice([" and {k} = {v}", ", {k} = {v}"])
        after_with = rng.choice([" and {k} {v}", ", {k} {v}"])
        further = {" ({k}: {v}": ", {k}: {v}", " with {k} = {v}": after_equals, " with {k} {v}": after_with}
        return first, further.get(first, ", {k} {v}")

    def natural_parameters(self):
        """As many parameters as the tool has, of different groups, the free text last."""
        found = {}
        for parameter in self.pool:
            found.setdefault(GROUPS.get(parameter.name, parameter.name), parameter)
        chosen = list(found.values())[:self.count]
        return sorted(chosen, key=lambda parameter: GROUPS.get(parameter.name) == "text")

    def add_parameter(self, name, kind, enum=None):
        """Adds a parameter, unless there is one of this name."""
        if name in [each for each, _, _ in self.parameters]:
            return False
        self.parameters.append((name, kind, enum))
        return True

    def add_enum(self, absent):
        """Adds an enum, in plain words. The request leaves the argument out if it is absent."""
        enum, name = rng.choice(ENUMS), rng.choice(ENUM_NAMES)
        if self.add_parameter(name, ENUM, enum) and not absent:
            value = rng.choice(enum)
            self.text += rng.choice([f" in {name} {value}", f", {name} {value}", f" with {name} {value}"])
            self.arguments.append(Argument(name, ENUM, value, False))

    def add_natural(self, parameter, absent):
        """Adds a parameter in plain words, as in `for 5 minutes`."""
        if not self.add_parameter(parameter.name, parameter.type) or absent:
            return
        if parameter.type == BOOLEAN:
            true = chance(.5)
            self.text += rng.choice(parameter.phrases[0 if true else 1])
            self.arguments.append(Argument(parameter.name, BOOLEAN, "true" if true else "false", False))
            return
        value = parameter.values()
        quoted = parameter.type == STRING and chance(.15)
        self.text += rng.choice(parameter.phrases).format(v=in_quotes(value, quoted))
        self.arguments.append(Argument(parameter.name, parameter.type, value, quoted))

    def add_by_name(self, absent, further):
        """Adds a parameter that the request names, as in `with size = 5`."""
        kind = weighted([STRING, INTEGER, NUMBER, BOOLEAN, ENUM], [6, 4, 2, 2, 3])
        name = rng.choice(self.pool).name if chance(.4) else word_or_two(.2)
        enum = rng.choice(ENUMS) if chance(.6) else [word() for _ in range(rng.randint(2, 4))]
        if not self.add_parameter(name, kind, enum if kind == ENUM else None) or absent:
            return
        value = value_of(kind, enum)
        quoted = kind == STRING and chance(.15)
        spoken = name.replace("_", " ") if chance(.6) else name
        self.text += self.separator.format(k=spoken, v=in_quotes(value, quoted))
        self.separator = further
        self.arguments.append(Argument(name, kind, value, quoted))


def invented_name_of_tool(verb, noun):
    """A tool's name: mostly its verb and noun."""
    kind = rng.random()
    if kind < .72:
        return f"{verb}_{noun}"
    if kind < .82:
        return f"{noun}_{verb}"
    if kind < .9:
        return verb + noun.capitalize()
    return allowed(lambda: invent().lower(), "tool")


def invented_request():
    """A request for an invented tool."""
    verb = rng.choice(VERBS) if Mode.evaluation else allowed(lambda: rng.choice(VERBS), "verb", 12)
    noun = allowed(lambda: rng.choice(DEFINED if chance(.6) else WORDS), "tn")
    name, an = invented_name_of_tool(verb, noun), article(noun)
    description = rng.choice([f"{verb.capitalize()} {an} {noun}.", f"{verb.capitalize()} the {noun}.",
                              f"Can {verb} {an} {noun}.", f"{verb} {an} {noun}"])
    found = InventedArguments()
    wording = rng.choice(INVENTED_REQUESTS)
    if "{t}" in wording and chance(.5):
        wording = "{V} {a}{n}{b}."
    question = wording.format(V=verb.capitalize(), v=verb, a=rng.choice(ARTICLES), n=noun, b=found.text,
                              t=name)
    tool = tool_of(name, description, found.parameters)
    return Request(tool, question, found.arguments, None, f"{verb} {noun}")


def any_request():
    """A request for any tool. Some descriptions are longer, and a few are missing."""
    found = everyday_request() if chance(.45) else invented_request()
    function, kind = found.tool["function"], rng.random()
    if kind < .10:
        names = list(function["parameters"]["properties"]) or ["text"]
        more = [rng.choice(MORE_SENTENCES).format(k=rng.choice(names)) for _ in range(rng.choice([1, 1, 2]))]
        function["description"] = function["description"].rstrip(".") + ". " + " ".join(more)
    elif kind < .13 and "_" in function["name"] and found.family is None:
        function["description"] = ""
    return found


# ---- the other tools of the list

def too_close(family, name):
    """Names that may not stand in the list of tools with this one."""
    names = list(family or []) + [name]
    for row in ALIKE:
        if family and family[0] in row:
            names += row
    return names


def other_tools(count, avoid):
    """Tools that a request does not mean."""
    tools, taken = [], set(avoid)
    while len(tools) < count:
        found = any_request()
        name, family = name_of(found.tool), found.family
        if name in taken or family and (set(family) & taken or name.split("_")[-1] in taken):
            continue
        taken.add(name)
        taken.update(too_close(family, name))
        tools.append(found.tool)
    return tools


def mean_the_same(verb, other):
    """Whether two verbs may be said of one thing."""
    return verb != other and ({verb, other} <= LOOKING_VERBS or {verb, other} in ALIKE_VERBS)


def near_tools(tool, wanted):
    """Tools near the wanted one: its verb with another noun, or another verb with its noun."""
    verb, noun = wanted.split(" ", 1)
    tools = []
    for _ in range(rng.choice([1, 1, 2, 2])):
        found = invented_request()
        other_verb, other_noun = found.wanted.split(" ", 1)
        a, b = (verb, other_noun) if chance(.5) else (other_verb, noun)
        taken = [name_of(each) for each in tools + [tool]]
        if (a, b) == (verb, noun) or f"{a}_{b}" in taken or mean_the_same(a, verb):
            continue
        function = found.tool["function"]
        if chance(.75):
            function["name"] = f"{a}_{b}"
        else:
            invented = invent().lower()
            function["name"] = rng.choice([f"{b}_{a}", a + b.capitalize(), invented])
        function["description"] = rng.choice([f"{a.capitalize()} {article(b)} {b}.",
                                              f"{a.capitalize()} the {b}.", f"Can {a} {article(b)} {b}."])
        tools.append(found.tool)
    return tools


# ---- arguments and the choice of a tool, as the answer has them

def copied(value, quoted=False):
    """A value as the call writes it: the tokens of the request, only the first one without its space.

    So a name that was never seen is a copy of tokens. `Paris` alone would be other tokens than ` Paris`."""
    if quoted:
        tokens = tokenizer.tokens('"' + value)
        return fenced(tokens[1:] if tokens[0] == '"' else tokenizer.tokens(value))
    tokens = tokenizer.tokens(" " + value)
    if tokens[0] == " ":
        return fenced(tokens[1:])
    if tokens[0].startswith(" "):
        return fenced(tokenizer.tokens(tokens[0][1:]) + tokens[1:])
    return fenced(tokens)


def argument_text(argument):
    """An argument as JSON."""
    if argument.type in (INTEGER, NUMBER, BOOLEAN):
        return f'"{argument.name}": {argument.value}'
    value = argument.value if argument.type == ENUM else copied(argument.value, argument.quoted)
    return f'"{argument.name}": "{value}"'


def arguments_text(arguments):
    """All arguments as JSON."""
    return "{" + ", ".join(map(argument_text, arguments)) + "}"


def first_sentence(tool):
    """The first sentence of a tool's description."""
    text = about(tool)
    end = text.find(". ")
    return text if end < 0 else text[:end + 1]


def words_of(text):
    """The words of a description or a name, in small letters: `watchDonkey` and `watch_donkey` have two."""
    return re.findall("[a-z]+", re.sub("([a-z])([A-Z])", r"\1 \2", text).lower())


def lines_with(word, tools):
    """The numbers of the lines that have a word, or `-`."""
    found = [str(number) for number, tool in enumerate(tools, 1) if word in words_of(first_sentence(tool))]
    return " ".join(found) or "-"


def selection(request, tools, right):
    """The thinking that chooses a tool: what is wanted, with the numbers of the lines that have it.

    An everyday wish is one thing (`weather 2`), an invented one a verb and a noun (`watch 1 3 donkey 3`). The
    line that has both is repeated next, or `none`. So no step needs more than one look at the list."""
    if request.family:
        found = f"{request.wanted} {tools.index(right) + 1 if right else '-'}"
    else:
        found = " ".join(f"{word} {lines_with(word, tools)}" for word in request.wanted.split(" ", 1))
    return f"{found}\n" + (f"{tools.index(right) + 1} {first_sentence(right)}" if right else "none")


def choice_text(request):
    """The end of the thinking: the tool's name, and each argument as the request has it."""
    lines = [name_of(request.tool)]
    lines += [f"{each.name}: {in_quotes(each.value, each.quoted)}" for each in request.arguments]
    return "\n".join(lines)
