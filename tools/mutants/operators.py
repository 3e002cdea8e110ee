"""The slips: what a mutant changes at a place. One line is meant, and the kind says why it matters.

Kinds: bound, comparison, sign, dropped term, dropped statement, swapped arguments, skipped check, early return, wrong constant, missing
version bump, wrong exit code, dropped saved entry. Strings are never changed, nor what an error says.
"""
import dataclasses
import re

import lexer
import places

BOUNDS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
COMPARISONS = {"==": "!=", "!=": "==", "<": ">", ">": "<", "<=": ">=", ">=": "<=", "&&": "||", "||": "&&", "min": "max", "max": "min"}
SIGNS = {"+": "-", "-": "+", "+=": "-=", "-=": "+="}
LEAVING = {"throw", "return", "continue", "break"}
CHECKS = re.compile(r"(?:[A-Z]+_)?(?:CHECK|REQUIRE)\w*|(?:check|require|expect|refuse|must)(?:_\w+)?")
FAILS = re.compile(r"(?:[A-Z]+_)?FAIL\w*|fail|throw_\w+")
SAVES = re.compile(r"state|save|write|dump|export|json|put|entries|describe", re.IGNORECASE)
VERSIONS = re.compile(r"\b(?:bump\w*|\w*version\w*)\s*(?:\(|\+\+|\+=)|\+\+\w*version")
# Operators that end an operand of this one, beside brackets, commas and semicolons.
WEAKER = {"&&": {"&&", "||", "?", ":"}, "||": {"||", "?", ":"}}
SUM_ENDS = {"+", "-", "<", ">", "<=", ">=", "==", "!=", "&&", "||", "?", ":", "=", "<<", ">>", "+=", "-=", "&", "|"}


@dataclasses.dataclass(eq=False)
class Mutant:
    path: str
    line: int
    kind: str
    place: places.Place
    text: str    # what stands at the place instead, on one line
    before: str  # the changed line
    after: str
    id: int = 0

    def key(self):
        """By its content, so that it is the same one when lines move."""
        return f"{self.path} {self.place.function}", self.before, self.after


def mutants(path, text, exit_codes=()):
    """All mutants of one file."""
    source = lexer.Source(text)
    found = []
    for place in places.places(source):
        for mutant in _Slips(source, path, place, exit_codes).all():
            if mutant.before != mutant.after:
                found.append(mutant)
    return found


