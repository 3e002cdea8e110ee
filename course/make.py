#!/usr/bin/env python3
"""Makes the folder of an assignment: tiny/ with the parts cut out that are to be written, the tests, the handout, grade.sh.

    make.py NUMBER FOLDER              # for learners; FOLDER must not exist
    make.py NUMBER FOLDER --solution   # the same with nothing cut out
    make.py NUMBER --patch             # what turns the first into the second, for `patch -p1` within the folder
    make.py NUMBER --answers           # to the questions of the handout, for the teacher
    make.py NUMBER --mistakes          # that learners make, and the test that sees each of them; with --code as patches, too
    make.py NUMBER … --hidden FOLDER   # with the teacher's questions and answers, if FOLDER has NN-questions.md

An assignment is a folder NN-topic with handout.md, test.cpp and assignment.toml. The last says what is cut, what is to be read, which
commits to look at, and which wrong solutions the tests must refuse (tests/course/course_test.py). There is no second copy of the code:
a cut that no longer fits tiny/ is an error here.
"""
import argparse
import difflib
import pathlib
import re
import signal
import sys
import tomllib

COURSE = pathlib.Path(__file__).resolve().parent
ROOT = COURSE.parent
POINTS, QUESTIONS = 20, 5  # of an assignment's tests, and of its questions
REFUSED = "Macros, `friend`, `extern`, `exit` and calls of the system give no points."
READING = "Files of `tiny/` and headers without a folder are here; the others are in a clone of Lathe."


class Assignment:
    """One with `hidden`, a teacher's folder, has the questions and answers of hidden/NN-questions.md, if that is there."""

    def __init__(self, folder, hidden=None):
        self.folder = folder
        self.number = int(folder.name[:2])
        self.data = tomllib.loads((folder / "assignment.toml").read_text(encoding="utf-8"))
        self.title = self.data["title"]
        self.handout = (folder / "handout.md").read_text(encoding="utf-8")
        self.answers = "".join(f"{number}. {answer}\n" for number, answer in enumerate(self.data["answers"], 1))
        own = hidden and hidden / f"{self.number:02}-questions.md"
        if own and own.is_file():
            questions, heading, answers = own.read_text(encoding="utf-8").partition("\n## Answers\n")
            if not heading:
                raise ValueError(f"{own}: no line is: ## Answers")
            self.handout = f"{self.handout.partition('## Questions')[0]}## Questions\n\n{questions.strip()}\n"
            self.answers = f"{answers.strip()}\n"

    @property
    def hand_in(self):
        """The files of code that a learner changes, as they are called in the folder."""
        return list(dict.fromkeys(cut["file"] for cut in self.data["cut"]))

    def variants(self):
        """The wrong solutions, and behind them right ones that are written otherwise than tiny's."""
        return [*self.data["wrong"], *self.data.get("right", [])]

    def tests(self):
        """(points, name) of each test."""
        text = (self.folder / "test.cpp").read_text(encoding="utf-8")
        found = re.findall(r'\.test\(\s*(\d+),\s*((?:"[^"]*"\s*)+)', text)
        return [(int(points), "".join(re.findall(r'"([^"]*)"', name))) for points, name in found]


def assignments(hidden=None):
    return [Assignment(path.parent, hidden) for path in sorted(COURSE.glob("[0-9][0-9]-*/assignment.toml"))]


def assignment(number, hidden=None):
    found = [one for one in assignments(hidden) if one.number == number]
    if not found:
        sys.exit(f"make.py: there is no assignment {number}; they are 1 to {len(assignments())}")
    return found[0]


def source_of(name, one):
    """The file that is called `name` in a folder: one of tiny/, of the assignment, or of course/."""
    for path in (ROOT / name, one.folder / name, COURSE / name):
        if path.is_file():
            return path
    sys.exit(f"make.py: {one.folder.name} needs {name}, which is not there")


def needed_files(one):
    """Names of the headers that the test includes, themselves or through others."""
    names, waiting = [], [(name, "") for name in re.findall(r'^#include "([^"]+)"', (one.folder / "test.cpp").read_text(encoding="utf-8"), re.M)]
    while waiting:
        name, folder = waiting.pop()
        name = name if "/" in name else folder + name
        if name in names:
            continue
        names.append(name)
        text = source_of(name, one).read_text(encoding="utf-8")
        waiting += [(other, name.rpartition("/")[0] + "/" if "/" in name else "") for other in re.findall(r'^#include "([^"]+)"', text, re.M)]
    return sorted(names)


