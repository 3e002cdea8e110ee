"""Where a mutant can be switched at run time: statements and expressions in function bodies.

Three forms. A `statement` ends with its semicolon and declares nothing. A `condition` is taken as true or false. An `expression` is what a
declaration begins with, or the last part of a for. Left out: constexpr, template arguments, default arguments, members' initialisers, and what stands in a macro's arguments.
"""
import dataclasses

CONTROL = {"if", "while", "for", "switch"}
TYPES = {"auto", "bool", "char", "double", "float", "int", "long", "short", "signed", "size_t", "unsigned", "void", "const", "static",
         "thread_local", "constexpr", "volatile", "typename", "struct", "class", "enum", "union", "using", "typedef", "friend", "extern",
         "static_assert", "template", "namespace"}
UNTOUCHED = {"constexpr", "using", "typedef", "static_assert", "struct", "class", "enum", "union", "namespace", "goto", "template"}


@dataclasses.dataclass(eq=False)
class Place:
    form: str      # "statement", "condition" or "expression"
    first: int     # tokens [first, end)
    end: int
    function: str  # whose body it is in
    void: bool     # what `return;` can end
    guard: str = ""  # the first word of what a condition guards, such as throw
    inner: list = dataclasses.field(default_factory=list)  # (first, end) of bodies of lambdas within it


def places(source):
    """All places of a file, in the order in which they begin."""
    found = _Reader(source)
    found.declarations(0, len(source.tokens))
    return sorted(found.places, key=lambda p: (p.first, -p.end))


