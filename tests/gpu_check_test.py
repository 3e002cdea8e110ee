"""Tests of tools/gpu_check.py over programs that only pretend to work: gpu_check_test.py PATH_OF_TOOLS."""
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
import unittest.mock

sys.dont_write_bytecode = True
TOOLS = pathlib.Path(sys.argv.pop())
sys.path.insert(0, str(TOOLS))
from gpu import machine, rehearse, schedule, steps, test_programs  # noqa: E402

# Each says when it begins and under which number, prints a row in the form of the real one's, and then witnesses the row.
PROGRAM = '''#!/bin/sh
echo "$$ {name} $1 $2" >>"$FAKE_LOG"
sleep "${{FAKE_SLEEP:-0}}"
say() {{ echo "$1"; echo "$1" >>"$FAKE_ROWS"; sleep "${{FAKE_LINGER:-0}}"; }}
'''
LATHE = PROGRAM.format(name="lathe") + '''case "$*" in
  info) echo "cuda:0  pretended GPU" ;;
  "bench step --help") echo "$FAKE_STEP_HELP" ;;
  "bench conv --help") echo "  --search-per-engine N" ;;
  "train --recipe cifar10-94-fast "*) echo "the recipe with $6 $7" ;;
  *capture*) echo "$LATHE_ALGO_CACHE" >"$LATHE_ALGO_CACHE" ;;
esac
case "$1 $2" in
  "bench step") say '{"bench":"step","model":"resnet18","batch_size":64,"amp":"fp16","capture":true,"images_per_second":6400.0,"tries":"'$LATHE_UNMEASURED'"}' ;;
  "bench conv") say '{"bench": "conv", "layer": "stem", "pass": "forward", "seconds": 2.5e-5, "of_roofline": 0.5, "engine": "engine 7"}'
                say '{"bench": "conv", "layer": "block", "pass": "forward", "fusion": "norm_relu", "seconds": 2e-5, "split_seconds": 3e-5, "settings": 12, "settings_timed": 10, "search_seconds": 0.25, "engine": "8"}' ;;
  "bench kernels") say '{"bench": "kernels", "kernel": "relu", "dtype": "f16", "bytes_per_second": 2e12, "of_copy": 0.9}'
                   exit "${FAKE_KERNELS:-0}" ;;
esac
'''
TEST = PROGRAM.format(name="test") + '''case "$1" in
  -r=xml) echo '<doctest><TestCase filename="a_test.cpp"/><TestCase filename="fused_b_test.cpp"/></doctest>' ;;
  *) echo "b_test.cpp:9: MESSAGE: error 1e-4, choices in $LATHE_ALGO_CACHE." && echo "3 passed, 0 failed, 1 skipped" ;;
esac
'''
NORM = PROGRAM.format(name="norm") + '''say '{"bench": "batch_norm", "shape": "[64,64,32,32]", "forward_us": 9.0, "backward_us": 12.0}'
'''
ROUND = '{{"bench": "round", "model": "resnet18", "batch": 64, "amp": "fp16", "images_per_second": {{"ours": {0}, "eager": 200}}}}'
SCRIPTS = {
    "tools/bench/cudnn_device.py": ['{"deviceVer":900}'],
    "tools/bench/kernel_times.py": [json.dumps({"bench": "table", "step_us": 9.0, "busy_us": 8.0,
                                                "kernels": [{"kernel": "k", "calls": 2, "us": 8.0}]})],
    "tools/bench/compare_torch.py": [ROUND.format(300), ROUND.format(500), json.dumps({
        "bench": "turns", "batch": 64,
        "torch_kernels": {"eager": {"by_kind_ms": {"other": 1.0}, "slowest": [{"name": "k", "ms": 1.0, "calls": 3.0}]}}})],
    "tools/bench/compare_losses.py": [json.dumps({
        "bench": "losses", "losses_agree": True, "fusion": "on", "fused": 7, "model": "resnet18", "batch": 64, "amp": "fp16", "steps": 50,
        "ours_differ": 1e-3, "torch_differ": 2e-3})],
    "tests/cli/device_test.py": ["2 passed, 0 failed, 0 skipped"],
}
SCRIPT = '''import os, sys, time
open(os.environ["FAKE_LOG"], "a").write(f"{{os.getpid()}} {name}\\n")
if "--wait-for" in sys.argv:
    print('{{"event": "ready"}}', flush=True)
    while not os.path.exists(sys.argv[sys.argv.index("--wait-for") + 1]):
        time.sleep(0.01)
for line in {lines!r}:
    print(line, flush=True)
    open(os.environ["FAKE_ROWS"], "a").write(line + "\\n")
'''


