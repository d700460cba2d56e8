# SPDX-License-Identifier: Apache-2.0
"""Templates and data drawn at random for compare_templates.py: statements and expressions of the kinds that chat
templates use, mostly well-typed, so that most of them write something."""


class Drawing:
    def __init__(self, dice):
        self.dice = dice
        self.depth = 0
        self.names = []  # of the texts that statements around here have set

    def one(self, *choices):
        return self.dice.choice(choices)

    def maybe(self, chance, text):
        return text if self.dice.random() < chance else ""

    # --- data ---

    def word(self):
        return self.one("", "a", "Ab c", "  padded \n", "x,y,,z", "it's \"so\"", "<b>&amp;</b>", "ÉCLAIR straße", "日本語 テキスト",
                        "😀e\u0301", "12", "-7.50", "0x1f", "line\nline\r\nend\n", "tab\tnbsp\u00a0", "a/b?c=d&e", "True",
                        "<think>\nhm\n</think>\n\nyes", "%s of %d", "{0} {name}", "ǅ ﬁ İ", "\u2028\u0085\u001c", "back\\slash",
                        "The quick brown fox jumps over the lazy dog, twice or more.", "a_b-c.d", "\x07\x7f\u200b")

    def number(self):
        return self.one(0, 1, -1, 2, 3, 7, 10, -13, 255, 1000000, 2**31, -2**53, self.dice.randrange(100))

    def fraction(self):
        return self.one(0.0, -0.0, 1.0, 0.5, -2.5, 1e16, 1e-7, 3.14159, 123456789.125, 1e100, 0.1, 2.675, 1e22)

    def data(self, depth=0):
        kind = self.dice.randrange(9 if depth < 3 else 6)
        if kind < 2:
            return self.word()
        if kind == 2:
            return self.number()
        if kind == 3:
            return self.fraction()
        if kind == 4:
            return self.one(True, False, None)
        if kind == 5:
            return self.one([], {}, "x", 5)
        if kind == 6:
            return [self.data(depth + 1) for _ in range(self.dice.randrange(5))]
        return {self.key(): self.data(depth + 1) for _ in range(self.dice.randrange(5))}

    def key(self):
        return self.one("a", "b", "name", "role", "content", "items", "é", "x y", "1", "keys", "Zed", "_p", "type")

    def variables(self):
        dice = self.dice
        return {"i": self.number(), "j": self.number(), "f": self.fraction(), "s": self.word(), "t": self.word(),
                "n": None, "b": self.one(True, False), "l": [self.number() for _ in range(dice.randrange(6))],
                "ls": [self.word() for _ in range(dice.randrange(5))],
                "lm": [{"role": self.one("user", "assistant", "tool"), "content": self.one(self.word(), None, [
                    {"type": "text", "text": self.word()}]), "k": self.number()} for _ in range(dice.randrange(5))],
                "d": {self.key(): self.data() for _ in range(dice.randrange(5))}, "w": self.data()}

    # --- expressions ---

    def expression(self, kind=None):
        kind = kind or self.one("text", "text", "text", "int", "bool", "list", "dict", "real", "any")
        if self.dice.random() < 0.04:
            kind = self.one("text", "int", "bool", "list", "dict", "real", "any")
        if self.depth > 4:
            return self.leaf(kind)
        self.depth += 1
        text = getattr(self, kind)()
        self.depth -= 1
        return text

    def literal_text(self):
        quote = self.one("'", '"')
        return quote + self.one("", "a", ", ", "-", "\\n", "x y", "é", "<|im_end|>", "</think>", "\\t", "%s|%5.2f", "{}-{}", "\\\\",
                                "\\x41\\u00e9", "aXbXc", " \\n ", "😀", "\\'", "%d%%", "\\q") + quote

    def leaf(self, kind):
        if kind == "text":
            return self.one("s", "t", self.literal_text(), self.literal_text(), *self.names[-3:])
        if kind == "int":
            return self.one("i", "j", "0", "1", "2", "-1", "3", "10", "loop.index", "l|length")
        if kind == "real":
            return self.one("f", "0.5", "1.0", "1e3", "2.5e-3", "-0.0")
        if kind == "bool":
            return self.one("b", "true", "false", "True", "False", "i > 0", "s is string")
        if kind == "list":
            return self.one("l", "ls", "lm", "[]", "[1, 2, 3]", "['b', 'a', 'C']", "(1, 'x')", "range(4)", "[[1, 2], [3, 4]]")
        if kind == "dict":
            return self.one("d", "{}", "{'a': 1, 'b': 'x'}", "{1: 2, 'c': [1]}", "lm[0]", "dict(a=1, z=s)")
        return self.one("w", "n", "u", "none", "d.a", "w.x", "d['role']", "lm[0].content", "u.x", "i", "s", "l")

    def text(self):
        e = self.expression
        return self.dice.choice((
            lambda: self.leaf("text"), lambda: self.leaf("text"),
            lambda: f"{e('text')} ~ {e()}", lambda: f"{e('text')} + {e('text')}", lambda: f"({e('text')}) * {self.one('0', '2', '3', 'i % 4')}",
            lambda: f"({e('text')})" + self.slice(),
            lambda: f"({e('text')})[{e('int')}]",
            lambda: f"({e('text')})." + self.text_method(),
            lambda: f"({e('text')})." + self.text_method(),
            lambda: f"({e('text')})|" + self.text_filter(), lambda: f"({e('text')})|" + self.text_filter(),
            lambda: f"({e()})|string", lambda: f"({e()})|tojson" + self.maybe(0.4, self.one(
                "(indent=2)", "(indent=4, sort_keys=true)", "(separators=(',', ':'))", "(ensure_ascii=true)", "(true)", "(indent=0)")),
            lambda: f"({e('list')})|join({self.maybe(0.7, e('text'))})",
            lambda: f"({e('text')}).join({self.one('ls', e('list'))})",
            lambda: f"({e('text')} if {e('bool')}" + self.maybe(0.8, f" else {e('text')}") + ")",
            lambda: f"({e('any')} or {e('text')})", lambda: f"({e('any')})|default({e('text')}{self.maybe(0.4, ', true')})",
            lambda: f"({e('list')})|{self.one('first', 'last', 'min', 'max')}",
            lambda: f"({self.one(repr('%s'), repr('%s-%s'), repr('%5d'), repr('%r'), repr('%(a)s'), repr('%.2f'), repr('%x'))}) % ({e()}{self.maybe(0.3, ', ' + e())})",
            lambda: f"({self.literal_text()})|format({e()}{self.maybe(0.3, ', ' + e())})",
            lambda: f"({self.literal_text()}).format({e()}{self.maybe(0.3, ', ' + e())})",
        ))()

    def slice(self):
        e = self.expression
        return f"[{self.maybe(0.6, e('int'))}:{self.maybe(0.6, e('int'))}{self.maybe(0.3, ':' + self.one('2', '-1', '-2', '1', e('int')))}]"

    def text_method(self):
        e, lit = self.expression, self.literal_text
        return self.one(
            "upper()", "lower()", "title()", "capitalize()", "strip()", "lstrip()", "rstrip()",
            f"strip({lit()})", f"lstrip({lit()})", f"rstrip({lit()})", f"split({lit()})[-1]", f"split({lit()})[0]", "split()|length",
            f"split({lit()}, 1)|list", f"rsplit({lit()}, 1)[0]", "splitlines()|join('|')", "splitlines(true)|string",
            f"replace({lit()}, {lit()})", f"replace({lit()}, {lit()}, 1)",
            f"startswith({lit()})|string", f"endswith({lit()})|string", "startswith(('a', ' '))|string", f"find({lit()})|string",
            f"rfind({lit()})|string", f"removeprefix({lit()})", f"removesuffix({lit()})", f"join({e('list')})", "__class__|string", "nothing()", "nothing")

    def text_filter(self):
        e, lit = self.expression, self.literal_text
        return self.one(
            "trim", "upper", "lower", "title", "capitalize", "length|string", "reverse", f"replace({lit()}, {lit()})", "safe",
            f"trim({lit()})", "indent", "indent(2)", "indent(3, true)", "indent(first=true, blank=true)", f"indent({lit()})",
            "int|string", "int(-1)|string", "list|string", "first", "last", "default('x', true)", "d('y')", f"count|string", "string", "safe ~ '<'", "safe + '<'",
            "list|join(',')", "list|unique|join", "sort|join")

    def int(self):
        e = self.expression
        return self.dice.choice((
            lambda: self.leaf("int"), lambda: self.leaf("int"), lambda: f"({e('int')} {self.one('+', '-', '*')} {e('int')})",
            lambda: f"({e('int')} % {e('int')})", lambda: f"(-{e('int')})", lambda: f"({e('list')})|length",
            lambda: f"({e('text')})|length", lambda: f"({e('text')})|int", lambda: f"({e('real')})|int",
            lambda: f"({e('bool')} + {e('int')})",
            lambda: f"({e('list')}).index({e()})", lambda: f"({e('list')}).count({e()})", lambda: f"({e('text')}).find({e('text')})",
        ))()

    def real(self):
        return self.leaf("real")

    def bool(self):
        e = self.expression
        return self.dice.choice((
            lambda: self.leaf("bool"), lambda: self.leaf("bool"), lambda: f"(not {e('bool')})",
            lambda: f"({e('bool')} {self.one('and', 'or')} {e('bool')})",
            lambda: f"({e('int')} {self.one('<', '>', '<=', '>=', '==', '!=')} {e(self.one('int', 'real'))})",
            lambda: f"({e('text')} {self.one('<', '>', '==', '!=', '<=', '>=')} {e('text')})",
            lambda: f"({e('text')} {self.one('in', 'not in')} {e(self.one('text', 'list', 'dict'))})",
            lambda: f"({e()} {self.one('in', 'not in')} {e('list')})", lambda: f"({e()} {self.one('==', '!=')} {e()})",
            lambda: f"({e()} is {self.maybe(0.3, 'not ')}{self.test()})", lambda: f"({e()} is {self.maybe(0.3, 'not ')}{self.test()})",
            lambda: f"({e('int')} < {e('int')} <= {e('int')})", lambda: f"({e('int')} is {self.one('odd', 'even', 'divisibleby 3', 'divisibleby(2)', 'gt 3', 'le(2)', 'in [1, 2]')})",
        ))()

    def test(self):
        return self.one("defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "true", "false", "mapping",
                        "iterable", "sequence", "callable", "eq 1", "equalto('a')", "ne('x')", "==(2)", "sameas(none)", "sameas true", "in(l)")

    def list(self):
        e = self.expression
        return self.dice.choice((
            lambda: self.leaf("list"), lambda: self.leaf("list"), lambda: f"[{e()}, {e()}]", lambda: f"({e()}, {e()})", lambda: f"({e()},)",
            lambda: f"({e('list')})" + self.slice(), lambda: f"({e('list')} + {e('list')})",
            lambda: f"({e('list')})|list", lambda: f"({e('list')})|reverse|list", lambda: f"({e('list')})|sort" + self.maybe(0.5, self.one(
                "(reverse=true)", "(true)", "(case_sensitive=true)", "(attribute='role')")),
            lambda: f"({e('list')})|unique" + self.maybe(0.3, "(true)") + "|list", lambda: f"({e('list')})|map('{self.one('upper', 'length', 'string', 'trim', 'tojson', 'nothing', 'int', 'first')}')|list",
            lambda: f"(lm)|map(attribute='{self.one('role', 'content', 'k', 'nothing', 'content.0.text')}'{self.maybe(0.3, ', default=7')})|list",
            lambda: f"({e('list')})|{self.one('select', 'reject')}({self.maybe(0.7, self.one(repr('defined'), repr('string'), repr('odd'), repr('gt') + ', 1', repr('in') + ', l', repr('none')))})|list",
            lambda: f"(lm)|{self.one('selectattr', 'rejectattr')}('{self.one('role', 'content', 'k', 'x')}'{self.maybe(0.7, self.one(', ' + repr('equalto') + ', ' + repr('user'), ', ' + repr('defined'), ', ' + repr('==') + ', 1', ', ' + repr('string'), ', ' + repr('none')))})|list",
            lambda: f"({e('text')}).split({self.maybe(0.5, self.literal_text())})", lambda: f"({e('dict')})|items|list", lambda: f"({e('dict')}).items()|list",
            lambda: f"({e('dict')}).{self.one('keys', 'values')}()|list", lambda: f"({e('dict')})|dictsort",
            lambda: f"range({e('int')})|list", lambda: f"range({self.one('1', '5')}, {e('int')}, {self.one('2', '-1', '3')})|list",
            lambda: f"({e('text')})|list", lambda: f"({e('list')}).copy()", lambda: f"({e('list')}).append(1)", lambda: f"({e('list')} or {e('list')})",
        ))()

    def dict(self):
        e = self.expression
        return self.dice.choice((
            lambda: self.leaf("dict"), lambda: self.leaf("dict"), lambda: "{" + f"{self.literal_text()}: {e()}, 'b': {e()}" + "}",
            lambda: "{" + f"{e('int')}: {e()}, 7: {e()}" + "}", lambda: f"dict({e('dict')}, q={e()})", lambda: f"dict(x={e()})",
            lambda: f"(lm|selectattr('role')|first)", lambda: f"({e('dict')}).copy()", lambda: f"namespace(a={e()})", lambda: f"({e('dict')}).update(x=1)",
        ))()

    def any(self):
        e = self.expression
        return self.dice.choice((
            lambda: self.leaf("any"), lambda: self.leaf("any"), lambda: f"({e('dict')})[{e('text')}]", lambda: f"({e('dict')}).{self.one('a', 'role', 'items', 'keys', 'content', 'x', 'get')}",
            lambda: f"({e('dict')}).get({e('text')}{self.maybe(0.5, ', ' + e())})", lambda: f"({e('list')})[{e('int')}]", lambda: f"({e('list')})[{self.one('0', '-1', '1')}]",
            lambda: f"({e('any')} and {e()})", lambda: f"({e()} if {e('bool')}" + self.maybe(0.6, f" else {e()}") + ")", lambda: f"({e('list')})|first", lambda: f"({e('list')})|last",
            lambda: f"({e('list')}).0", lambda: f"({e()})|{self.one('length', 'list', 'tojson', 'string', 'first', 'int', 'max', 'min', 'upper', 'default(3)')}",
            lambda: f"{e()} {self.one('+', '-', '*', '%', '~', '<', 'in', '==')} {e()}",
        ))()

    # --- statements ---

    def open(self):
        return "{%" + self.one("", "", "-", "-", "+") + " "

    def close(self):
        return " " + self.one("", "", "-", "-", "+" if self.dice.random() < 0.2 else "") + "%}"

    def space(self):
        return self.one("", "", "\n", "  ", "\n    ", " x ", "\n\n", "text\n", "\t", "\r\n", "é ")

    def print(self):
        return "{{" + self.one("", "", "-") + " " + self.expression() + " " + self.one("", "", "-") + "}}"

    def body(self, size=None):
        parts = []
        for _ in range(size or self.dice.randrange(1, 4)):
            parts += [self.space(), self.statement(), self.space()]
        return "".join(parts)

    def tag(self, words):
        return self.open() + words + self.close()

    def statement(self):
        if self.depth > 2 or self.dice.random() < 0.4:
            return self.print()
        self.depth += 1
        kept = len(self.names)
        e, tag = self.expression, self.tag
        text = self.dice.choice((
            lambda: tag(f"if {e('bool')}") + self.body() + self.maybe(0.3, tag(f"elif {e('bool')}") + self.body()) + self.maybe(0.5, tag("else") + self.body()) + tag("endif"),
            self.loop, self.loop, self.setting, self.setting, self.macro,
            lambda: tag(f"set v = {e()}") + self.body(1) + "{{ v }}", lambda: "{# " + self.one("c", "{{ x }}", "a\nb") + " " + self.one("", "-") + "#}",
            lambda: tag("raw") + "{{ x }}{% y %}\n" + tag("endraw"), lambda: tag(f"filter {self.one('upper', 'trim', 'indent(2)', 'replace(' + repr('a') + ', ' + repr('b') + ')|lower')}") + self.body() + tag("endfilter"),
            lambda: tag("generation") + self.body() + tag("endgeneration"),
            lambda: tag("set ns = namespace(n=0, s='')") + tag(f"for x in {e('list')}") + tag(f"set ns.n = ns.n + {self.one('1', 'loop.index')}") + tag(f"set ns.s = ns.s ~ {e('any')}") + tag("endfor") + "{{ ns.n }}{{ ns.s }}",
        ))()
        del self.names[kept:]
        self.depth -= 1
        return text

    def setting(self):
        e, tag = self.expression, self.tag
        name = self.one("v", "x", "s", "y")
        text = self.dice.choice((
            lambda: tag(f"set {name} = {e()}"), lambda: tag(f"set {name}, y = {e()}, {e()}"), lambda: tag(f"set {name}") + self.body() + tag("endset"),
            lambda: tag(f"set {name} | {self.one('upper', 'trim', 'length', 'indent(1)')}") + self.body() + tag("endset"), lambda: tag(f"set {name}, y = {e('list')}"),
        ))()
        self.names.append(name)
        return text + self.print() + "{{ " + name + " }}"

    def loop(self):
        e, tag = self.expression, self.tag
        target, over = self.dice.choice((
            lambda: ("x", e("list")), lambda: ("x", e("list")), lambda: ("x", e("any")), lambda: ("k, v", f"({e('dict')}).items()"),
            lambda: ("k, v", f"({e('dict')})|dictsort"), lambda: ("c", e("text")), lambda: ("m", "lm"), lambda: ("m", "lm"), lambda: ("k", e("dict")), lambda: ("x", f"range({e('int')} % 7)"),
            lambda: ("a, b", "[[1, 2], ['x', 'y']]"), lambda: ("(a, b), c", "[[[1, 2], 3]]"),
        ))()
        inside = self.one("{{ loop.index }}", "{{ loop.index0 }}{{ loop.revindex }}{{ loop.length }}", "{{ ',' if not loop.last }}",
                          "{{ loop.first }}", "{{ loop.previtem }}{{ loop.nextitem }}", "{{ m.role }}{{ m.content }}{{ m['k'] }}", "{{ loop.depth }}{{ loop.revindex0 }}", "{{ x }}", "{{ loop }}")
        stop = self.maybe(0.2, tag(f"if {e('bool')}") + tag(self.one("break", "continue")) + tag("endif"))
        self.names.append(target.split(",", maxsplit=1)[0].strip("("))
        condition = self.maybe(0.25, f" if {e('bool')}")
        return tag(f"for {target} in {over}{condition}") + inside + stop + self.body() + self.maybe(0.3, tag("else") + self.body(1)) + tag("endfor")

    def macro(self):
        e, tag = self.expression, self.tag
        call = self.one("m1(1)", "m1(s, y=2)", f"m1({e()}, {e()})", "m1()", "m1(1, 2, 3)", "m1(x=3, z=4)", "m1(*l)")
        inside = self.one("{{ x }}{{ y }}", "{{ caller() if caller else 'none' }}", "{{ x|default('none') }}{{ m1.name }}{{ m1.arguments }}", "{{ v }}{{ loop }}")
        text = tag(f"macro m1({self.one('x, y=1', 'x', 'x=s, y=2', '')})") + inside + self.body(1) + tag("endmacro")
        if self.dice.random() < 0.25:
            return text + tag(f"call{self.maybe(0.3, '(q)')} {call}") + self.body(1) + tag("endcall")
        return text + "{{ " + call + " }}"


def draw(dice):
    """A request, its template among it."""
    drawing = Drawing(dice)
    return {"template": drawing.body(dice.randrange(1, 3)) + drawing.maybe(0.5, "\n"), "messages": [],
            "chat_template_kwargs": drawing.variables()}
