#!/usr/bin/env python3
"""Tests of tools/mutants/ on a tree with two functions and their tests: mutants_test.py TOOLS_FOLDER COMPILER."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

COMPILER = sys.argv.pop()
TOOLS = pathlib.Path(sys.argv.pop()).resolve() / "mutants"
sys.path.insert(0, str(TOOLS))
import operators  # noqa: E402
import programs   # noqa: E402
import report     # noqa: E402
import switch     # noqa: E402

# Any mutant of a line of sum() is noticed, none of unasked(), never() is called by no test, and the one of swapped() does not compile.
# In pointed() a condition is a pointer and its opposite is not.
SUM = """// a < b in a comment, and "a + b" in a string are no places.
#include <string>
static_assert(1 + 1 == 2);
constexpr int kSize = 4 - 1;

int sum(int n) {
  const int begin = 7;
  int total = begin;
  for (int i = 0; i < n; ++i) total += i + 2;
  return total - 3;
}

int unasked(int n) {
  const int twice = n + n;
  return twice + 2;
}

int never(int n) {
  const std::string word = "a < b";
  if (n < 0) return 2 - n;
  return n + 2;
}

int at(const int* values, int place) { return values[place]; }
int swapped(const int* values, int place) {
  return at(values, place);
}

int pointed(const int* p, const int* q) {
  while (!p)
    p = q;
  return *p;
}
"""
FILES = {
    "core/sum.cpp": SUM,
    "core/other_cuda.cpp": "int other(int n) {\n  return n + 2;\n}\n",  # is in no program
    "tests/core/sum_test.cpp": """#include <cstdlib>
int sum(int n);
int unasked(int n);
int main(int argc, char** argv) {
  if (argc > 1) return sum(std::atoi(argv[1]));
  unasked(5);
  return sum(3) == 13 ? 0 : 1;
}
""",
    "tests/core/sum_script_test.py": """import resource, subprocess, sys, unittest
PROGRAM = sys.argv.pop()
def no_file():  # which is no limit for the trace
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
class Sums(unittest.TestCase):
    def test_none(self):
        self.assertEqual(subprocess.run([PROGRAM, "0"], preexec_fn=no_file).returncode, 4)
    def test_fails_by_itself(self):
        self.assertEqual(subprocess.run([PROGRAM, "1"]).returncode, 0)
unittest.main()
""",
    "CMakeLists.txt": """cmake_minimum_required(VERSION 3.22)
project(small CXX)
set(CMAKE_CXX_STANDARD 20)
find_package(Python3 COMPONENTS Interpreter)
enable_testing()
add_subdirectory(tests/core)
""",
    "tests/core/CMakeLists.txt": """add_executable(test_core sum_test.cpp ../../core/sum.cpp)
