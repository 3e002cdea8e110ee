"""C++ source as tokens: comments and preprocessor lines are left out, and brackets know their partners."""
import dataclasses
import re

TOKEN = re.compile(r"""
    (?P<gap>\s+|//[^\n]*|/\*.*?\*/)
  | (?P<string>(?:u8|[uUL])?R"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)"|(?:u8|[uUL])?"(?:\\.|[^"\\\n])*")
  | (?P<char>[uUL]?'(?:\\.|[^'\\\n])+')
  | (?P<number>\.?\d(?:[eEpP][+-]|'\w|[\w.])*)
  | (?P<word>[A-Za-z_]\w*)
  | (?P<op>\.\.\.|<=>|->\*|<<=|->|::|\+\+|--|<<|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\S)
""", re.VERBOSE | re.DOTALL)
DIRECTIVE = re.compile(r"[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.DOTALL)


@dataclasses.dataclass(frozen=True)
class Token:
    kind: str   # string, char, number, word or op
    text: str
    start: int  # offsets in the source
    end: int
    line: int   # from 1


class Source:
    """The tokens of one file. `partner` of an opening bracket is the index of its closing one, and the other way round.
    `>>` is two tokens, since it closes two lists of template arguments more often than it shifts."""

    def __init__(self, text):
        self.text, self.tokens, self.partner = text, [], {}
        offset, line, fresh = 0, 1, True
        while offset < len(text):
            if fresh and (directive := DIRECTIVE.match(text, offset)):
                line += directive[0].count("\n")
                offset, fresh = directive.end(), False
                continue
            found = TOKEN.match(text, offset)
            if found.lastgroup != "gap" and not found["gap"]:
                kind = next(k for k in ("string", "char", "number", "word", "op") if found[k])
                self.tokens.append(Token(kind, found[0], offset, found.end(), line))
            fresh = found[0].endswith("\n") or (fresh and found[0].isspace()) or "\n" in found[0]
            line += found[0].count("\n")
            offset = found.end()
        self._pair()

    def _pair(self):
        closing, open_ = {")": "(", "]": "[", "}": "{"}, []
        for i, token in enumerate(self.tokens):
            if token.kind != "op":
                continue
            if token.text in "([{":
                open_.append(i)
            elif token.text in closing:
                if not open_ or self.tokens[open_[-1]].text != closing[token.text]:
                    raise ValueError(f"line {token.line}: {token.text} without {closing[token.text]}")
                self.partner[i] = open_.pop()
                self.partner[self.partner[i]] = i
        if open_:
            raise ValueError(f"line {self.tokens[open_[-1]].line}: {self.tokens[open_[-1]].text} is never closed")

    def spaced(self, i):
        """Whether there is space on both sides: clang-format puts it around binary operators, and around < of a comparison only."""
        token = self.tokens[i]
        return token.start > 0 and self.text[token.start - 1].isspace() and self.text[token.end:token.end + 1].isspace()

    def words(self, first, end, edits={}):
        """Tokens [first, end) on one line, with those replaced that `edits` has; what it replaces with a space is gone."""
        parts, before = [], None
        for i in range(first, end):
            text = edits.get(i, self.tokens[i].text).strip()
            if not text:
                continue
            if before is not None and self.tokens[before].end < self.tokens[before + 1].start and text[0] not in ")],;" * (i > before + 1):
                parts.append(" ")
            parts.append(text)
            before = i
        return "".join(parts)
