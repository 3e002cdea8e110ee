#!/usr/bin/env python3
"""What a teacher does with course/, as teacher.md says it: make folders, hand out, grade with hidden tests, make slides.

    tools_test.py SOURCE_ROOT COMPILER
"""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(sys.argv[1]).resolve()
COURSE = ROOT / "course"
sys.path.insert(0, str(COURSE))
sys.dont_write_bytecode = True
import handed_in  # noqa: E402
import make  # noqa: E402
import slides  # noqa: E402


def run(*command, folder=None):
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout


def use_compiler_without_optimisation(folder):
    """grade.sh takes $CXX. Of its -O2 and the -O0 behind it the last counts, and half the time is enough."""
    compiler = folder / "compiler"
    compiler.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.argv[2])} "$@" -O0\n')
    compiler.chmod(0o755)
    os.environ["CXX"] = str(compiler)


def test_grading(work):
    """Six folders: the solution, one with a file that does not compile, another whose file differs from that by a comment, one that ends
    before its tests, one that does so and prints all points and the word that it finds in the environment, and one with a link for a file and
    with a test that gives all points. Beside them a hidden test. --allow, so that the tests run in those that end."""
    make_py = lambda *words: run(sys.executable, "-B", COURSE / "make.py", *words, folder=work)
    make_py("3", "whole", "--solution")
    shutil.copytree(work / "whole", work / "broken")
    (work / "flat").mkdir()
    shutil.copyfile(work / "whole/tiny/tape.h", work / "flat/tape.h")
    (work / "flat/answers.md").write_text("1. So.\n", encoding="utf-8")
    with open(work / "broken/tiny/tape.h", "a", encoding="utf-8") as file:
        file.write("no C++\n")
    shutil.copytree(work / "broken", work / "twin")
    with open(work / "twin/tiny/tape.h", "a", encoding="utf-8") as file:
        file.write("\n  // mine\n")
    shutil.copytree(work / "whole", work / "ends")
    with open(work / "ends/tiny/tape.h", "a", encoding="utf-8") as file:
        file.write("#include <cstdlib>\nconst int ended = (std::puts(\"all points\"), std::exit(0), 0);\n")
    shutil.copytree(work / "whole", work / "forges")
    with open(work / "forges/tiny/tape.h", "a", encoding="utf-8") as file:
        file.write("""#include <cstdio>
#include <cstdlib>
static const char* const found = std::getenv("COURSE_WORD");
static const int forged = (std::printf("points 20 of 20%s%s\\n", found ? " " : "", found ? found : ""), std::exit(0), 0);
""")
    (work / "hidden").mkdir()
    example = re.search(r"^```cpp\n(.*?)^```", (COURSE / "teacher.md").read_text(encoding="utf-8"), re.S | re.M)[1]
    (work / "hidden/03-more.cpp").write_text(example)
    (work / "hidden/03-questions.md").write_text("1. Why?\n\n## Answers\n\n1. So.\n")  # the folders were made without it
    (work / "hidden/04-other.cpp").write_text("no C++\n")
    (work / "cheat").mkdir()
    (work / "cheat/tiny").symlink_to(work / "whole/tiny")
    (work / "cheat/test.cpp").write_text('#include <cstdio>\nint main() { std::puts("points 20 of 20"); }\n')
    out = run(COURSE / "grade.sh", "--hidden", "hidden", "--csv", "points.csv", "--allow", "3", "flat", "broken", "twin", "ends", "forges", "cheat", folder=work)
    same = "not handed in: answers.md, which is as it was handed out"
    summary = out.strip().splitlines()[-6:]
    assert summary == ["flat  points 20 of 20  points 2 of 2  (tiny/tape.h equals the course's solution)", f"broken  points 0 of 20  points 0 of 2  ({same})",
                       f"twin  points 0 of 20  points 0 of 2  ({same}; tiny/tape.h equals folder broken)", f"ends  points 0 of 20  points 0 of 2  ({same}; refused)",
                       f"forges  points 0 of 20  points 0 of 2  ({same}; refused)", "cheat  points 0 of 20  points 0 of 2  (not handed in: tiny/tape.h (a link) answers.md)"], out
    table = (work / "points.csv").read_text()
    assert table.startswith('folder,tests,tests of,hidden,hidden of,questions,questions of,late days,total,remarks\n"flat",20,20,2,2,,5,,,"tiny/tape.h equals the course\'s solution"\n"broken",0,20,0,2,,5,,,"not handed in') and table.count("\n") == 7, table
    assert "  1/1  the example of tape.h: 135" in out and "does not compile" in out and "not handed in: tiny/tape.h" in out, out
    assert "\npoints 20 of 20\n  ended before the last test: points 0 of 20\n" in out, out
    assert run(work / "whole/grade.sh").endswith("\npoints 20 of 20\n")
    make_py("10", "stubs")
    assert "\nstubs  points 0 of 20  (not handed in: " in run(COURSE / "grade.sh", "10", "stubs", folder=work)
    assert "is there already" in make_py("3", "whole") and "there is no assignment 12" in make_py("12", "x")