add_test(NAME core COMMAND test_core)
add_test(NAME script COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/sum_script_test.py $<TARGET_FILE:test_core>)
""",
}


def found(text, path="core/a.cpp"):
    """{(line, kind, changed line)} of a source."""
    return {(m.line, m.kind, m.after) for m in operators.mutants(path, text, ["kData"])}


class Operators(unittest.TestCase):
    def test_only_function_bodies_are_changed_and_no_string(self):
        self.assertEqual({line for line, *_ in found(SUM)}, {7, 9, 10, 14, 15, 20, 21, 26, 30, 31})
        self.assertFalse([after for *_, after in found(SUM) if "word" in after])

    def test_each_kind(self):
        text = """void f(State& s) {
  CHECK(ValueError, s.n < 3, "n is at most ", 2 + 1);
  if (s.a && !s.b) throw Error(1 + 2);
  s.bump_version();
  g(s.a, s.b);
  s.x = -s.y;
  return exit_with(ExitCode::kUsage);
}
void save_state(File& file) { file.add("step", step); }
"""
        expected = {
            (2, "bound", 'CHECK(ValueError, s.n <= 3, "n is at most ", 2 + 1);'),
            (2, "comparison", 'CHECK(ValueError, s.n > 3, "n is at most ", 2 + 1);'),
            (2, "wrong constant", 'CHECK(ValueError, s.n < 4, "n is at most ", 2 + 1);'),
            (2, "skipped check", ";"),
            (3, "skipped check", "if (false) throw Error(1 + 2);"),
            (3, "dropped term", "if (s.a) throw Error(1 + 2);"),
            (3, "comparison", "if (s.a || !s.b) throw Error(1 + 2);"),
            (4, "missing version bump", ";"),
            (5, "swapped arguments", "g(s.b, s.a);"),
            (5, "dropped statement", ";"),
            (5, "early return", "return;"),
            (6, "sign", "s.x = s.y;"),
            (7, "wrong exit code", "return exit_with(ExitCode::kData);"),
            (9, "dropped saved entry", "void save_state(File& file) { ;}"),
        }
        self.assertEqual(expected - found(text), set())
        self.assertFalse([after for line, _, after in found(text) if line == 3 and "Error(1 - 2)" in after or "2 - 1" in after])

    def test_a_lambda_has_places_of_its_own_and_a_macros_arguments_have_none(self):
        text = "void f() {\n  each(a, [&](int i) {\n    b += i;\n  });\n  RUN(a, [] {\n    c += 1;\n  });\n}\n"
        self.assertEqual({line for line, *_ in found(text)}, {2, 3, 5})


class Switch(unittest.TestCase):
    def test_other_lines_keep_their_numbers_and_an_error_names_its_mutant(self):
        mutants = operators.mutants("core/sum.cpp", SUM)
        for number, mutant in enumerate(mutants, 1):
            mutant.id = number
        text = switch.switched(SUM, mutants)
        line, numbers = 0, {}
        for row in text.splitlines():
            line = int(row.split()[1]) - 1 if row.startswith("#line") else line + 1
            numbers.setdefault(row, line)
        for number, row in enumerate(SUM.splitlines(), 1):
            if row in ("int unasked(int n) {", "int never(int n) {", "constexpr int kSize = 4 - 1;"):
                self.assertEqual(numbers[row], number, row)
        self.assertEqual(switch.blamed("a.h:3:1: error: no\ncore/sum.cpp:1000002:9:   required from here", mutants), {mutants[1]})
        self.assertEqual(switch.blamed("core/sum.cpp:1000003:9: error: no\ncore/sum.cpp:1000002:9: note: here", mutants), {mutants[2]})
        self.assertEqual(switch.blamed("../core/sum.cpp:9:9: error: no", mutants), set(mutants))
        self.assertEqual(switch.blamed("../core/other.cpp:9:9: error: no", mutants), set())


class Traces(unittest.TestCase):
    def test_a_program_that_takes_too_long_is_ended(self):
        run = programs.Test("slow", ["sleep", "60"], "core", {}, "", 1).run(limit=0.1)
        self.assertEqual((run.ok, run.timed_out, run.seconds < 30), (False, True, True))

    def test_cases_have_what_they_reach_also_by_what_they_start(self):
        cases = programs.cases_of("case 1.5 10 a\nseen 3\ncase 1.6 11 b\nseen 4\npass 1.7 11\npass 2.0 10\ncase 2 10 c, d\nseen 3\nfail 5 10\n")
        self.assertEqual([(c.name, c.seconds, c.ok, c.seen) for c in cases], [("a", 0.5, True, {3, 4}), ("c, d", 3.0, False, {3})])

    def test_what_is_reached_before_the_first_case_belongs_to_all(self):
        self.assertEqual([c.name for c in programs.cases_of("seen 1\ncase 1 10 a\npass 2 10\n")], ["", "a"])


@unittest.skipUnless(shutil.which("ninja") and shutil.which("git"), "needs ninja and git")
class Runs(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="mutants-test-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.tree, self.results = self.folder / "tree", self.folder / "results.jsonl"
        for name, text in FILES.items():
            (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
            (self.tree / name).write_text(text)
        self.git("init", "-q")
        self.git("add", ".")
        self.git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "all")

    def git(self, *arguments):
        subprocess.run(["git", "-C", self.tree, *arguments], check=True)

    def mutate(self, *arguments, code=0):
        done = subprocess.run([sys.executable, TOOLS / "run.py", "--root", self.tree, "--work", self.folder / "work", "--out", self.results,
                               "--seed", "5", f"--cmake=-DCMAKE_CXX_COMPILER={COMPILER}", *arguments], text=True, capture_output=True)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def rows(self):
        return [json.loads(line) for line in self.results.read_text().splitlines()[1:]]

    def test_killed_survived_not_reached_and_an_interrupted_run_goes_on(self):
        output = self.mutate("--count", "20", "core")
        status = {7: "noticed", 9: "noticed", 10: "noticed", 14: "survived", 15: "survived", 20: "not reached", 21: "not reached",
                  26: "does not compile", 30: "not reached", 31: "not reached"}
        noticed = {"killed": "noticed", "timed out": "noticed"}
        self.assertEqual({r["line"]: noticed.get(r["status"], r["status"]) for r in self.rows() if "sum" in r["path"]}, status, output)
        self.assertEqual([r["status"] for r in self.rows() if "other" in r["path"]], ["not built"])
        self.assertEqual((self.tree / "core/sum.cpp").read_text(), SUM)
        self.assertRegex(output, r"all +9 .* 33 %")
        self.assertIn("script fails without a mutant: left out Sums.test_fails_by_itself\n", output)
        self.assertIn("survived: core/sum.cpp unasked, line 15", output)

        lines = self.results.read_text().splitlines(keepends=True)
        self.results.write_text("".join(lines[:-1]) + lines[-1][:20])
        again = self.mutate("--count", "20", "core")
        self.assertEqual("".join(lines[:-1]), "".join(self.results.read_text().splitlines(keepends=True)[:-1]), again)
        self.assertEqual(sorted(r["id"] for r in self.rows()), list(range(1, 12)))
        self.assertIn("is of another run", self.mutate("--count", "20", "--seed", "6", "core", code=1))

    def test_a_diff_limits_the_lines(self):
        (self.tree / "core/sum.cpp").write_text(SUM.replace("twice + 2", "twice + 3"))
        self.mutate("--count", "20", "--diff", "HEAD")
        self.assertEqual([(r["line"], r["status"]) for r in self.rows()], [(15, "survived")])

    def test_an_equivalent_one_is_known_by_its_content(self):
        path = self.folder / "equivalent.txt"
        path.write_text("# why\n\ncore/sum.cpp unasked\n- return twice + 2;\n+ return twice - 2;\n= nobody looks\n")
        self.assertEqual(report.equivalents(path), {("core/sum.cpp unasked", "return twice + 2;", "return twice - 2;"): "nobody looks"})
        report.equivalents()  # the kept list can be read


if __name__ == "__main__":
    program = unittest.main(exit=False)
    bad = len(program.result.failures) + len(program.result.errors)
    print(f"{program.result.testsRun - bad} passed, {bad} failed, {len(program.result.skipped)} skipped")
    sys.exit(bool(bad))
