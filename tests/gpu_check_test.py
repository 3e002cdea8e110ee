#!/usr/bin/env python3
"""Tests of tools/gpu_check.py over programs that only pretend to work: gpu_check_test.py PATH_OF_TOOLS."""
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
TOOLS = pathlib.Path(sys.argv.pop())
sys.path.insert(0, str(TOOLS))
import gpu_check  # noqa: E402

# Each says when it begins and under which number; what it prints has the form of the real one's.
PROGRAM = '''#!/bin/sh
echo "$$ {name} $1 $2" >>"$FAKE_LOG"
sleep "${{FAKE_SLEEP:-0.03}}"
'''
LATHE = PROGRAM.format(name="lathe") + '''case "$1 $2" in
  "info ") echo "cuda:0  pretended GPU" ;;
  "bench step") echo '{"bench": "step", "model": "resnet18", "batch_size": 64, "amp": "fp16", "capture": true,' \
                     '"images_per_second": 6400.0}' ;;
  "bench conv") echo '{"bench": "conv", "layer": "stem", "pass": "forward", "seconds": 2.5e-5, "of_roofline": 0.5, "engine": "engine 7"}' ;;
  "bench kernels") echo '{"bench": "kernels", "kernel": "relu", "dtype": "f16", "bytes_per_second": 2e12, "of_copy": 0.9}'
                   exit "${FAKE_KERNELS:-0}" ;;
esac
'''
TEST = PROGRAM.format(name="test") + '''case "$1" in
  -r=xml) echo '<doctest><TestCase filename="a_test.cpp"/><TestCase filename="b_test.cpp"/></doctest>' ;;
  *) echo "3 passed, 0 failed, 1 skipped" ;;
esac
'''
SCRIPTS = {
    "tools/bench/cudnn_device.py": '{"deviceVer":900}',
    "tools/bench/kernel_times.py": json.dumps({"step_us": 9.0, "busy_us": 8.0, "kernels": [{"kernel": "k", "calls": 2, "us": 8.0}]}),
    "tools/bench/compare_torch.py": json.dumps({
        "model": "resnet18", "batch": 64, "amp": "fp16", "images_per_second": {"ours": 300.0, "eager": 200.0}, "best_of_torch": "eager",
        "ratio": 1.5, "torch_kernels": {"eager": {"by_kind_ms": {"other": 1.0}, "slowest": [{"name": "k", "ms": 1.0, "calls": 3.0}]}}}),
    "tools/bench/compare_losses.py": json.dumps({
        "losses_agree": True, "model": "resnet18", "batch": 64, "amp": "fp16", "steps": 50, "ours_differ": 1e-3, "torch_differ": 2e-3}),
    "tests/cli/device_test.py": "2 passed, 0 failed, 0 skipped",
}
SCRIPT = '''import os, time
open(os.environ["FAKE_LOG"], "a").write(f"{{os.getpid()}} {name}\\n")
time.sleep(0.03)
print({text!r})
'''