CHEATS = {  # a line of a forger, and what of it is refused
    "#define test(points, name, ...) test(points, name, [] {})": "#",
    "#define expect_close(...) (void)0": "#",
    "%:define expect_close(...) (void)0": "%:",
    '#include "/elsewhere/tape.h"': "#",
    "#include <unistd.h>": "#",
    'inline int f() { return ::write(3, "ok", 2); }': "write",
    "template <const std::string* P> struct Rob { friend const std::string* robbed() { return P; } };": "friend",
    "template struct Rob<&course::Report::word_>;": "Report",
    "inline void expect_close(const char*, std::vector<double>&&, std::initializer_list<double>) {}": "expect_close",
    'inline std::ifstream found("/proc/self/environ");': '"/proc/self/environ"',
    'inline int g() { return L\'"\', std::exit(0), L\'"\'; }': "exit",
    "inline int h() { /* *\\\n/ return fork(); /* */ }": "a line that goes on in the next",
    'extern "C" int dup(int);': "extern",
    'inline int i() { return dprintf(3, "ok") + pwrite(3, "ok", 2, 0); }': "dprintf",
    "inline long j(const iovec* all) { return writev(3, all, 1); }": "writev",
    '_Pragma("GCC poison throw")': "_Pragma",
}


def test_cheats(work):
    """Lines that could reach the grading are refused, each with its place; solutions and comments are not. A process that says "ok" and ends
    gets no points even if it is allowed."""
    name, one = "tiny/tape.h", make.assignment(3)
    stub, whole = make.files_of(one)[name], make.files_of(one, solution=True)[name]
    assert not handed_in.findings_of(whole + "// #define fork() /* exit */\n", stub)
    for line, word in CHEATS.items():
        found = handed_in.findings_of(whole + line + "\n", stub)
        assert (whole.count("\n") + 1, True, word) in found, f"{line}: {found}"
    assert handed_in.findings_of(whole + "#include <set>\n", stub) == [(whole.count("\n") + 1, False, "#include <set>")]
    for other in make.assignments():
        stubs = make.files_of(other)
        for file, text in make.files_of(other, solution=True).items():
            assert file not in other.hand_in or not handed_in.findings_of(text, stubs[file]), file
    make.write_folder(one, work / "ok")
    (work / "ok" / name).write_text(stub.replace('throw std::logic_error("BackwardPass::run: not written yet");', 'for (int fd = 3; fd < 9; ++fd) (void)!::write(fd, "ok", 2);\n    _exit(0);'), encoding="utf-8")
    out = run(COURSE / "grade.sh", "3", "ok", folder=work)
    assert "refused: tiny/tape.h:" in out and "ok  points 0 of 20" in out, out
    out = run(COURSE / "grade.sh", "--allow", "3", "ok", folder=work)
    assert "ended the program before the end of the test" in out and "ok  points 0 of 20" in out, out
    out = run(COURSE / "grade.sh", "--diff", "3", "ok", folder=work)
    assert "\n+++ handed-in/tiny/tape.h\n" in out and "\n+    _exit(0);\n" in out and "points" not in out, out


