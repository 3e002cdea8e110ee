#!/usr/bin/env python3
"""Checks the guided tour (docs/tour) and what leads to it against the tree.

    check_tour.py SOURCE_ROOT

- A block of C++ in a chapter stands behind "From [file](path):" and is in that file: each line, in order; between two lines
  that the block has one after the other nothing is left out, except at a line "…".
- There are ten chapters, each with a program of at most 80 lines, a block of output, and three exercises, whose solutions
  are test cases of tests/tour named "tour CHAPTER.NUMBER: …". The tour's README links all of them.
- The pictures are there, and a command of ours drew them.
- examples/from_scratch.cpp has at most 300 lines and includes nothing of Lathe.
- The index of questions in README.md names one to three files for each question, and they exist.
- The glossary explains the words that WORDS lists.
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from tree_files import paths_below  # noqa: E402

WORDS = ["arena", "capture", "fiber", "history", "Philox", "pinned", "reorder", "stream"]
DRAWN = ('<svg xmlns="http://www.w3.org/2000/svg" class="graph"', '<svg xmlns="http://www.w3.org/2000/svg" class="chart"')
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.S | re.M)


def find(lines, part, start):
    """Where `part` stands in `lines` as a whole, from `start` on; None if nowhere."""
    for at in range(start, len(lines) - len(part) + 1):
        if lines[at : at + len(part)] == part:
            return at
    return None


def faults_of_quote(text, block):
    """What of a block is not in the text of its file."""
    lines = text.splitlines()
    at = 0
    for part in re.split(r"^…\n", block, flags=re.M):
        part = part.splitlines()
        found = find(lines, part, at)
        if found is None:
            gone = next((line for line in part if line not in lines), part[0] if part else "")
            yield f"no longer has, in this place: {gone.strip()}"
            return
        at = found + len(part)


def faults_of_quotes(root, page, text):
    for match in FENCE.finditer(text):
        if match[1] != "cpp":
            continue
        source = re.search(r"^From \[([^\]]+)\]\(([^)]+)\):\n\n\Z", text[: match.start()], re.M)
        if not source:
            yield f"a block of C++ does not say where it is from: {match[2].splitlines()[0]}"
            continue
        path = (page.parent / source[2]).resolve()
        if not path.is_file() or path != (root / source[1]).resolve():
            yield f"{source[1]} is not {source[2]}, or is not there"
            continue
        yield from (f"{source[1]} {fault}" for fault in faults_of_quote(path.read_text(encoding="utf-8"), match[2]))


def faults_of_chapter(root, page, text, cases, index):
    if f"]({page.name})" not in index:
        yield "is not in the list of the tour's README"
    program = root / "examples/tour" / (page.stem.replace("-", "_") + ".cpp")
    if not program.is_file():
        yield f"has no program {program.name}"
    elif (count := len(program.read_text(encoding="utf-8").splitlines())) > 80:
        yield f"{program.name} has {count} lines, more than 80"
    if not re.search(r"^```text\n", text, re.M):
        yield "has no output"
    number = re.match(r"(\d*)", page.name)[1].lstrip("0")
    if not number:
        return  # the page before the first chapter
    exercises = re.findall(r"^- \*\*(\d+\.\d)\*\* ", text.partition("\n## Exercises\n")[2], re.M)
    if exercises != [f"{number}.{k}" for k in (1, 2, 3)]:
        yield f"has the exercises {exercises}"
    yield from (f"exercise {one} has no solution" for one in exercises if one not in cases)


def faults_of_pictures(page, text):
    for target in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text):
        path = page.parent / target
        if not path.is_file():
            yield f"{target} is not there"
        elif not path.read_text(encoding="utf-8").startswith(DRAWN):
            yield f"{target} was not drawn by lathe"


def faults_of_index(root, readme):
    table = re.search(r"^\| where is … \|.*\n\|[-| ]+\n((?:\|.*\n)+)", readme, re.M)
    rows = table[1].splitlines() if table else []
    if len(rows) < 20:
        yield f"README.md: the index of questions has {len(rows)} rows"
    for row in rows:
        question, answer = [cell.strip() for cell in row.strip().strip("|").split("|")]
        files = re.findall(r"`([^`]+)`", answer)
        if not 1 <= len(files) <= 3:
            yield f"README.md: “{question}” has {len(files)} files"
        yield from (f"README.md: “{question}” names {file}, which is not there" for file in files if not (root / file).is_file())


def faults_of_glossary(text):
    explained = {word.lower() for cell in re.findall(r"^\| \*\*([^*]+)\*\*", text, re.M) for word in cell.split(", ")}
    yield from (f"docs/glossary.md does not explain {word}" for word in WORDS if word.lower() not in explained)


def self_test():
    """A planted change of each kind must be seen."""
    text = "int a;\nint b;\n  int c;\nint d;\n"
    assert not list(faults_of_quote(text, "int b;\n  int c;\n")) and not list(faults_of_quote(text, "int a;\n…\nint d;\n"))
    for wrong in ("int e;\n", "int a;\n  int c;\n", "int d;\n…\nint a;\n", "int c;\n", "int b;\nint c;\n"):
        assert list(faults_of_quote(text, wrong)), wrong
    root, page = pathlib.Path(__file__).resolve().parents[2], pathlib.Path(__file__).resolve()
    quoted = "From [tests/tour/check_tour.py](check_tour.py):\n\n```cpp\n%s\n```\n"
    assert not list(faults_of_quotes(root, page, quoted % "import sys"))
    for wrong in (quoted % "import no_such", "```cpp\nimport sys\n```\n", quoted.replace("](", "](no_such/") % "import sys"):
        assert list(faults_of_quotes(root, page, wrong)), wrong
    row = "| where is … | |\n|---|---|\n" + "| a | `README.md` |\n" * 20
    assert not list(faults_of_index(root, row))
    for wrong in (row.replace("README.md", "no_such.md"), row.replace("`README.md`", "`README.md` " * 4), ""):
        assert list(faults_of_index(root, wrong)), wrong
    assert list(faults_of_glossary("| **arena** | x |\n"))


def main():
    self_test()
    root = pathlib.Path(sys.argv[1]).resolve()
    tour = root / "docs/tour"
    cases = set(re.findall(r'TEST_CASE\(\s*"tour (\d+\.\d): ', "".join(
        path.read_text(encoding="utf-8") for path in paths_below(root, ["tests/tour"], {".cpp"}))))
    index = (tour / "README.md").read_text(encoding="utf-8")
    faults = []
    pages = [page for page in paths_below(root, ["docs/tour"], {".md"}) if page.parent == tour]
    for page in pages:
        text = page.read_text(encoding="utf-8")
        found = [*faults_of_quotes(root, page, text), *faults_of_pictures(page, text)]
        if page.name != "README.md":
            found += faults_of_chapter(root, page, text, cases, index)
        faults += [f"docs/tour/{page.name}: {fault}" for fault in found]
    numbers = [page.name[:2] for page in pages if page.name[:2].isdigit()]
    if numbers != [f"{n:02}" for n in range(1, 11)]:
        faults.append(f"docs/tour: the chapters are {numbers}")
    scratch = (root / "examples/from_scratch.cpp").read_text(encoding="utf-8")
    if len(scratch.splitlines()) > 300 or re.search(r"#include.*lathe", scratch):
        faults.append("examples/from_scratch.cpp has more than 300 lines, or includes Lathe")
    faults += faults_of_index(root, (root / "README.md").read_text(encoding="utf-8"))
    faults += faults_of_glossary((root / "docs/glossary.md").read_text(encoding="utf-8"))
    for fault in faults:
        print(fault)
    print(f"{0 if faults else 1} passed, {1 if faults else 0} failed, 0 skipped")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