class GpuCheck(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        self.out, self.starts = self.folder / "out", 0
        for name, lines in SCRIPTS.items():
            self.put(name, SCRIPT.format(name=name, lines=lines))
        shutil.copy(TOOLS / "gpu_check.py", self.folder / "tools")
        shutil.copytree(TOOLS / "gpu", self.folder / "tools/gpu", ignore=shutil.ignore_patterns("__pycache__"))
        for name, text in {"lathe": LATHE, "tests/test_cuda": TEST, "lib/librecord_kernels.so": "", "commit": "abc", "batch_norm_256": NORM,
                           "batch_norm_512": NORM}.items():
            self.put(f"programs/{name}", text)
        for name in ("nvidia-smi", "compute-sanitizer", "ncu"):
            self.put(f"bin/{name}", PROGRAM.format(name=name))

    def put(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def start(self, *arguments, **env):
        self.starts += 1
        self.log, self.rows = self.folder / f"log-{self.starts}", self.folder / f"rows-{self.starts}"
        self.log.write_text("")
        shutil.rmtree(self.out, ignore_errors=True)
        environment = {**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}", "FAKE_LOG": str(self.log), "OUT": str(self.out),
                       "FAKE_ROWS": str(self.rows), "FAKE_STEP_HELP": "--[no-]conv-fusion", "LATHE_DATA_ROOT": "/nowhere",
                       "TMPDIR": str(self.folder), **env}
        return subprocess.Popen([sys.executable, "-B", self.folder / "tools/gpu_check.py", "--programs", self.folder / "programs",
                                 "--batches", "64,32", *arguments], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True, start_new_session=True)

    def finish(self, process):
        text = process.communicate(timeout=120)[0]
        return process.returncode, text, self.report()

    def report(self):
        return json.loads((self.out / "report.json").read_text())

    def began(self):
        return [line.split() for line in self.log.read_text().splitlines()]

    def test_the_budgets_fit_eight_minutes(self):
        self.assertEqual(schedule.total(steps.PLAN), 480)
        text = subprocess.run([sys.executable, "-B", TOOLS / "gpu_check.py", "--dry-run"], text=True, stdout=subprocess.PIPE).stdout
        self.assertEqual(text.splitlines()[-1].split(), ["in", "all", "480", "s"])
        self.assertEqual(len(text.splitlines()), len(steps.PLAN) + 1)

    def test_a_whole_run(self):
        self.put("gpu-check-caches/inductor/a/kernel.cubin", "machine code")
        self.put("gpu-check-caches/inductor/a/kernel.ptx", "what it was made of")
        status, text, report = self.finish(self.start("--seconds", "100000"))
        self.assertEqual(status, 0, text)
        self.assertEqual(text.splitlines()[-1], "8 passed, 0 failed, 2 skipped")  # two files of one program, and the command's script
        self.assertEqual([step["step"] for step in report["steps"]], [step.name for step in steps.PLAN if not step.beside])
        self.assertEqual({step["result"] for step in report["steps"]}, {"ok", "0 of 3 files failed"}, report["steps"])
        self.assertEqual((report["left"], report["unreadable"]), ([], []))
        self.assertEqual(sorted(p.name for p in self.out.iterdir()),
                         ["algos.json", "beside.txt", "caches.tar.gz", "log.txt", "report.json", "report.md"])
        with tarfile.open(self.out / "caches.tar.gz") as archive:
            self.assertEqual(archive.getnames(), ["inductor/a/kernel.cubin"])
        self.assertEqual(rehearse.missing_rows(rehearse.read_rows(self.rows), report), [])
        self.assertEqual(set(report["tests"]), {"test_cuda fused_b_test.cpp", "test_cuda a_test.cpp", "device_test.py"})
        page = (self.out / "report.md").read_text()
        for line in ("| resnet18 | 64 | fp16 | True |  |  | 6400 | 10.00 |", "| stem | forward |  | 4 | 25.0 |  | 0.50 |  |  | engine 7 |",
                     "| stem | forward |  | none | 25.0 |  | 0.50 |  |  | engine 7 |",
                     "| block | forward | norm_relu | 4 | 20.0 | 30.0 |  | 10 of 12 | 0.25 | 8 |", "| relu | f16 | 2000 | 0.90 |",
                     "| resnet18 | 64 | fp16 | ours | 8 | 400 | 300 to 500 | 1.00 |",
                     "| resnet18 | 64 | fp16 | eager | 8 | 200 | 200 to 200 | 2.00 |", "| [64,64,32,32] | 256 | 9.0 | 12.0 |",
                     "Kernels of Lathe, batch 32: 8 us of kernels per step, 9 us from step to step.", "| 1000.0 | 3.0 |  | `k` |",
                     "Kernels of PyTorch eager, batch 64: 1000 us of kernels per step.", "amp fp16, 7 fused convolutions: ours differ",
                     "Test programs: 8 passed, 0 failed, 2 skipped, in 3 source files.", "the recipe with --dataset synthetic", '{"deviceVer":900}', "cuda:0  pretended GPU",
                     "measured by test_cuda fused_b_test.cpp:\n```\nerror 1e-4, choices in .\n```"):
            self.assertIn(line, page)
        self.assertNotIn("measured by test_cuda a_test.cpp", page)

    def test_each_part_that_no_gpu_has_measured_is_tried(self):
        header = (TOOLS.parent / "core/unmeasured.h").read_text()
        parts = re.findall(r'^  k\w+, +// "([a-z-]+)"', header, re.M)
        self.assertEqual(list(steps.UNMEASURED), parts)
        status, text, report = self.finish(self.start("--seconds", "100000", "unmeasured", LATHE_UNMEASURED="something"))
        self.assertEqual(status, 0, text)
        ways = ["none", ",".join(parts), *parts]
        self.assertEqual([(row["unmeasured"], row["tries"]) for row in report["rows"]], [(way, "" if way == "none" else way) for way in ways * 2])
        self.assertIn("| resnet18 | 64 | fp16 | True |  | relu-bits | 6400 | 10.00 |", (self.out / "report.md").read_text())

    def test_the_fused_tests_are_first(self):
        env = {**os.environ, "FAKE_LOG": str(self.folder / "log")}
        programs = test_programs.TestPrograms([self.folder / "programs/tests/test_cuda"], True, env, self.folder, None)
        self.assertEqual([name for _, name in programs.jobs()], ["fused_b_test.cpp", "a_test.cpp"])

    def test_what_reads_files_of_the_tree_is_left_out_of_a_pack(self):
        found, folder = set(), TOOLS.parent / "tests"
        path = r'"LATHE_\w+=\\"\$\{(?:PROJECT_SOURCE|CMAKE_CURRENT_SOURCE|CMAKE_CURRENT_BINARY)_DIR\}/'
        of_files = re.compile(rf"set_(?:property\(SOURCE|source_files_properties\() ?((?:\w+\.cpp )+)[^)]*{path}")
        for lists in folder.rglob("CMakeLists.txt"):
            text = lists.read_text()
            names = [name for match in of_files.finditer(text) for name in match[1].split()]
            if re.search(rf"target_compile_definitions\(test_\w+ PRIVATE\s+{path}", text):
                names += [file.name for file in lists.parent.glob("*_test.cpp") if re.search(r"LATHE_(REACTION|CLASSIFIER)\b", file.read_text())]
            found |= {f"{lists.parent.name}/{name}" for name in names}
        self.assertEqual(found, test_programs.NEED_THE_TREE)

    def test_a_program_with_a_case_for_a_gpu_is_in_a_pack(self):
        left_out = re.search(r'^left_out="([^"]+)"', (TOOLS / "gpu_pack.sh").read_text(), re.M)[1].replace("\\\n", "").split()
        lists = {path: path.read_text() for path in (TOOLS.parent / "tests").rglob("CMakeLists.txt")}
        for program in left_out:
            name, sources = program.removeprefix("test_"), []
            for path, text in lists.items():
                for match in re.finditer(rf"lathe_test\({name}\b([^)]*)", text):
                    sources += [path.parent / word for word in match[1].split() if word.endswith("_test.cpp")]
            cases = [len(re.findall(r"\* *(?:test::)?(?:cuda|gpus|kernel)_case\(", source.read_text())) for source in sources]
            self.assertTrue(sources, program)
            self.assertTrue(program == "test_bridge" or sum(cases) == 0, program)

    def test_a_failure_is_named_and_the_rest_goes_on(self):
        status, text, report = self.finish(self.start("--seconds", "1000", "kernels", "losses", FAKE_KERNELS="3"))
        self.assertEqual((status, text.splitlines()[-1]), (1, "0 passed, 1 failed, 0 skipped"))
        self.assertEqual({step["step"]: step["result"] for step in report["steps"]},
                         {"unpack": "ok", "losses": "ok", "kernels": "FAILED: bench kernels 3"})
        self.assertEqual(len(report["rows"]), 2, "what it printed before it failed counts")

    def test_an_exception_ends_its_step_and_not_the_run(self):
        """Two programs print rows that lack what the report shows."""
        for name, line in (("kernel_times", '{"bench": "table", "kernels": []}'), ("compare_losses", '{"losses_agree": true}')):
            self.put(f"tools/bench/{name}.py", SCRIPT.format(name=name, lines=[line]))
        status, text, report = self.finish(self.start("--seconds", "1000", "tables", "losses", "kernels"))
        self.assertEqual((status, text.splitlines()[-1]), (1, "0 passed, 2 failed, 0 skipped"))
        self.assertEqual([step["result"] for step in report["steps"]],
                         ["ok", "FAILED: ValueError: losses: KeyError: 'steps' in a row",
                          "FAILED: ValueError: table 64: KeyError: 'busy_us' in a row", "ok"])
        self.assertEqual([row["bench"] for row in report["rows"]], ["step", "kernels"])
        self.assertIn("A row that this report cannot show: KeyError: 'steps' in", (self.out / "report.md").read_text())

    def test_an_archive_with_a_command_that_has_no_switch_of_fusion(self):
        with tarfile.open(self.folder / "pack.tar.xz", "w:xz") as archive:
            archive.add(self.folder / "programs", ".")
        shutil.rmtree(self.folder / "programs")
        status, text, report = self.finish(self.start("--programs", self.folder / "pack.tar.xz", "ours-A", FAKE_STEP_HELP="--capture"))
        self.assertEqual(status, 0, text)
        self.assertIn("has no --conv-fusion", report["steps"][-1]["result"])
        self.assertEqual(len(report["rows"]), 2)

    def test_what_there_is_no_time_for_is_left_and_named(self):
        status, text, report = self.finish(self.start("--seconds", "12", "autotune-B", "smoke", "torch-A"))
        self.assertEqual(status, 0, text)
        self.assertEqual([step["step"] for step in report["steps"]], ["unpack", "smoke"])
        self.assertEqual(report["left"], ["torch-A", "autotune-B"])
        self.assertIn("--seconds 12 torch-A autotune-B`", (self.out / "report.md").read_text())

    def test_caches_that_are_too_large_stay_behind(self):
        self.put("caches/kernel.cubin", "machine code")
        with unittest.mock.patch.object(machine, "CACHE_LIMIT", 10):
            self.assertIn("stay behind", machine.pack_caches(self.folder / "caches", self.folder / "caches.tar.gz"))
        self.assertEqual(list(self.folder.glob("caches.tar.gz*")), [])

    def test_a_step_takes_the_time_that_others_left(self):
        ends, report = [], self.Quiet()
        plan = (schedule.Step("a", 10, ""), schedule.Step("beside", 0, "", beside=("b", "c")), schedule.Step("b", 20, ""),
                schedule.Step("c", 30, ""), schedule.Step("d", 5, ""))
        order = schedule.Schedule(plan, {**{name: lambda: ends.append(round(order.left())) for name in "abcd"},
                                         "beside": lambda: ends.append("begins") or (lambda: ends.append("ends"))}, report, 50)
        order.run()
        self.assertEqual(ends, [10, "begins", 30, 50, "ends", 50], "at most those before it, and the whole")

    class Quiet:
        def event(self, *_, **__): pass
        def broken_commands(self): return []

    def test_a_command_ends_at_its_limit_with_its_children(self):
        output = self.folder / "output"
        begin = time.monotonic()
        status, text = machine.run(["sh", "-c", "echo begun; sleep 61.25 & echo $!; sleep 60"], 0.3, os.environ, output)
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

    def test_a_kill_loses_no_row(self):
        """What a program has printed is in the report that is made from the log, also if it was still at work; and none outlives it."""
        draw = random.Random(time.time_ns())
        for kill in range(3):
            moment = draw.uniform(0.3, 2)
            process = self.start("--seconds", "100000", FAKE_LINGER="0.2" if kill else "20")
            if kill == 0:  # behind the row, and before its program ends
                self.wait_for(lambda: rehearse.read_rows(self.rows))
            else:
                time.sleep(moment)
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            if self.began():
                self.assertGone(int(self.began()[-1][0]))
            if not (self.out / "log.txt").exists():
                self.assertEqual(self.began(), [], f"killed after {moment:.3f} s")
                continue
            subprocess.run([sys.executable, "-B", self.folder / "tools/gpu_check.py", "--render", self.out], check=True)
            self.assertEqual(rehearse.missing_rows(rehearse.read_rows(self.rows), self.report()), [], f"killed after {moment:.3f} s")
            self.assertIsNone(rehearse.too_many(self.out))
            self.assertTrue((self.out / "report.md").read_text().startswith("# GPU check"))

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