def test_what_is_handed_out(_):
    """Week 6 hides the derivation in the folders up to its own, and the solution has it. answers.md has a place for each question. A reader
    that ends before make.py does is no error."""
    for number, hidden in ((6, True), (7, False)):
        text = make.with_cuts("tiny/batch_norm.h", (ROOT / "tiny/batch_norm.h").read_text(encoding="utf-8"), number)
        assert ("mean(g * h)" not in text) == hidden, number
    assert "mean(g * h)" in make.files_of(make.assignment(6), solution=True)["tiny/batch_norm.h"]
    assert "mean(g" not in make.handout_of(make.assignment(6))
    form = make.answers_form_of(make.assignment(3))
    assert form.startswith("# Answers to assignment 3\n\nPartner: \n") and form.count("\n## Question ") == 3, form
    out = run("bash", "-c", f"{sys.executable} -B {COURSE / 'make.py'} 3 --mistakes --code | true")
    assert out == "", out


def test_patches(work):
    """The patch of each assignment makes the solution of the stubs."""
    for one in make.assignments():
        stubs = work / one.folder.name
        make.write_folder(one, stubs)
        (work / "patch").write_text(make.patch_of(one), encoding="utf-8")
        subprocess.run(["git", "apply", work / "patch"], cwd=stubs, check=True)
        for name, text in make.files_of(one, solution=True).items():
            if name in one.hand_in:
                assert (stubs / name).read_text(encoding="utf-8") == text, name


def test_mistakes(work):
    """Each mistake is a patch of the solution."""
    for one in make.assignments():
        whole = work / one.folder.name
        make.write_folder(one, whole, solution=True)
        for wrong in one.data["wrong"]:
            (work / "patch").write_text(make.mistake_of(one, wrong), encoding="utf-8")
            subprocess.run(["git", "apply", "--check", work / "patch"], cwd=whole, check=True)
    out = run(sys.executable, "-B", COURSE / "make.py", "3", "--mistakes", "--code")
    assert "fails: what an op saved is released when it has run\n--- a/tiny/tape.h\n" in out and "\n-    node.backward = nullptr;\n" in out, out


def test_handouts(_):
    """Two pages each, with all sections; three questions with answers; listed in README.md and in the teacher's weeks."""
    pages = [(COURSE / name).read_text(encoding="utf-8") for name in ("README.md", "teacher.md")]
    numbers = [one.number for one in make.assignments()]
    assert numbers == list(range(1, 12)), numbers  # as CMakeLists.txt lists them
    for one in make.assignments():
        text = (one.folder / "handout.md").read_text(encoding="utf-8")
        assert text.startswith(f"# {one.number}. {one.title}\n"), one.folder.name
        assert re.findall(r"^## (.*)", text, re.M) in (["What", "Why", "Write", "Look out for", "Questions"], ["What", "Why", "Write", "Go on", "Look out for", "Questions"]), one.folder.name
        assert len(re.findall(r"^\d\. ", text.partition("## Questions")[2], re.M)) == len(one.data["answers"]) == len(one.data["commit"]) == 3, one.folder.name
        assert (words := len(make.handout_of(one).split())) < 1000, f"{one.folder.name}: {words} words"
        assert f"| {one.number} | [{one.title}]({one.folder.name}/handout.md) |" in pages[0] and f"| {one.number} | {one.number} " in pages[1], one.folder.name


