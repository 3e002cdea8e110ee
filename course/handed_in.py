#!/usr/bin/env python3
"""What a learner changed in the files of an assignment: lines that could reach the grading, and the difference from the stubs.

    handed_in.py NUMBER FOLDER          # prints lines to look at; the exit status is 1 if one of them is refused
    handed_in.py NUMBER FOLDER --diff   # prints the changed lines
    handed_in.py NUMBER FOLDER --forms  # prints a number for each changed file, the same if only blanks and comments differ (for grade.sh)

FOLDER has the files as make.py names them. Only lines that the stub has not are looked at, and of these only code and texts, not comments.
A program under test can do whatever the tests can, so this stops tricks and no determined forger.
"""
import argparse
import difflib
import hashlib
import pathlib
import re
import sys

sys.dont_write_bytecode = True  # course/ stays as it is in the clone
import make  # noqa: E402

TOKEN = re.compile(r"""
    (?P<comment> //[^\n]* | /\*.*?(?:\*/|\Z) )
  | (?P<text> (?:u8|[uUL])?R"(?P<end>[^\s()\\]{0,16})\(.*?\)(?P=end)" | (?:u8|[uUL])?"(?:\\.|[^"\\\n])*" )
  | (?P<char> (?:u8|[uUL])?'(?:\\.|[^'\\\n])+' )
  | (?P<number> \.?\d(?:[eEpP][+-]|'?[\w.])* )
  | (?P<include> ^[ \t]*\#[ \t]*include[ \t]*<[a-z_]+> )
  | (?P<word> [A-Za-z_]\w* )
  | (?P<sign> %: | \S )""", re.X | re.S | re.M)
# Without an honest use in these files: names of points.h (an overload of one may suit a test better), the system, and what gets round
# access rights or the compiler.
REFUSED = set("""
    course Report expect expect_close expect_equal expect_gradients expect_throws friend extern asm exit _exit _Exit quick_exit atexit at_quick_exit _Pragma fork vfork syscall popen dlopen dlsym getenv
    secure_getenv environ
""".split())
REFUSED_CALLS = set("alarm dprintf dup dup2 fdopen kill mmap open pipe pwrite raise read signal system write writev".split())  # not as names of variables
HARMLESS = {"__func__", "__restrict", "__restrict__"}  # of the words with two underscores, which are the compiler's
LOOK_AT = set("abort cerr clog const_cast cout fopen fprintf fputs freopen fstream fwrite ifstream made_up ofstream printf putchar puts reinterpret_cast values volatile".split())


def is_refused(tokens, at):
    match, word = tokens[at], tokens[at][0]
    if match["text"]:
        return re.search("/proc|/dev|COURSE", word)
    if match["word"]:
        is_call = tokens[at + 1:at + 2] and tokens[at + 1][0] == "(" or at > 0 and tokens[at - 1][0] in ":&"
        return word in REFUSED or word.startswith("__") and word not in HARMLESS or word in REFUSED_CALLS and is_call
    return word in ("#", "%:", "\\")


def findings_of(text, stub):
    """(line, whether it is refused, what) of each place to look at in a line of `text` that `stub` has not."""
    lines, known = text.split("\n"), {line.strip() for line in stub.split("\n")}
    found = [(number, True, "a line that goes on in the next") for number, line in enumerate(lines, 1) if line.rstrip().endswith("\\")]
    tokens = [match for match in TOKEN.finditer(text) if not match["comment"]]
    for at, match in enumerate(tokens):
        number, word = text.count("\n", 0, match.start()) + 1, match[0].strip()
        if lines[number - 1].strip() in known:
            continue
        if is_refused(tokens, at):
            found.append((number, True, word))
        elif match["include"] or match["word"] and word in LOOK_AT:
            found.append((number, False, word))
    return sorted(found)


def form_of(text):
    """The text without blanks and comments."""
    return "\n".join(match[0].strip() for match in TOKEN.finditer(text) if not match["comment"])


def forms_of(one, folder):
    """(form's number, or "solution" if it is that of the course, name) of each file to hand in whose form is another than the stub's."""
    solution = make.files_of(one, solution=True)
    for name, text, stub in changed(one, folder):
        form = form_of(text)
        if form != form_of(stub):
            yield "solution" if form == form_of(solution[name]) else hashlib.sha256(form.encode()).hexdigest(), name


def changed(one, folder):
    """(name, text in the folder, text of the stub) of each file to hand in that is another than the stub."""
    stubs = make.files_of(one)
    for name in one.hand_in:
        text = (folder / name).read_text(encoding="utf-8", errors="replace").replace("\r\n", "\n")
        if text != stubs[name]:
            yield name, text, stubs[name]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("number", type=int)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--diff", action="store_true", help="print the changed lines")
    parser.add_argument("--forms", action="store_true", help="print a number for each changed file (for grade.sh)")
    args = parser.parse_args()
    one, refused = make.assignment(args.number), False
    if args.forms:
        for form, name in forms_of(one, args.folder):
            print(form, name)
        return 0
    for name, text, stub in changed(one, args.folder):
        if args.diff:
            print("".join(line if line.endswith("\n") else line + "\n" for line in difflib.unified_diff(
                stub.splitlines(keepends=True), text.splitlines(keepends=True), f"stub/{name}", f"handed-in/{name}")), end="")
            continue
        lines = text.split("\n")
        for number, bad, what in findings_of(text, stub):
            refused = refused or bad
            line = lines[number - 1].strip()[:100]
            print(f"  {'refused' if bad else 'look at'}: {name}:{number}: {line if what == line else f'{what}: {line}'}")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