def place_of(cut, text):
    """(begin, end) of what is cut: the lines behind the one that is cut["from"], up to the next that is cut["to"]."""
    lines = text.splitlines(keepends=True)
    begins = [i for i, line in enumerate(lines) if line.rstrip("\n") == cut["from"]]
    if len(begins) != 1:
        raise ValueError(f"{cut['file']}: {len(begins)} lines are: {cut['from']}")
    begin = begins[0] + 1
    ends = [i for i in range(begin, len(lines)) if lines[i].rstrip("\n") == cut["to"]]
    if not ends:
        raise ValueError(f"{cut['file']}: no line is: {cut['to']}")
    return len("".join(lines[:begin])), len("".join(lines[: ends[0]]))


def stub_of(one, cut):
    indent = re.match(r" *", cut["to"])[0] + "  "
    return cut.get("stub", f'{indent}// Assignment {one.number}: write this.\n{indent}throw std::logic_error("{cut["name"]}: not written yet");\n')


def with_cuts(name, text, number):
    """The text of a file as it is handed out with assignment `number`. The parts of later assignments are cut out, too, so that the folder
    does not give them away. It keeps those of an assignment with `needed_before`, because nothing runs without them. Comments that give
    away what is to be derived are hidden likewise."""
    for one in assignments():
        for part in one.data.get("hide", []):
            if part["file"] == name and one.number >= number:
                begin, end = place_of(part, text)
                text = text[:begin] + part["stub"] + text[end:]
        for cut in one.data["cut"]:
            if cut["file"] == name and (one.number == number or one.number > number and not one.data.get("needed_before")):
                begin, end = place_of(cut, text)
                text = text[:begin] + stub_of(one, cut) + text[end:]
    return text


def with_variants(name, text, one):
    """The text with all wrong solutions and other right ones in it: `course::variant` is the number of the one that runs, 0 for none, -1
    for the stub. Each part that is cut reaches to the end of a function, so a variant that stands before it takes its place."""
    for cut in one.data["cut"]:
        if cut["file"] != name:
            continue
        begin, end = place_of(cut, text)
        body, bodies = text[begin:end], {-1: stub_of(one, cut)}
        for number, variant in enumerate(one.variants(), 1):
            if body.count(variant["old"]) == 1 and variant.get("in", cut["name"]) == cut["name"]:
                bodies[number] = body.replace(variant["old"], variant["new"])
        last = "return;\n" if cut.get("void") else ""
        text = text[:begin] + "".join(f"if (course::variant == {number}) {{\n{other}{last}}}\n" for number, other in bodies.items()) + text[begin:]
    return text.replace("#pragma once\n", '#pragma once\n#include "variant.h"\n', 1)


def files_of(one, solution=False):
    """name → text of the headers in the folder."""
    texts = {name: source_of(name, one).read_text(encoding="utf-8") for name in needed_files(one)}
    return texts if solution else {name: with_cuts(name, text, one.number) for name, text in texts.items()}


def lines_of(row, text):
    """The lines from one with row["from"] to the next with row["to"], as "3 to 40"."""
    lines = text.splitlines()
    begin = next((i for i, line in enumerate(lines) if row.get("from", "") in line), None)
    end = None if begin is None else next((i for i in range(begin, len(lines)) if row["to"] in lines[i]), None) if "to" in row else len(lines) - 1
    if end is None:
        raise ValueError(f"{row['file']}: no lines from “{row.get('from')}” to “{row.get('to')}”")
    return f"{begin + 1} to {end + 1}"


def reading_of(one):
    """The table of what to read. Lines of a file that is in the folder are counted there, as parts of it are cut out."""
    handed_out = files_of(one)
    rows = ["| file | lines | minutes | what for |", "|---|---|---|---|"]
    for row in one.data["read"]:
        text = handed_out.get(row["file"]) or (ROOT / row["file"]).read_text(encoding="utf-8")
        rows.append(f"| `{row['file']}` | {lines_of(row, text)} | {row['minutes']} | {row['what']} |")
    return "\n".join([*rows, f"| | together | {sum(row['minutes'] for row in one.data['read'])} | |"])