def test_own_questions(work):
    """A teacher's questions take the place of the three in the handout, and the answers go with them. Other assignments keep theirs."""
    (work / "03-questions.md").write_text("1. Why?\n2. How?\n\n## Answers\n\n1. So.\n2. Thus.\n", encoding="utf-8")
    own, others = make.assignment(3, work), make.assignment(4, work)
    assert "\n## Questions\n\n1. Why?\n2. How?\n\n## Points\n" in make.handout_of(own) and "L2" not in make.handout_of(own), make.handout_of(own)
    assert own.answers == "1. So.\n2. Thus.\n" and "So." not in make.handout_of(own), own.answers
    assert make.handout_of(others) == make.handout_of(make.assignment(4)) and others.answers == make.assignment(4).answers
    assert run(sys.executable, "-B", COURSE / "make.py", "3", "--answers", "--hidden", work) == own.answers
    (work / "03-questions.md").write_text("1. Why?\n", encoding="utf-8")
    assert "no line is: ## Answers" in run(sys.executable, "-B", COURSE / "make.py", "3", "--answers", "--hidden", work)


def test_commits(_):
    """The commits that handouts name are in the history, if that is here, and change the file that is named."""
    git = ["git", "-C", str(ROOT)]
    if run(*git, "rev-parse", "--show-toplevel", "--is-shallow-repository") != f"{ROOT}\nfalse\n":
        return "skipped"
    for one in make.assignments():
        for commit in one.data["commit"]:
            assert run(*git, "log", "-1", "--format=%s", commit["hash"]) == commit["title"] + "\n", f"{one.folder.name}: {commit['hash']}"
            assert run(*git, "show", "--name-only", "--format=", commit["hash"], "--", commit["path"]) == commit["path"] + "\n", f"{one.folder.name}: {commit['path']}"


def test_printed_handout(work):
    """The longest handout has two pages."""
    if not (shutil.which("pandoc") and shutil.which("chromium")):
        return "skipped"
    longest = max(make.assignments(), key=lambda one: len(make.handout_of(one)))
    slides.write_handouts(work, [str(longest.number)])
    pages = len(re.findall(rb"/Type\s*/Page\b", (work / f"{longest.folder.name}.pdf").read_bytes()))
    assert pages == 2, f"{longest.folder.name}: {pages} pages"