class _Reader:
    def __init__(self, source):
        self.source, self.tokens, self.partner, self.places = source, source.tokens, source.partner, []

    def text(self, i):
        return self.tokens[i].text if 0 <= i < len(self.tokens) else ""

    def is_string(self, i):
        return self.tokens[i].kind in ("string", "char")

    def find(self, i, end, wanted):
        """The first token of [i, end) outside of brackets that is one of `wanted`; end if there is none."""
        while i < end:
            if self.text(i) in wanted and not self.is_string(i):
                return i
            i = self.partner[i] + 1 if self.text(i) in ("(", "[", "{") and not self.is_string(i) else i + 1
        return end

    # Namespaces and classes.

    def declarations(self, i, end):
        while i < end:
            i = self.declaration(i, end)

    def declaration(self, i, end):
        """Reads one, gives where the next begins."""
        begin, constructor = i, False
        while i < end:
            text = self.text(i)
            if self.is_string(i):
                i += 1
            elif text == ";":
                return i + 1
            elif text == ":" and self.text(i - 1) in ("public", "private", "protected"):
                return i + 1
            elif text == ":" and self.text(i - 1) in (")", "noexcept"):
                constructor, i = True, i + 1
            elif text == "{" and not (constructor and self.tokens[i - 1].kind == "word"):
                return self.braces(begin, i, end)
            elif text in ("(", "[", "{"):
                i = self.partner[i] + 1
            else:
                i += 1
        return end

    def braces(self, begin, at, end):
        close = self.partner[at]
        head = self.head(begin, at)
        words = [self.text(i) for i in head]
        if "namespace" in words or words[:1] == ["extern"] and at == begin + 2:
            self.declarations(at + 1, close)
            return close + 1
        if "(" not in words and {"class", "struct", "union"} & set(words):
            self.declarations(at + 1, close)
        elif "(" in words and "=" not in words[:words.index("(")] and not {"enum", "constexpr", "consteval"} & set(words):
            name = next(i for i in head if self.text(i) == "(") - 1
            self.statements(at + 1, close, self.text(name), "void" in words[:words.index("(")])
            return close + 1
        elif "(" in words and "constexpr" in words:
            return close + 1
        return self.find(close + 1, end, (";",)) + 1

    def head(self, begin, at):
        """The tokens before a brace, without `template <...>` and what stands in brackets."""
        i, kept = begin, []
        while i < at:
            if self.text(i) == "template":
                i, depth = i + 1, 0
                while i < at:
                    depth += (self.text(i) == "<") - (self.text(i) == ">")
                    i += 1
                    if depth == 0:
                        break
                continue
            kept.append(i)
            i = self.partner[i] + 1 if self.text(i) in ("(", "[", "{") else i + 1
        return kept

    # Function bodies.

    def statements(self, i, end, function, void):
        while i < end:
            i = self.statement(i, end, function, void)

    def statement(self, i, end, function, void):
        text = self.text(i)
        if text == "{":
            self.statements(i + 1, self.partner[i], function, void)
            return self.partner[i] + 1
        if text == ";":
            return i + 1
        if text in ("else", "do", "try"):
            return i + 1
        if text in ("case", "default"):
            return self.find(i, end, (":",)) + 1
        if text == "catch":
            return self.partner[i + 1] + 1
        if text in CONTROL:
            open_ = self.find(i, end, ("(",))
            if text != "switch" and self.text(i + 1) != "constexpr":
                self.header(text, open_, function, void)
            return self.partner[open_] + 1
        stop = self.find(i, end, (";",))
        if stop == end:  # not understood
            return end
        self.simple(i, stop + 1, function, void)
        return stop + 1

    def header(self, word, open_, function, void):
        close = self.partner[open_]
        if word == "for" and self.find(open_ + 1, close, (";",)) == close:
            return  # for (x : range)
        guard = self.text(close + 2 if self.text(close + 1) == "{" else close + 1)
        first, part = open_ + 1, 0
        while first < close:
            end = self.find(first, close, (";",))
            asks = part == 1 if word == "for" else end == close
            self.expression("condition" if asks else "expression", first, end, function, void, guard if word == "if" and asks else "")
            first, part = end + 1, part + 1

    def expression(self, form, first, end, function, void, guard):
        if first >= end:
            return
        if self.declares(first, end):
            return self.initialiser(first, end, function, void)
        if not self.lambdas(first, end):
            self.places.append(Place(form, first, end, function, void, guard))

    def simple(self, first, end, function, void):
        inner = self.lambdas(first, end)
        if self.text(first) in UNTOUCHED or any(self.text(i) == "constexpr" for i in range(first, min(first + 3, end))):
            return
        if self.declares(first, end):
            self.initialiser(first, end - 1, function, void)
        else:
            self.places.append(Place("statement", first, end, function, void, inner=inner))

    def initialiser(self, first, end, function, void):
        """T x = place, T x(place, place) and T x{place}."""
        equals = self.find(first, end, ("=",))
        if equals < end:
            if self.find(first, end, (",",)) == end and self.text(equals + 1) != "{" and not self.lambdas(equals, end, read=False):
                self.places.append(Place("expression", equals + 1, end, function, void))
            return
        if self.text(end - 1) in (")", "}") and self.tokens[self.partner[end - 1] - 1].kind == "word":
            i, close = self.partner[end - 1] + 1, end - 1
            while i < close:
                stop = self.find(i, close, (",",))
                if self.text(i) not in (".", "{") and not self.lambdas(i, stop, read=False):
                    self.places.append(Place("expression", i, stop, function, void))
                i = stop + 1

    def declares(self, first, end):
        """Whether [first, end) is a declaration: it begins with a type's word, or with a name that another name follows."""
        if self.text(first) in TYPES and self.text(first + 1) not in ("(", "{"):
            return True
        if self.tokens[first].kind != "word" or self.text(first) in ("return", "throw", "delete", "co_return", "new", "break", "continue"):
            return False
        i = first + 1
        while i < end:
            if self.text(i) == "::" and self.tokens[i + 1].kind == "word":
                i += 2
            elif self.text(i) == "<" and not self.source.spaced(i):
                depth = 1
                i += 1
                while i < end and depth:
                    depth += (self.text(i) == "<") - (self.text(i) == ">")
                    i += 1
            elif self.text(i) in ("*", "&", "const", "&&"):
                i += 1
            else:
                break
        return i < end and self.tokens[i].kind == "word" and self.text(i + 1) in ("=", ";", "(", "{", "[", ",") and i > first

    def lambdas(self, first, end, read=True):
        """(first, end) of the bodies of lambdas in [first, end), whose own statements are read, unless they are in a macro's arguments."""
        bodies, i = [], first
        while i < end:
            if self.text(i) == "{" and not self.is_string(i) and (introducer := self.introducer(i, first)) is not None:
                bodies.append((i, self.partner[i] + 1))
                if read and not self.in_macro(introducer, first):
                    self.statements(i + 1, self.partner[i], "lambda", True)
                i = self.partner[i]
            i += 1
        return bodies

    def introducer(self, brace, first):
        """The [ of the lambda whose body begins at `brace`; None if it is no lambda's."""
        i = brace - 1
        while i > first and (self.tokens[i].kind == "word" or self.text(i) in ("->", "::", "<", ">", "*", "&")):
            i -= 1
        if self.text(i) == ")":
            if i != brace - 1 and self.text(i + 1) not in ("->", "mutable", "noexcept"):
                return None
            i = self.partner[i] - 1
        elif i != brace - 1 and self.text(i + 1) != "mutable":
            return None
        if self.text(i) != "]":
            return None
        open_ = self.partner[i]
        before = self.tokens[open_ - 1]
        return None if before.text in (")", "]") or (before.kind == "word" and before.text != "return") else open_

    def in_macro(self, i, first):
        """Whether token i stands in the arguments of a macro, by its name in capitals."""
        while i > first:
            i -= 1
            if self.text(i) in (")", "]", "}") and not self.is_string(i):
                i = self.partner[i]
            elif self.text(i) == "(" and self.tokens[i - 1].kind == "word" and self.text(i - 1).isupper():
                return True
        return False
