"""Runs the lathe command for the tests: a clean environment, a folder per test, counts at the end.

For tools/test_as.sh: LATHE_TEST_COMMAND is the command instead of the first argument, LATHE_TEST_THREADS how many threads
it has unless a test says otherwise.
"""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import unicodedata

LATHE = os.environ.get("LATHE_TEST_COMMAND", sys.argv[1])
THREADS = {"LATHE_THREADS": os.environ["LATHE_TEST_THREADS"]} if "LATHE_TEST_THREADS" in os.environ else {}
SANITIZED = "--sanitized" in sys.argv  # everything is slower
OTHER_CUDNN = next((word.partition("=")[2] for word in sys.argv if word.startswith("--other-cudnn=")), "")
SAVE_FAULT = next((word.partition("=")[2] for word in sys.argv if word.startswith("--save-fault=")), "")  # save_fault.cpp
RUN_FAULT = next((word.partition("=")[2] for word in sys.argv if word.startswith("--run-fault=")), "")  # run_fault.cpp
ONLY = [word for word in sys.argv[2:] if not word.startswith("--")]  # run these tests and no others


# A signal that is ignored here, as in the background of a shell, would be ignored by what the tests start, too.
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, lambda *_: None)


class Skip(Exception):
    """Raised by a test that cannot run here; says why."""


def environment(**extra):
    """The environment without any setting of ours, and without a GPU where it would be an emulated, slow one."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("LATHE_") and k != "NO_COLOR"}
    return {**kept, **THREADS, "LATHE_EMULATED_DEVICES": "0", **extra}


def lathe(*arguments, env=None, **options):
    """Runs to the end; .returncode, .stdout and .stderr are what it left."""
    options.setdefault("stdout", subprocess.PIPE)
    return subprocess.run([LATHE, *map(str, arguments)], stderr=subprocess.PIPE, text=True, timeout=300,
                          env=environment(**(env or {})), **options)


def with_fault(fault, *arguments):
    """Runs with a system call of a save that fails, or a signal there."""
    if SANITIZED or not SAVE_FAULT:
        raise Skip("a library is put in front of libc, which the sanitizers want for themselves")
    return lathe(*arguments, env={"LD_PRELOAD": SAVE_FAULT, "LATHE_SAVE_FAULT": fault})


started = []  # by start(), in the test that runs


def start(*arguments, env=None, **options):
    """Runs in the background, at most until the test ends."""
    options.setdefault("stdout", subprocess.PIPE)
    started.append(subprocess.Popen([LATHE, *map(str, arguments)], stderr=subprocess.PIPE, text=True,
                                    env=environment(**(env or {})), **options))
    return started[-1]


def expect(result, code, *texts):
    """The exit code, and texts that stderr holds."""
    shown = f"exit {result.returncode}, expected {code}\nstdout: {result.stdout}\nstderr: {result.stderr}"
    assert result.returncode == code, shown
    for text in texts:
        assert text in result.stderr, f"stderr lacks {text!r}\n{shown}"
    return result


def expect_one_line(result, code, *texts):
    expect(result, code, *texts)
    assert result.stderr.count("\n") == 1, f"one line expected on stderr:\n{result.stderr}"
    return result


def check_shown(result):
    """Neither stream holds what commands a terminal or changes the order in which a line is read."""
    for stream in (result.stdout, result.stderr):
        hidden = [c for c in stream if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")]
        assert not hidden, (hidden, stream)
    return result


def same_on_any_processor(test):
    """Marks a test of what the command says and decides: tools/test_as.sh, which asks for other numbers, leaves it out."""
    test.same_on_any_processor = True
    return test


def main(tests):
    """Calls every test_* function with a fresh folder as its working directory."""
    passed = failed = skipped = 0
    home = os.getcwd()
    for name, test in sorted(tests.items()):
        if not name.startswith("test_") or (ONLY and name not in ONLY):
            continue
        if "LATHE_TEST_COMMAND" in os.environ and not ONLY and hasattr(test, "same_on_any_processor"):
            continue
        with tempfile.TemporaryDirectory(prefix="lathe-cli-") as folder:
            os.chdir(folder)
            begin = time.monotonic(), sum(os.times()[2:4])
            try:
                test(pathlib.Path(folder))
                passed += 1
            except Skip as reason:
                skipped += 1
                print(f"skipped {name}: {reason}")
            except Exception:
                failed += 1
                print(f"FAILED {name}")
                traceback.print_exc(file=sys.stdout)
            finally:
                for process in started:
                    process.kill()
                    process.wait()
                started.clear()
                os.chdir(home)
                print(f"{time.monotonic() - begin[0]:6.1f} s, {sum(os.times()[2:4]) - begin[1]:6.1f} s of processor time: {name}", flush=True)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed else 0)
