"""Runs a test script so that the trace knows its cases: python_cases.py SCRIPT [argument...]

Cases are unittest's methods, or the functions that tests/cli/driver.py calls; any other script is one case without a name. MUTANT_TRACE
is the trace. MUTANT_CASES, if set, is a file with the names of the cases that run, one a line. With MUTANT set, the first failure ends
the script.
"""
import functools
import os
import pathlib
import runpy
import sys
import time
import unittest

TRACE = os.environ.get("MUTANT_TRACE")
WANTED = pathlib.Path(os.environ["MUTANT_CASES"]).read_text().splitlines() if "MUTANT_CASES" in os.environ else None
STOP = "MUTANT" in os.environ


def note(word, what=""):
    if TRACE:
        trace = os.open(TRACE, os.O_WRONLY)
        os.write(trace, f"{word} {time.monotonic():.3f} {os.getpid()} {what}\n".encode())
        os.close(trace)


def traced(name, test):
    """The function of tests/cli/driver.py, noted."""
    @functools.wraps(test)
    def run(*arguments):
        note("case", name)
        try:
            test(*arguments)
        except BaseException as error:
            skipped = type(error).__name__ == "Skip"
            note("pass" if skipped else "fail")
            if STOP and not skipped:
                os._exit(1)
            raise
        note("pass")
    return run


def trace_driver():
    import driver
    main = driver.main

    def traced_main(tests):
        names = [n for n in tests if n.startswith("test_") and (WANTED is None or n in WANTED)]
        main({name: traced(name, tests[name]) for name in names})
    driver.main = traced_main


def trace_unittest():
    run = unittest.TestCase.run

    def traced_run(self, result=None):
        name = f"{type(self).__name__}.{self._testMethodName}"
        if WANTED is not None and name not in WANTED:
            return None
        note("case", name)
        before = len(result.failures) + len(result.errors)
        done = run(self, result)
        ok = len(result.failures) + len(result.errors) == before
        note("pass" if ok else "fail")
        if STOP and not ok:
            result.stop()
        return done
    unittest.TestCase.run = traced_run


def main():
    script = sys.argv[1]
    sys.argv[:] = sys.argv[1:]
    sys.path[0] = str(pathlib.Path(script).resolve().parent)
    trace_unittest()
    if (pathlib.Path(sys.path[0]) / "driver.py").is_file() and "driver" in pathlib.Path(script).read_text():
        trace_driver()
    runpy.run_path(script, run_name="__main__")


main()