def test_slides(_):
    """A slide for each heading, figure, quoted line and exercise of a chapter, and none that is empty."""
    for page in sorted((ROOT / "docs/tour").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        made = slides.slides_of(text)
        for heading in re.findall(r"^## (.*)", text, re.M):
            assert f"## {heading}\n" in made, f"{page.name}: {heading}"
        for figure in re.findall(r"^!\[.*\]\(.*\)$", text, re.M):
            assert figure in made, f"{page.name}: {figure}"
        for block in re.findall(r"^```(?:cpp|text)\n(.*?)^```$", text, re.S | re.M):
            for line in block.splitlines():
                assert line.strip() in made, f"{page.name}: {line}"
        for exercise in re.findall(r"^- (\*\*\w+\.\d\*\*)", text, re.M):
            assert f"- {exercise} " in made, f"{page.name}: {exercise}"
        assert not re.search(r"^## .*\n\s*(?=##|\Z)", made, re.M), page.name
        for slide in re.split(r"^## .*\n", made, flags=re.M)[1:]:
            assert slide.count("\n- ") != 1 or "<!-- -->" in slide, f"{page.name}: a bullet alone: {slide}"
        assert "</pre>" not in made and "\nNext: " not in made and "- Next: " not in made, f"{page.name}: code of an answer, or the next page"
        assert "```cpp\n}\n```" not in made, f"{page.name}: a bracket alone"
        assert slides.MARK not in made and not re.search("^(?:- )?" + slides.MARK, text, re.M), f"{page.name}: a mark in the wrong place"


def test_changed_slides(work):
    """--without leaves out a section and no other. Each that teacher.md names is there. Markdown that was changed becomes a PDF."""
    page = "# T\n\nIntro.\n\n## A\n\nOne.\n\n## B\n\nTwo.\n"
    assert slides.slides_of(page, ["A"]) == slides.slides_of(page.replace("## A\n\nOne.\n\n", "")), slides.slides_of(page, ["A"])
    slides_py = lambda *words: run(sys.executable, "-B", COURSE / "slides.py", *words, folder=work)
    named = sorted(set(re.findall('--without="(.*?)"', (COURSE / "teacher.md").read_text(encoding="utf-8"))))
    assert len(named) == 3, named
    slides_py("made", "02-the-tape", "05-batch-norm", "--markdown", *[f"--without={one}" for one in named])
    made = "".join(path.read_text(encoding="utf-8") for path in sorted((work / "made").glob("*.md")))
    assert "backward_by_hand(const" not in made and "## Why it is fused" in made and not any(f"## {one}\n" in made for one in named), made
    assert "is called: C" in slides_py("made", "02-the-tape", "--markdown", "--without=C")
    assert "is not there" in slides_py("made/other.md")
    if not (shutil.which("pandoc") and shutil.which("chromium")):
        return "skipped"
    slides_py("made/02-the-tape.md")
    assert (work / "made/02-the-tape.pdf").read_bytes().startswith(b"%PDF")


def test_marked_sentences(_):
    """A section with marks has the marked sentences on its slides and no others. A long output stays on one slide up to 26 lines.
    Letters are so small that no line of code and no formula is broken. A section for reference has no table."""
    made = slides.slides_of("# T\n\nIntro.\n\n## A\n\nOne (`f(x)`). Two: see `a.b`.<!-- slide --> Three.\nFour.<!-- slide -->\n\nFive.\n\n## B\n\nSix. Seven.\n")
    assert "## A\n\n- Two: see `a.b`.\n\n- Four.\n" in made and not re.search("One|Three|Five", made), made
    assert "## B\n\n- Six.\n\n- Seven.\n" in made, made
    chapters = "".join(slides.slides_of((ROOT / f"docs/tour/{name}.md").read_text(encoding="utf-8")) for name in ("02-the-tape", "03b-in-place"))
    for conclusion in ("So the engine takes the largest number first", "that is why a training loop calls `zero_grad()`", "*the gradient of repeating is a sum*", "It is the storage, and the version"):
        assert conclusion in chapters, conclusion
    for lines, blocks, height in ((16, 1, 0), (26, 1, 15), (27, 2, 0), (55, 3, 20)):
        made = slides.slides_of("# T\n\nIntro.\n\n```text\n" + "a line\n" * lines + "```\n")
        assert made.count("## What the program prints\n") == blocks and made.count("a line\n") == lines, made
        assert (f"line-height:{height}px" in made) if height else ("```text\n" in made), made
    made = slides.slides_of("# T\n\nIntro.\n\n## A\n\n    " + "y" * 100 + "\n\n```cpp\n" + "x" * 100 + "\n```\n\n## For reference\n\nOne.\n\n| a |\n|---|\n| b |\n")
    assert made.count("line-height:17px") == 2 and slides.rows_of(["x" * 100], 17) == 1 and "{.cpp style=" in made, made
    assert "The chapter has the table." in made and "| a |" not in made, made


def main():
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for name, test in sorted(globals().items()):
        if not name.startswith("test_"):
            continue
        outcome = "passed"
        with tempfile.TemporaryDirectory(prefix="lathe-course-tools-") as folder, tempfile.TemporaryDirectory() as tools:
            use_compiler_without_optimisation(pathlib.Path(tools))
            try:
                outcome = test(pathlib.Path(folder).resolve()) or outcome
            except (AssertionError, OSError, ValueError, subprocess.CalledProcessError) as error:
                outcome = "failed"
                print(f"FAILED {name}: {error}")
        counts[outcome] += 1
    print("{passed} passed, {failed} failed, {skipped} skipped".format(**counts))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