class _Slips:
    def __init__(self, source, path, place, exit_codes):
        self.source, self.path, self.place, self.exit_codes = source, path, place, exit_codes
        self.tokens, self.partner = source.tokens, source.partner

    def text(self, i):
        return self.tokens[i].text if self.place.first <= i < self.place.end else ""

    def all(self):
        yield from self.whole()
        for i in self.own():
            token = self.tokens[i]
            if token.kind == "op" or token.text in ("min", "max"):
                yield from self.operator(i, token.text)
            if token.kind == "number" or token.text in ("true", "false"):
                yield from self.constant(i, token.text)
            if token.text == "ExitCode" and self.text(i + 1) == "::":
                for code in self.exit_codes:
                    yield self.edit("wrong exit code", i + 2, {i + 2: code})
            if token.text in ("(", ",") and token.kind == "op":
                yield from self.swap(i)

    def own(self):
        """The tokens that this place may change: none of a lambda's body, and none of what an error says."""
        first, end = self.place.first, self.place.end
        if self.text(first) == "throw" or FAILS.fullmatch(self.text(first)):
            return []
        if CHECKS.fullmatch(self.text(first)) and self.text(first).isupper() and self.text(first + 1) == "(":
            commas = self.commas(first + 1)
            if len(commas) > 2:
                first, end = commas[0] + 1, commas[1]
        inner = {i for a, b in self.place.inner for i in range(a, b)}
        return [i for i in range(first, end) if i not in inner]

    def commas(self, open_):
        """The commas between the arguments of a call, then its closing bracket. A template's commas are among them."""
        i, found = open_ + 1, []
        while i < self.partner[open_]:
            token = self.tokens[i]
            if token.kind == "op" and token.text == ",":
                found.append(i)
            i = self.partner[i] + 1 if token.kind == "op" and token.text in "([{" else i + 1
        return [*found, self.partner[open_]]

    def edit(self, kind, at, edits):
        """A mutant with tokens replaced. It is told by the lines of token `at`, or, without one, of the whole place."""
        first, end = (self.place.first, self.place.end) if at is None else (at, at + 1)
        while first > 0 and self.tokens[first - 1].line == self.tokens[first].line:
            first -= 1
        while end < len(self.tokens) and self.tokens[end].line == self.tokens[end - 1].line:
            end += 1
        line = self.tokens[self.place.first if at is None else at].line
        return Mutant(self.path, line, kind, self.place, self.source.words(self.place.first, self.place.end, edits),
                      self.source.words(first, end), self.source.words(first, end, edits))

    def instead(self, kind, text):
        """A mutant with another text for the whole place."""
        dropped = {i: " " for i in range(self.place.first, self.place.end)}
        return self.edit(kind, None, {**dropped, self.place.first: text})

    def whole(self):
        """The whole statement, or the whole condition."""
        place, first = self.place, self.text(self.place.first)
        words = self.source.words(place.first, place.end)
        if place.guard in LEAVING or FAILS.fullmatch(place.guard or "-"):
            yield self.instead("skipped check", "false")
        if place.form != "statement":
            return
        if place.void and first != "return":
            yield self.instead("early return", "return;")
        if first in ("return", "throw", "break", "continue") or FAILS.fullmatch(first):
            return
        kind = "dropped statement"
        if CHECKS.fullmatch(first):
            kind = "skipped check"
        elif VERSIONS.search(words):
            kind = "missing version bump"
        elif SAVES.search(place.function) and any(t.kind == "string" for t in self.tokens[place.first:place.end]):
            kind = "dropped saved entry"
        yield self.instead(kind, ";")

    def operator(self, i, text):
        name = text in ("min", "max")
        if text == "!" and self.tokens[i + 1].kind != "op":
            yield self.edit("comparison", i, {i: " "})
        if name and self.text(i + 1) not in ("(", "<") or not name and not self.source.spaced(i):
            if text == "-" and not name and i > self.place.first and self.text(i - 1) in ("(", ",", "return", "=", "?", ":", "*", "{"):
                yield self.edit("sign", i, {i: " "})
            return
        if text in BOUNDS:
            yield self.edit("bound", i, {i: BOUNDS[text]})
        if text in COMPARISONS:
            yield self.edit("comparison", i, {i: COMPARISONS[text]})
        if text in SIGNS:
            yield self.edit("sign", i, {i: SIGNS[text]})
        if text in ("+", "-", "&&", "||"):
            end = self.operand(i, WEAKER.get(text, SUM_ENDS))
            edits = {k: " " for k in range(i, end)}
            one = end == i + 2 and self.text(i + 1) == "1"
            if end > i + 1 and not any(self.tokens[k].kind == "string" for k in range(i, end)):
                yield self.edit("bound" if one else "dropped term", i, edits)

    def operand(self, i, ends):
        """Where the right operand of operator i ends."""
        k = i + 1
        while k < self.place.end:
            token = self.tokens[k]
            if token.kind == "op" and (token.text in ") ] } , ;".split() or (token.text in ends and self.source.spaced(k))):
                return k
            k = self.partner[k] + 1 if token.kind == "op" and token.text in "([{" else k + 1
        return k

    def constant(self, i, text):
        if text in ("true", "false"):
            yield self.edit("wrong constant", i, {i: "false" if text == "true" else "true"})
            return
        if self.text(i - 1) in ("<", ">") and not self.source.spaced(i - 1):
            return  # a template's argument
        if re.fullmatch(r"\d[\d']*[uUlL]*", text):
            digits, suffix = re.fullmatch(r"([\d']+)(\w*)", text).groups()
            value = int(digits.replace("'", ""), 8 if re.fullmatch(r"0[0-7]+", digits) else 10)
            yield self.edit("wrong constant", i, {i: f"{value + 1}{suffix}"})
            if value > 1:
                yield self.edit("wrong constant", i, {i: f"{value - 1}{suffix}"})
        elif re.fullmatch(r"\d*\.\d+(e[-+]?\d+)?f?", text):
            yield self.edit("wrong constant", i, {i: f"(2 * {text})" if float(text.rstrip("f")) else f"1.0{'f' * text.endswith('f')}"})

    def swap(self, i):
        """Two neighbours among arguments that look alike: names, or members of the same depth."""
        first = i + 1
        middle = self.argument(first)
        if self.text(middle) != ",":
            return
        end = self.argument(middle + 1)
        if self.text(end) not in (",", ")"):
            return
        shapes = [[t.text if t.kind == "op" else t.kind for t in self.tokens[a:b]] for a, b in ((first, middle), (middle + 1, end))]
        if not shapes[0] or shapes[0] != shapes[1] or not set(shapes[0]) <= {"word", "number", ".", "->", "::", "*", "[", "]", "(", ")"}:
            return
        left, right = self.source.words(first, middle), self.source.words(middle + 1, end)
        edits = {k: " " for k in range(first, end) if k != middle}
        yield self.edit("swapped arguments", i, {**edits, first: right, middle + 1: left})

    def argument(self, k):
        while k < self.place.end:
            token = self.tokens[k]
            if token.kind == "op" and token.text in (")", "]", "}", ",", ";"):
                return k
            k = self.partner[k] + 1 if token.kind == "op" and token.text in "([{" else k + 1
        return k
