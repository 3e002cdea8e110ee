"""The tests as ctest knows them, their cases, and runs of them with a mutant or without.

A trace has one line for each event: "case CLOCK PROCESS NAME", "pass CLOCK PROCESS", "fail CLOCK PROCESS" and "seen MUTANT". A program
that notes no cases is one case without a name.
"""
import dataclasses
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import threading
import time

PYTHON_CASES = pathlib.Path(__file__).resolve().with_name("python_cases.py")
SECONDS, TIMES = 10, 5  # a run may take so long, and so many times what its cases took without a mutant
MOST_NAMES = 400        # on a command line


@dataclasses.dataclass
class Case:
    name: str
    seconds: float = 0.0
    ok: bool = False
    seen: set = dataclasses.field(default_factory=set)


@dataclasses.dataclass
class Run:
    ok: bool
    timed_out: bool
    seconds: float
    cases: list
    output: str

    def by(self):
        """The case that failed, or in which the program ended."""
        return next((case.name for case in self.cases if not case.ok), "")


class Trace:
    """A pipe with a name, to which programs write their lines: no limit on the size of files, which a test may set, is one on it."""

    END = b"end of the trace\n"

    def __init__(self, path):
        os.mkfifo(path)
        self.path, self.text = path, b""
        self.reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self.writer = os.open(path, os.O_WRONLY)
        os.set_blocking(self.reader, True)
        self.thread = threading.Thread(target=self._read)
        self.thread.start()

    def _read(self):
        while not self.text.endswith(self.END):
            self.text += os.read(self.reader, 1 << 16)

    def end(self):
        """All lines until now."""
        os.write(self.writer, self.END)
        self.thread.join()
        os.close(self.reader)
        os.close(self.writer)
        return self.text.removesuffix(self.END).decode(errors="replace")


