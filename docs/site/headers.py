"""The public names of headers, with their contracts: what the API reference of the site is made of."""
import re
from dataclasses import dataclass

UMBRELLAS = ("lathe.h", "train.h", "nn/models.h", "nn/distributions/distributions.h", "graph/graph.h", "bridge/eigen.h", "bridge/opencv.h", "trainer.h")
CLASS = re.compile(r"(?:template\s*<[^{;]*>\s*)?(class|struct)\s+(?:LATHE_API\s+)?(\w+)[^;(]*$", re.S)
INTERNAL = ("detail", "cpu", "cuda", "kernels")


@dataclass
class Entry:
    names: list         # of the declarations that share the contract, without their overloads
    contract: str       # the lines of its comment, without slashes
    declarations: list  # without bodies


def public_headers(root):
    """Those that a program gets from an umbrella header, one by one, and an umbrella that also declares something itself."""
    found = {name for name in UMBRELLAS if "/" in name and (root / name).is_file()}
    for name in UMBRELLAS:
        if (root / name).is_file():
            found |= set(re.findall(r'#\s*include "lathe/([^"]+)"', (root / name).read_text(encoding="utf-8")))
    return sorted(name for name in found if (root / name).is_file())


def purpose_of(text):
    """The comment with which a header begins."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("//"):
            break
        lines.append(line.removeprefix("//").removeprefix(" "))
    return "\n".join(lines)


def name_of(declaration):
    plain = re.sub(r"\[\[.*?\]\]|LATHE_API|LATHE_\w+\([^)]*\)", "", declaration).strip()
    for pattern in (r"^(?:template\s*<.*?>\s*)?(?:class|struct|enum class|enum|union)\s+(\w+)", r"^using\s+(\w+)\s*=", r"(operator\S{1,3})\s*\(",
                    r"(~?\w+)\s*\(", r"(\w+)\s*(?:=|\{|;|$)"):
        match = re.search(pattern, plain, re.S)
        if match:
            return match[1]
    return None


def code_of(line):
    return re.sub(r'"(?:[^"\\]|\\.)*"', '""', re.sub(r"//.*", "", line))


def declaration_at(lines, at):
    """(the declaration that begins there, without its body; the line behind what was read)"""
    parts = []
    for end in range(at, min(at + 12, len(lines))):
        code = code_of(lines[end]).strip()
        if not code:
            break
        parts.append(re.sub(r"\s*//.*", "", lines[end].strip()))
        if re.search(r"[;{}]$|\)\s*:$", code):
            break
    return re.sub(r"\s*(?:\{[^{}]*\}|[{;:])?\s*$", "", "\n".join(parts)), end + 1


def is_public(declaration):
    """Whether another program can call it: exported, or all in the header."""
    return "(" not in declaration or re.search(r"LATHE_API|template|inline|constexpr|class |struct ", declaration)


class Reader:
    """Walks through a header and notes what is declared under a comment, at namespace level and in classes there."""

    def __init__(self, text):
        self.lines, self.entries = text.splitlines(), []
        self.outer, self.hidden, self.depth = None, False, 0  # the class around, whether its members are private, braces within namespaces
        self.fresh = True   # the next declaration is the first below its comment
        self.internal = []  # for each namespace that is open, whether its names are not for programs

    def read(self):
        at, contract = 0, None  # of the paragraph
        while at < len(self.lines):
            line = self.lines[at].strip()
            if line.startswith("// clang-format"):
                at += 1
                continue
            if line.startswith("//"):
                begin = at
                while at < len(self.lines) and self.lines[at].strip().startswith("//") and "clang-format" not in self.lines[at]:
                    at += 1
                block = [text.strip() for text in self.lines[begin:at]]
                is_contract = block[0].startswith("///") or (self.depth == 0 and begin > 0 and not self.lines[begin - 1].strip())
                contract = "\n".join(re.sub(r"^//+ ?", "", text) for text in block) if is_contract else None
                self.fresh = True
                continue
            if not line:
                contract, self.fresh = None, True
            elif contract is not None or (self.depth == 0 and "LATHE_API" in line):  # the header's first comment may say it all
                self.note(at, contract or "")
            self.follow(at)
            at += 1
        return self.entries

    def note(self, at, contract):
        """A declaration below a comment, or below another declaration of the same paragraph."""
        if self.hidden or any(self.internal) or not (self.depth == 0 or (self.depth == 1 and self.outer)) or self.is_inside(at):
            return
        declaration, _ = declaration_at(self.lines, at)
        name = name_of(declaration)
        if not name or re.match(r"(?:public|private|protected|namespace|friend|#|\})", declaration) or (self.depth == 0 and not is_public(declaration)):
            return
        name = f"{self.outer}::{name}" if self.depth == 1 else name
        behind = re.search(r"[;{]\s*// (.*)$", self.lines[at])
        contract = contract or (behind[1] if behind else "")
        if not self.fresh and self.entries:
            entry = self.entries[-1]
            entry.declarations.append(declaration)
            if name not in entry.names:
                entry.names.append(name)
        else:
            self.entries.append(Entry([name], contract, [declaration]))
        self.fresh = False

    def is_inside(self, at):
        """Whether the line goes on with a declaration that began above."""
        before = code_of(self.lines[at - 1]).strip() if at else ""
        return bool(before) and not before.startswith("#") and not re.search(r"[;{}:]$", before)

    def follow(self, at):
        code = code_of(self.lines[at])
        if self.depth == 1 and self.outer and re.match(r"\s*(?:private|protected|public):", code):
            self.hidden = "public" not in code
        if code.startswith("namespace"):
            self.internal.append(any(word in INTERNAL for word in re.findall(r"\w+", code)[1:]) or code.split() == ["namespace", "{"])
            return
        if self.depth == 0 and code.startswith("}") and self.internal:
            self.internal.pop()
            return
        if self.depth == 0 and "{" in code:
            head = code.split("{")[0]
            up = at - 1
            while up >= 0 and self.is_inside(up + 1):
                head, up = code_of(self.lines[up]) + "\n" + head, up - 1
            opened = CLASS.match(head.strip())
            if opened:
                self.outer, self.hidden = opened[2], opened[1] == "class"
                if self.outer.endswith("Options") and not (self.entries and self.outer in self.entries[-1].names):
                    end = next((n for n in range(at, len(self.lines)) if self.lines[n].startswith("};")), at)
                    self.entries.append(Entry([self.outer], "", ["\n".join(self.lines[at : end + 1]).removesuffix(";")]))
        self.depth += code.count("{") - code.count("}")
        if self.depth <= 0:
            self.depth, self.outer, self.hidden = 0, None, False


def without_contract(text):
    """Public names whose contract stands neither above or behind their declaration nor at the header's begin: in three lines for all, or by name."""
    purpose = purpose_of(text)
    if purpose.count("\n") >= 2:
        return []
    return [name for entry in entries_of(text) if not entry.contract and not entry.names[0].endswith("Options") for name in entry.names
            if not re.search(rf"\b{re.escape(name)}s?\b(?!\.\w)", purpose, re.I)]


def entries_of(text):
    """The public names that have a contract, in their order. Declarations without a line between share the contract above them."""
    return Reader(text).read()