class GpuCheck(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        self.out, self.starts = self.folder / "out", 0
        for name, text in SCRIPTS.items():
            self.put(name, SCRIPT.format(name=name, text=text))
        for name in ("gpu_check.py", "gpu_report.py"):
            shutil.copy(TOOLS / name, self.folder / "tools" / name)
        self.put("programs/lathe", LATHE)
        self.put("programs/tests/test_cuda", TEST)
        self.put("programs/lib/librecord_kernels.so", "")
        for name in ("nvidia-smi", "compute-sanitizer", "ncu"):
            self.put(f"bin/{name}", PROGRAM.format(name=name))

    def put(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def start(self, *arguments, **env):
        self.starts += 1
        self.log = self.folder / f"log-{self.starts}"
        self.log.write_text("")
        shutil.rmtree(self.out, ignore_errors=True)
        environment = {**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}", "FAKE_LOG": str(self.log), "OUT": str(self.out),
                       "LATHE_DATA_ROOT": "/nowhere", "TMPDIR": str(self.folder), **env}
        return subprocess.Popen([sys.executable, "-B", self.folder / "tools/gpu_check.py", "--programs", self.folder / "programs",
                                 "--batches", "64,32", *arguments], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True)

    def finish(self, process):
        text = process.communicate(timeout=120)[0]
        return process.returncode, text, self.report()

    def report(self):
        return json.loads((self.out / "report.json").read_text())

    def packed(self):
        with tarfile.open(self.out / "rest.tar.gz") as archive:
            return {pathlib.Path(name).name for name in archive.getnames()}

    def began(self):
        return [line.split() for line in self.log.read_text().splitlines()]

    def test_the_first_ten_minutes(self):
        status, text, report = self.finish(self.start("--seconds", "100000"))
        self.assertEqual(status, 0, text)
        self.assertEqual(text.splitlines()[-1], "8 passed, 0 failed, 2 skipped")  # two files of one program, and the command's script
        self.assertEqual([step["step"] for step in report["steps"]], list(gpu_check.STEPS))
        self.assertEqual({step["result"] for step in report["steps"]}, {"ok", "0 of 2 files failed"})
        self.assertEqual(report["left"], [])
        self.assertEqual(sorted(p.name for p in self.out.iterdir()), ["report.json", "report.md", "rest.tar.gz"])
        self.assertLessEqual({f"{step}.txt" for step in gpu_check.STEPS}, self.packed())
        page = (self.out / "report.md").read_text()
        for line in ("| resnet18 | 64 | fp16 | True | 6400 | 10.00 |", "| stem | forward | 25.0 | 0.50 | engine 7 |",
                     "| relu | f16 | 2000 | 0.90 |", "| resnet18 | 64 | fp16 | 300 | eager 200 | 1.50 | eager 200 |",
                     "Kernels of Lathe, batch 32: 8 us of kernels per step, 9 us from step to step.", "| 1000.0 | 3.0 |  | `k` |",
                     "Kernels of PyTorch eager, batch 64: 1000 us of kernels per step.", "PyTorch's own under amp by 2.00e-03: agree.",
                     "Test programs: 6 passed, 0 failed, 2 skipped, in 2 source files.", '{"deviceVer":900}', "cuda:0  pretended GPU"):
            self.assertIn(line, page)

    def test_a_failure_is_named_and_the_rest_goes_on(self):
        status, text, report = self.finish(self.start("--seconds", "1000", "kernels", "losses", FAKE_KERNELS="3"))
        self.assertEqual((status, text.splitlines()[-1]), (1, "0 passed, 1 failed, 0 skipped"))
        self.assertEqual([step["result"] for step in report["steps"]], ["FAILED: bench kernels 3", "ok"])
        self.assertEqual(len(report["rows"]), 2, "what it printed before it failed counts")

    def test_an_exception_ends_its_step_and_not_the_run(self):
        """Two programs print rows that lack what the report shows."""
        for name, text in (("kernel_times", '{"kernels": []}'), ("compare_losses", '{"losses_agree": true}')):
            self.put(f"tools/bench/{name}.py", SCRIPT.format(name=name, text=text))
        status, text, report = self.finish(self.start("--seconds", "1000", "tables", "losses", "kernels"))
        self.assertEqual((status, text.splitlines()[-1]), (1, "0 passed, 2 failed, 0 skipped"))
        self.assertEqual([step["result"] for step in report["steps"]], ["FAILED: KeyError: 'busy_us'", "FAILED: KeyError: 'steps'", "ok"])
        self.assertEqual([row["bench"] for row in report["rows"]], ["kernels"])
        self.assertIn("| losses | 0 | 50 | FAILED: KeyError: 'steps' |", (self.out / "report.md").read_text())
        with tarfile.open(self.out / "rest.tar.gz") as archive:
            said = archive.extractfile("gpu-check/losses.txt").read().decode()
        self.assertTrue(said.startswith("=== losses: ") and said.rstrip().endswith("KeyError: 'steps'"), said)

    def test_what_there_is_no_time_for_is_left_and_named(self):
        status, text, report = self.finish(self.start("--seconds", "24", "autotune-A", "smoke", "step-A"))
        self.assertEqual(status, 0, text)
        self.assertEqual([step["step"] for step in report["steps"]], ["smoke"])
        self.assertEqual(report["left"], ["autotune-A", "step-A"])
        self.assertIn("--seconds 24 autotune-A step-A`", (self.out / "report.md").read_text())

    def test_a_command_ends_at_its_limit_with_its_children(self):
        output = self.folder / "output"
        begin = time.monotonic()
        status, text = gpu_check.run(["sh", "-c", "echo begun; sleep 61.25 & echo $!; sleep 60"], 0.3, os.environ, output)
        self.assertLess(time.monotonic() - begin, 20)
        self.assertEqual((status, text.split()[0]), (124, "begun"))
        self.assertGone(int(text.split()[1]))

    def test_a_signal_is_noted(self):
        process = self.start("--seconds", "1000", FAKE_SLEEP="20")  # in a step, and not between two
        self.wait_for(lambda: self.began())
        process.terminate()
        status, _, report = self.finish(process)
        self.assertEqual(status, 143)
        self.assertEqual(report["steps"][-1]["result"], "ended by a signal")
        self.assertGone(int(self.began()[-1][0]))

    def test_programs_do_not_outlive_it(self):
        process = self.start("--seconds", "1000", FAKE_SLEEP="20")  # a GPU must not be busy with what nobody waits for
        self.wait_for(lambda: self.began())
        process.kill()
        process.communicate()
        self.assertGone(int(self.began()[0][0]), seconds=10)

    def test_kills_at_random_moments_lose_nothing_that_was_finished(self):
        """A step whose programs began proves that those before it were reported."""
        whole = time.monotonic()
        self.finish(self.start("--seconds", "100000"))
        whole, marks = time.monotonic() - whole, self.marks()
        draw = random.Random(time.time_ns())
        for _ in range(6):
            process, moment = self.start("--seconds", "100000"), draw.uniform(0, whole)
            time.sleep(moment)
            process.send_signal(signal.SIGKILL)
            process.communicate()
            lines = self.began()
            if lines:
                self.assertGone(int(lines[-1][0]))
            if not self.out.exists() or not (self.out / "report.json").exists():
                self.assertEqual(lines, [], f"killed after {moment:.3f} s")
                continue
            report = self.report()
            done = [step["step"] for step in report["steps"] if step["result"] not in (None, "under way")]
            must = [step for step, first in marks.items() if first < len(lines)]  # these began, so all but the last are over
            self.assertEqual(done[:max(len(must) - 1, 0)], must[:-1], f"killed after {moment:.3f} s")
            self.assertIn("# GPU check", (self.out / "report.md").read_text())
            if len(done) > 1:
                self.assertLessEqual({f"{step}.txt" for step in done[:-1]}, self.packed())

    def marks(self):
        """Step → the number of the program that began with it."""
        marks, number = {}, 0
        for step in self.report()["steps"]:
            marks[step["step"]] = number
            number += len(step["commands"]) + (3 if step["step"] == "tests" else 0)  # a listing and two files
        self.assertEqual(number, len(self.began()))
        return marks

    def wait_for(self, condition, seconds=60):
        end = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.005)

    def assertGone(self, pid, seconds=60):
        def gone():
            try:
                return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX"
            except OSError:
                return True
        self.wait_for(gone, seconds)


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    failed = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - failed} passed, {failed} failed, {len(result.skipped)} skipped")
    sys.exit(1 if failed else 0)