def handout_of(one):
    """handout.md, with what is computed: the reading before "## Write", and at the end points, files to hand in and commits."""
    def link(match):
        name = match[2].removeprefix("../../")
        return match[0] if re.match(r"\w+:|#", match[2]) else f"[{match[1]}]({name})" if name in there else f"{match[1]} (`{name}`)"

    there = needed_files(one)
    text = re.sub(r"\[([^\]]+)\]\(([^)\s]+)\)", link, one.handout)
    text = text.replace("\n## Write\n", f"\n## Read\n\n{reading_of(one)}\n\n{READING}\n\n## Write\n", 1)
    points = "\n".join(f"| {points} | {name} |" for points, name in one.tests())
    commits = "\n".join(f"| {row['version']} | `{row['hash']} -- {row['path']}` | {row['title']} |" for row in one.data["commit"])
    return (f"{text}\n## Points\n\n`./grade.sh` shows them.\n\n| points | test |\n|---|---|\n{points}\n| {QUESTIONS} | the questions, read by your teacher |\n"
            f"\n## Hand in\n\n{', '.join(f'`{name}`' for name in one.hand_in)}, and `answers.md` with your answers. Change no other file: it is not looked at. {REFUSED}\n"
            f"\n## Three versions\n\nHow Lathe came to what it has. `git show HASH -- PATH` in a clone of Lathe shows a commit's main file.\n\n"
            f"| version | HASH -- PATH | its first line |\n|---|---|---|\n{commits}\n")


def answers_form_of(one):
    """answers.md as it is handed out: a place for each answer, and for the names that the rules ask for."""
    questions = re.findall(r"^(\d+)\. ", one.handout.partition("## Questions")[2], re.M)
    return (f"# Answers to assignment {one.number}\n\nPartner: \n\nWhat I asked an assistant: \n"
            + "".join(f"\n## Question {number}\n\n" for number in questions))


def write_folder(one, folder, solution=False):
    texts = files_of(one, solution)
    texts["handout.md"] = handout_of(one)
    texts["answers.md"] = answers_form_of(one)
    texts["test.cpp"] = (one.folder / "test.cpp").read_text(encoding="utf-8")
    texts["grade.sh"] = (COURSE / "grade.sh").read_text(encoding="utf-8")
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "grade.sh").chmod(0o755)


def patch_of(one):
    stubs, whole = files_of(one), files_of(one, solution=True)
    return "".join(line for name in one.hand_in for line in difflib.unified_diff(
        stubs[name].splitlines(keepends=True), whole[name].splitlines(keepends=True), f"a/{name}", f"b/{name}"))


def mistake_of(one, wrong):
    """A wrong solution as a patch of the right one."""
    for cut in one.data["cut"]:
        text = source_of(cut["file"], one).read_text(encoding="utf-8")
        begin, end = place_of(cut, text)
        if text[begin:end].count(wrong["old"]) == 1 and wrong.get("in", cut["name"]) == cut["name"]:
            new = wrong["new"] if wrong["old"][0].isspace() else wrong["new"].strip()  # the first line keeps its indent
            changed = text[:begin] + text[begin:end].replace(wrong["old"], new) + text[end:]
            return "".join(difflib.unified_diff(text.splitlines(keepends=True), changed.splitlines(keepends=True), f"a/{cut['file']}", f"b/{cut['file']}"))
    raise ValueError(f"{one.folder.name}: no part has what “{wrong['name']}” changes")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("number", type=int)
    parser.add_argument("folder", type=pathlib.Path, nargs="?")
    parser.add_argument("--solution", action="store_true", help="with nothing cut out")
    parser.add_argument("--patch", action="store_true", help="print the solution as a patch")
    parser.add_argument("--answers", action="store_true", help="print the answers to the questions")
    parser.add_argument("--mistakes", action="store_true", help="print mistakes, each with the test that sees it")
    parser.add_argument("--code", action="store_true", help="with --mistakes: print each as a patch, too")
    parser.add_argument("--hidden", type=pathlib.Path, metavar="FOLDER", help="take questions and answers from FOLDER/NN-questions.md, if it is there")
    parser.add_argument("--list", action="store_true", help="print the folder's name and the files to hand in (for grade.sh)")
    args = parser.parse_args()
    one = assignment(args.number, args.hidden)
    if args.patch:
        print(patch_of(one), end="")
    elif args.answers:
        print(one.answers, end="")
    elif args.mistakes:
        for wrong in one.data["wrong"]:
            print(f"{wrong['name']}\n    fails: {wrong['refused_by']}")
            if args.code:
                print(mistake_of(one, wrong))
    elif args.list:
        print(one.folder.name, *one.hand_in)
    elif not args.folder:
        parser.error("a folder is missing")
    elif args.folder.exists():
        sys.exit(f"make.py: {args.folder} is there already")
    else:
        write_folder(one, args.folder, args.solution)
        print(f"{args.folder}: assignment {one.number}, {one.title}. Begin with {args.folder / 'handout.md'}")


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` ends this program without a word
    try:
        main()
    except ValueError as error:  # tiny/ or a page no longer has what assignment.toml names
        sys.exit(f"make.py: {error}")
