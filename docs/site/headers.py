"""The public names of headers, with their contracts: what the API reference of the site is made of."""
import re
from dataclasses import dataclass

UMBRELLAS = ("lathe.h", "train.h", "nn/models.h", "graph/graph.h", "trainer.h")


@dataclass
class Entry:
    name: str
    contract: str     # the lines of its comment, without slashes
    declaration: str  # without the body
    line: int


def public_headers(root):
    """Headers that the umbrella headers include themselves, and those headers that are no umbrellas."""
    found = {name for name in UMBRELLAS if (root / name).is_file() and "/" in name}
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
    plain = re.sub(r"\[\[.*?\]\]|LATHE_API|LATHE_\w+\([^)]*\)", "", declaration)
    for pattern in (r"^(?:template\s*<.*?>\s*)?(?:class|struct|enum class|enum|union)\s+(\w+)", r"^using\s+(\w+)\s*=", r"(operator\S{1,3})\s*\(",
                    r"(~?\w+)\s*\(", r"(\w+)\s*(?:=|\{|;|$)"):
        match = re.search(pattern, plain.strip(), re.S)
        if match:
            return match[1]
    return None


def code_of(line):
    return re.sub(r'"(?:[^"\\]|\\.)*"', '""', re.sub(r"//.*", "", line))


def entries_of(text):
    """The public names that have a contract, in their order: at namespace level, and members of classes there."""
    lines, entries = text.splitlines(), []
    outer, hidden, depth, at = None, False, 0, 0  # the class around, whether its members are private, braces within namespaces
    while at < len(lines):
        line = lines[at].strip()
        begin = at
        while at < len(lines) and lines[at].strip().startswith("///"):
            at += 1
        if at > begin:
            contract = "\n".join(text.strip().removeprefix("///").removeprefix(" ") for text in lines[begin:at])
            declaration = []
            for text_of in lines[at : at + 12]:
                if not text_of.strip():
                    break
                declaration.append(re.sub(r"\s*//.*", "", text_of.strip()))
                if re.search(r"[;{}]$|\)\s*:$", declaration[-1]):
                    break
            joined = re.sub(r"\s*(?:\{[^{}]*\}|[{;:])?\s*$", "", "\n".join(declaration))
            name = name_of(joined)
            internal = depth == 0 and "(" in joined and not re.search(r"LATHE_API|template|inline|constexpr|class |struct ", joined)
            if name and not internal and not hidden and (depth == 0 or (depth == 1 and outer)):
                entries.append(Entry(f"{outer}::{name}" if depth == 1 else name, contract, joined, begin + 1))
            continue
        code = code_of(lines[at])
        if depth == 1 and outer and re.match(r"\s*(?:private|protected|public):", code):
            hidden = "public" not in code
        if not code.startswith("namespace"):
            opened = re.match(r"(?:template\s*<.*>\s*)?(class|struct)\s+(?:LATHE_API\s+)?(\w+)[^;]*\{", code)
            if depth == 0 and opened:
                outer, hidden = opened[2], opened[1] == "class"
                if outer.endswith("Options") and not (entries and entries[-1].name == outer):
                    end = next((n for n in range(at, len(lines)) if lines[n].startswith("};")), at)
                    entries.append(Entry(outer, "", "\n".join(lines[at : end + 1]).removesuffix(";"), at + 1))
            depth += code.count("{") - code.count("}")
            if depth <= 0:
                depth, outer, hidden = 0, None, False
        at += 1
    return entries