@dataclasses.dataclass
class Test:
    name: str
    command: list
    folder: str        # of tests/, "" for a script beside the folders
    environment: dict
    working_directory: str
    limit: float
    cases: list = dataclasses.field(default_factory=list)  # that pass without a mutant

    def is_script(self):
        return len(self.command) > 1 and self.command[1].endswith(".py") and "python" in pathlib.Path(self.command[0]).name

    def targets(self, build_folder):
        """What ninja must build for it: the files of the build folder on its command line."""
        prefix = f"{build_folder}/"
        words = [word.partition("=")[2] if word.startswith("--") else word for word in self.command]
        return [word[len(prefix):] for word in words if word.startswith(prefix)]

    def reaching(self, mutant):
        return [case for case in self.cases if mutant in case.seen]

    def run(self, mutant=None, cases=None, limit=None):
        """Runs these cases (None: all) with a mutant (None: none)."""
        if cases is not None and not all(case.name for case in cases):
            cases = None
        with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
            trace = Trace(f"{scratch}/trace")
            environment = {**os.environ, **self.environment, "MUTANT_TRACE": trace.path}
            command = [self.command[0], str(PYTHON_CASES), *self.command[1:]] if self.is_script() else list(self.command)
            if mutant is not None:
                environment["MUTANT"] = str(mutant)
                command += [] if self.is_script() or not self.names_cases() else ["--abort-after=1"]
            if cases is not None and self.names_cases():
                if self.is_script():
                    (pathlib.Path(scratch) / "cases").write_text("".join(f"{case.name}\n" for case in cases))
                    environment["MUTANT_CASES"] = f"{scratch}/cases"
                elif len(cases) <= MOST_NAMES:
                    command.append("--test-case=" + ",".join(re.sub(r"[,\\]", "?", case.name) for case in cases))
            begin = time.monotonic()
            try:
                code, output = self._end_of(command, environment, limit or self.limit, pathlib.Path(scratch) / "output")
            finally:  # its thread waits for the end
                lines = trace.end()
            noted = cases_of(lines)
        seconds = time.monotonic() - begin
        if len(noted) == 1 and not noted[0].name:
            noted[0].ok, noted[0].seconds = code == 0, seconds
        ok = code == 0 and all(case.ok for case in noted if case.name) and (cases is None or any(case.name for case in noted))
        return Run(ok, code is None, seconds, noted, output)

    def names_cases(self):
        return any(case.name for case in self.cases)

    def _end_of(self, command, environment, limit, path):
        """(exit code, or None if it took too long; the end of the output)"""
        with open(path, "wb") as output:
            process = subprocess.Popen(command, env=environment, cwd=self.working_directory or None, stdin=subprocess.DEVNULL,
                                       stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
            try:
                code = process.wait(limit)
            except subprocess.TimeoutExpired:
                code = None
            finally:  # what it started may be left
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                process.wait()
        return code, path.read_bytes()[-2000:].decode(errors="replace")


def cases_of(trace):
    """The cases of a trace. If anything is seen before the first one begins, a case without a name stands before it."""
    found, begin, root = [Case("")], 0.0, None
    for line in trace.splitlines():
        word, _, rest = line.partition(" ")
        if word == "seen":
            found[-1].seen.add(int(rest))
            continue
        clock, process, name = f"{rest} ".split(" ", 2)
        root = root or process
        if process != root:
            continue  # a test's own child runs cases, too
        if word == "case":
            begin = float(clock)
            found.append(Case(name.strip()))
        else:
            found[-1].ok, found[-1].seconds = word == "pass", float(clock) - begin
    if len(found) == 1:
        return found
    found[0].ok = True
    return found if found[0].seen else found[1:]


def tests_of(build_folder, tree):
    """What ctest would run in a build folder: only the tests in folders of tests/ or beside them, not the checks of the tree."""
    listed = subprocess.run(["ctest", "--test-dir", build_folder, "--show-only=json-v1"], check=True, text=True, capture_output=True).stdout
    commands = commands_of(build_folder)  # ctest says no command whose program is not built yet
    found = []
    for test in json.loads(listed)["tests"]:
        command = test.get("command") or commands.get(test["name"])
        if not command:
            continue
        properties = {p["name"]: p["value"] for p in test.get("properties", [])}
        environment = dict(word.partition("=")[::2] for word in properties.get("ENVIRONMENT", []))
        found.append(Test(test["name"], command, folder_of(command, build_folder, tree), environment,
                          properties.get("WORKING_DIRECTORY", ""), properties.get("TIMEOUT", 900)))
    return found


def commands_of(build_folder):
    """{test: command}, out of the files that CMake wrote for ctest."""
    found = {}
    for path in build_folder.rglob("CTestTestfile.cmake"):
        for name, words in re.findall(r'^add_test\((?:\[=*\[)?(.+?)(?:\]=*\])? (".*")\)$', path.read_text(), re.MULTILINE):
            found[name] = re.findall(r'"((?:[^"\\]|\\.)*)"', words)
    return found


def folder_of(command, build_folder, tree):
    """core of tests/core/test_core and of tests/core/npz_python_test.py."""
    for word in command[:2]:
        for root in (build_folder, tree):
            path = pathlib.Path(word)
            if path.is_relative_to(root):
                parts = path.relative_to(root).parts
                return parts[1] if len(parts) > 2 and parts[0] == "tests" else ""
    return ""


def baseline(test, log):
    """Runs a test without a mutant: which cases it has, how long they take and which mutants they reach."""
    run = test.run()
    bad = [case.name for case in run.cases if not case.ok]
    test.cases = [case for case in run.cases if case.ok]
    test.limit = SECONDS + TIMES * run.seconds
    if not run.ok:
        log(f"  {test.name} fails without a mutant: left out {', '.join(bad) or 'as a whole'}")
        if not bad:
            test.cases = []
    return run


def limit_of(cases):
    return SECONDS + TIMES * sum(case.seconds for case in cases)
