#!/usr/bin/env python3
"""Everything that only a machine with a GPU can show, in the order of what it teaches, for a machine that is there for minutes.

    tools/gpu_pack.sh build/release gpu-pack.tar.xz       (where Lathe is built)
    tools/gpu_check.py --programs gpu-pack.tar.xz         (on the machine with the GPU, in the same tree)

    gpu_check.py [--out FOLDER] [--programs ARCHIVE|FOLDER] [--seconds N] [--model NAME] [--batches A,B] [STEP...]

The second line is the whole of the first ten minutes: it makes the steps in this order, each within its budget of seconds.
{steps}
`train` wants CIFAR-10 in $LATHE_DATA_ROOT. A step that needs more time than is left is not begun, and a shorter one after it is. At
the end of report.md stands the command for what was left: the next ten minutes.

Without --programs the tree is built in build/gpu first, without warnings as errors. --programs takes what gpu_pack.sh packed: stripped
programs that need none of the machine's packages; cuDNN and cuBLAS come from its CUDA toolkit or from PyTorch's wheels.

The results are in --out (default: $OUT, or build/gpu-check): report.md and report.json, replaced after each step; running.txt, the
output of the step under way; rest.tar.gz, the output of all others. So a run that is ended at any moment has lost nothing that was
finished. No step runs beyond --seconds (570). Ends with the line "N passed, N failed, N skipped".
"""
import argparse
import concurrent.futures
import ctypes
import glob
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import xml.etree.ElementTree as ElementTree

from gpu_report import Report

ROOT = pathlib.Path(__file__).resolve().parent.parent
BENCH = ROOT / "tools/bench"
# Name: budget in seconds, the least time with which it is begun, what it does; A and B are the two of --batches.
STEPS = {
    "probe": (25, 5, "driver, libraries, how cuDNN describes the GPU (JSON for `lathe plan --gpu`)"),
    "smoke": (45, 10, "five steps of `lathe train`, a step of a graph"),
    "conv": (75, 20, "`lathe bench conv --dtype f16`: every convolution of a step against the roofline"),
    "step-A": (90, 45, "`lathe bench step --amp fp16` in turns with PyTorch, eager and as a CUDA graph"),
    "step-B": (75, 40, "the same with the smaller batch"),
    "tables": (45, 15, "the kernels of our steps by CUPTI (PyTorch's come with step-A and step-B)"),
    "kernels": (45, 15, "`lathe bench kernels`: bandwidths next to a copy's"),
    "tests": (100, 30, "every test program, each source file in a process of its own"),
    "losses": (50, 20, "50 steps against PyTorch's losses"),
    "sanitizer": (60, 25, "memcheck and racecheck on the kernels of a training step"),
    "ncu": (50, 20, "Nsight Compute on the hot kernels"),
    "autotune-A": (240, 170, "step-A against torch.compile's max-autotune, which takes three minutes to compile"),
    "autotune-B": (240, 170, "the same with the smaller batch"),
    "train": (300, 60, "an epoch of CIFAR-10"),
}
COUNTS = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped\s*$", re.MULTILINE)
# These read files of the tree in which they were built.
NEED_THE_TREE = ("cache_file_test.cpp", "shared_library_test.cpp", "op_table_test.cpp")
# Under a sanitizer a kernel takes a hundred times as long: these launch the kernels of a training step.
SANITIZED = ("batch_norm", "update", "check_grads", "copy", "binary", "softmax", "reduce")
HOT = "stats_kernel|train_kernel|sums_kernel|input_kernel|update_kernel"
NCU_METRICS = ("dram__throughput.avg.pct_of_peak_sustained_elapsed,sm__warps_active.avg.pct_of_peak_sustained_active,"
               "sm__inst_executed.avg.per_cycle_active,launch__registers_per_thread,gpu__time_duration.sum")
SKIPPED = "skipped"


def description():
    names = max(len(name) for name in STEPS)
    return __doc__.format(steps="\n".join(f"    {name:<{names}} {budget:>4} s  {what}" for name, (budget, _, what) in STEPS.items()))


def library_folders(programs):
    """Folders with CUDA's libraries: PyTorch's wheels and the toolkit, then what was packed."""
    found = []
    for site in [p for p in sys.path if p.endswith("-packages")]:
        found += sorted(glob.glob(f"{site}/nvidia/*/lib"))
    cuda = os.environ.get("CUDA_PATH", "/usr/local/cuda")
    found += [f"{cuda}/lib64", f"{cuda}/extras/CUPTI/lib64"]
    return [p for p in found if os.path.isdir(p)] + ([str(programs / "lib")] if programs else [])


def tool(name):
    """The path of one of NVIDIA's tools, or None."""
    places = [f"{os.environ.get('CUDA_PATH', '/usr/local/cuda')}/bin/{name}", *sorted(glob.glob(f"/opt/nvidia/*/*/{name}"))]
    return shutil.which(name) or next((p for p in places if os.access(p, os.X_OK)), None)


LIBC, SELF = ctypes.CDLL(None), os.getpid()


def die_with_parent():
    LIBC.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != SELF:  # it died before that
        os._exit(1)


def run(command, limit, env, output):
    """(exit code, output); 124 when it was ended, with all its children, after `limit` seconds. The output is also appended to the
    file `output`, as it comes."""
    with open(output, "ab") as file:
        begin = file.tell()
        try:
            process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                                       env=env, start_new_session=True, preexec_fn=die_with_parent)
        except OSError as error:
            file.write(f"{error}\n".encode())
            return 127, str(error)
        try:
            status = process.wait(timeout=max(limit, 0.1))
        except subprocess.TimeoutExpired:
            status = 124
        finally:
            try:  # what it left running, too
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        process.wait()
    with open(output, "rb") as file:
        file.seek(begin)
        return status, file.read().decode(errors="replace")


class Check:
    def __init__(self, options, command):
        self.options, self.command = options, command
        self.end = time.monotonic() + options.seconds
        self.packed = options.programs is not None
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="gpu-check-scratch-"))
        programs = options.programs
        if programs is not None and programs.is_file():
            programs = self.scratch / "programs"
            programs.mkdir()
            subprocess.run(["tar", "-xf", options.programs, "-C", programs], check=True)
        self.build = ROOT / "build/gpu"
        self.lathe = programs / "lathe" if programs else self.build / "bin/lathe"
        self.tests = sorted(programs.glob("tests/test_*")) if programs else []
        self.recorder = programs / "lib/librecord_kernels.so" if programs else None
        old = os.environ.get("LD_LIBRARY_PATH")
        self.env = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1",
                    "LATHE_ALGO_CACHE": str(self.scratch / "algos.json"),
                    "LD_LIBRARY_PATH": ":".join(library_folders(programs) + ([old] if old else []))}
        commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], text=True, capture_output=True).stdout.strip()
        if programs and (programs / "commit").exists():
            commit = (programs / "commit").read_text().strip()
        self.report = Report(options.out, {"commit": commit, "command": command})
        self.totals, self.entry, self.step_end = [0, 0, 0], None, self.end

    def step(self, name, action):
        """One step: `action()` within its budget. What it finds is in the report, whether it ends well or not. An exception ends the
        step and not the run: it is the step's result, and its traceback ends the step's output."""
        budget, least, _ = STEPS.get(name, (3600, 0, ""))
        left = self.end - time.monotonic()
        if left < min(least, budget):
            self.report.data["left"].append(name)
            self.report.write()
            print(f"{name}: not begun, needs {least} s of {left:.0f}", flush=True)
            return False
        begin = time.monotonic()
        self.step_end = begin + min(budget, left)
        self.entry = self.report.begin(name, min(budget, left))
        try:
            result = action() or "ok"
        except Exception as error:  # output that nobody foresaw, say: the other steps still teach something
            self.say(traceback.format_exc())
            result = f"FAILED: {traceback.format_exception_only(error)[-1].strip()}"
        broken = [c for c in self.entry["commands"] if c["exit_code"] != 0]
        if broken and result == "ok":
            result = "FAILED: " + ", ".join(f"{c['name']} {'out of time' if c['exit_code'] == 124 else c['exit_code']}" for c in broken)
        if result.startswith("FAILED"):
            self.totals[1] += 1
        elif result.startswith(SKIPPED):
            self.totals[2] += 1
        self.report.end(self.entry, time.monotonic() - begin, result)
        print(f"{name}: {result}, {time.monotonic() - begin:.1f} s", flush=True)
        return not result.startswith("FAILED")

    def call(self, name, *command, limit=3600, may_fail=False, **env):
        """Runs a command of the step under way and notes it. Returns its output."""
        begin = time.monotonic()
        with open(self.report.running, "a") as file:
            file.write(f"=== {name}: {' '.join(map(str, command))}\n")
        env = {**self.env, **{key: str(value) for key, value in env.items()}}
        status, text = run(command, min(limit, self.step_end - begin), env, self.report.running)
        self.entry["commands"].append({"name": name, "seconds": round(time.monotonic() - begin, 1), "exit_code": 0 if may_fail else status})
        return text

    def rows(self, text, **more):
        """Keeps the lines of `text` that are JSON objects, each with `more`."""
        found = []
        for line in text.splitlines():
            if line.startswith("{") and line.endswith("}"):
                try:
                    found.append(json.loads(line) | more)
                except ValueError:
                    pass
        self.report.add(found)

    def bench(self, *arguments, **options):
        name = " ".join(str(word) for word in arguments if not str(word).startswith("--"))
        self.rows(self.call(f"bench {name}", self.lathe, "bench", *arguments, "--device", "cuda", "--json", **options))

    # The steps.

    def probe(self):
        smi = self.call("nvidia-smi", "nvidia-smi", "--query-gpu=name,driver_version,memory.total,clocks.max.sm,power.limit",
                        "--format=csv,noheader", limit=10, may_fail=True)
        info = self.call("info", self.lathe, "info", limit=15)
        self.report.data["texts"]["lathe info"] = info
        gpu = re.search(r"cuda:0.*", info)
        self.report.data["gpu"] = smi.strip().splitlines()[0] if "," in smi else gpu.group(0) if gpu else None
        # Kept as it is: `lathe plan --gpu FILE` and the tests of plans read it.
        device = self.call("cudnn-device", sys.executable, BENCH / "cudnn_device.py", limit=15)
        self.report.data["texts"]["cuDNN's description of the GPU"] = device

    def smoke(self):
        self.call("train", self.lathe, "train", "--device", "cuda", "--dataset", "synthetic", "--synthetic-size", 256, "--model", "resnet8",
                  "--max-steps", 5, "--log-every", 1, "--amp", "fp16", "--eval-every", 0, "--run-dir", self.scratch / "smoke", limit=40)
        self.bench("step", "--model", "resnet8", "--batch-size", 64, "--amp", "fp16", "--seconds", 0.5, limit=30)

    def conv(self):
        self.bench("conv", "--model", self.options.model, "--dtype", "f16", "--batch-size", self.options.batches[0])

    def compare(self, batch, variants):
        if "graph" in variants:
            for capture in ("--capture", "--no-capture"):
                self.bench("step", "--model", self.options.model, "--batch-size", batch, "--amp", "fp16", capture, "--seconds", 2, limit=30)
        self.rows(self.call(f"compare {variants}", sys.executable, BENCH / "compare_torch.py", "--device", "cuda", "--lathe", self.lathe,
                            "--model", self.options.model, "--batch", batch, "--amp", "fp16", "--variants", variants, "--rounds", 5,
                            "--seconds", 1, "--json"))

    def tables(self):
        """Ours; PyTorch's are in what `step-A` and `step-B` found."""
        if not self.recorder or not self.recorder.exists():
            return f"{SKIPPED}: no recorder, which wants CUPTI"
        for batch in self.options.batches:
            records = self.report.rest / f"kernels-{batch}.txt"
            self.call(f"record {batch}", self.lathe, "bench", "step", "--device", "cuda", "--model", self.options.model, "--batch-size",
                      batch, "--amp", "fp16", "--no-capture", "--seconds", 1, CUDA_INJECTION64_PATH=self.recorder, RECORD_KERNELS=records)
            self.rows(self.call(f"table {batch}", sys.executable, BENCH / "kernel_times.py", records, "--json"), kernels_of="Lathe",
                      batch=batch)
        return None

    def kernels(self):
        self.bench("kernels")

    def test(self):
        """One process for each source file, several at a time."""
        listed, jobs = self.report.running.with_suffix(".list"), []
        for program in self.tests:
            status, text = run([program, "-r=xml", "-ltc"], 20, self.env, listed)
            try:
                files = {case.get("filename") for case in ElementTree.fromstring(text).iter("TestCase")}
            except ElementTree.ParseError:
                self.say(f"{program}: its cases cannot be listed (exit code {status}): {text[-2000:]}")
                files = {"*"}
            jobs += [(program, name) for name in sorted(files)
                     if not (self.packed and pathlib.Path(name).name in NEED_THE_TREE)]
        listed.unlink(missing_ok=True)
        jobs.sort(key=lambda job: job[0].name not in ("test_cuda", "test_cudnn", "test_cublas"))  # a GPU's first
        env = {**self.env, "LATHE_TEST_THREADS": "4", "OMP_NUM_THREADS": "4"}

        def one(number, program, name):
            left = self.step_end - time.monotonic()
            if left < 2:
                return None, ""
            return run([program, f"-sf={name}"], left, env, self.report.rest / f"test-{number}.txt")

        failed, left = 0, 0
        with concurrent.futures.ThreadPoolExecutor(max(2, (os.cpu_count() or 4) // 2)) as pool:
            running = {pool.submit(one, number, *job): (number, *job) for number, job in enumerate(jobs)}
            for done in concurrent.futures.as_completed(running):
                number, program, name = running[done]
                status, text = done.result()
                if status is None:
                    left += 1
                    continue
                counts = list(map(int, COUNTS.findall(text)[-1])) if COUNTS.search(text) else [0, 0, 0]
                if status and counts[1] == 0:
                    counts[1] = 1
                label = f"{program.name} {pathlib.Path(name).name}"
                self.report.data["tests"][label] = {"exit_code": status, "counts": counts}
                self.totals = [a + b for a, b in zip(self.totals, counts)]
                if status != 0:
                    failed += 1
                    self.say(f"=== FAILED {label}, exit code {status}\n{text[-6000:]}")
                    print(f"FAILED {label}: {counts}", flush=True)
                (self.report.rest / f"test-{number}.txt").unlink(missing_ok=True)
                self.report.write()
        text = self.call("device_test", sys.executable, ROOT / "tests/cli/device_test.py", self.lathe)
        if COUNTS.search(text):
            self.totals = [a + int(b) for a, b in zip(self.totals, COUNTS.findall(text)[-1])]
        unfinished = f", {left} not begun" if left else ""
        return f"{'FAILED: ' if failed else ''}{failed} of {len(jobs)} files failed{unfinished}" if jobs else f"{SKIPPED}: no test programs"

    def say(self, text):
        with open(self.report.running, "a", errors="replace") as file:
            file.write(text.rstrip("\n") + "\n")

    def losses(self):
        self.rows(self.call("losses", sys.executable, BENCH / "compare_losses.py", "--device", "cuda", "--lathe", self.lathe, "--model",
                            self.options.model, "--batch", self.options.batches[1], "--amp", "fp16", "--json"))

    def sanitizer(self):
        program, sanitizer = next((p for p in self.tests if p.name == "test_cuda"), None), tool("compute-sanitizer")
        if not sanitizer or not program:
            return f"{SKIPPED}: {'no test_cuda' if sanitizer else 'compute-sanitizer is not here'}"
        files = ",".join(f"*/tests/cuda/{name}_test.cpp" for name in SANITIZED)
        for check in ("memcheck", "racecheck"):
            text = self.call(check, sanitizer, "--tool", check, "--error-exitcode", 9, program, f"-sf={files}",
                             limit=STEPS["sanitizer"][0] / 2, LATHE_NO_CACHE=1)
            said = [line for line in text.splitlines() if "SUMMARY" in line or COUNTS.match(line)]
            self.report.data["texts"][check] = "\n".join(said)
        return None

    def ncu(self):
        profiler = tool("ncu")
        if not profiler:
            return f"{SKIPPED}: ncu is not here"
        text = self.call("ncu", profiler, "--clock-control", "none", "--metrics", NCU_METRICS, "--kernel-name", f"regex:{HOT}",
                         "--launch-skip", 120, "--launch-count", 30, "--csv", self.lathe, "bench", "step", "--device", "cuda", "--model",
                         self.options.model, "--batch-size", self.options.batches[0], "--amp", "fp16", "--no-capture", "--seconds", 0.2)
        self.report.data["texts"]["ncu"] = "\n".join(line for line in text.splitlines() if line.startswith('"'))[-4000:]
        return None

    def train(self):
        if not os.environ.get("LATHE_DATA_ROOT"):
            return f"{SKIPPED}: $LATHE_DATA_ROOT names no data"
        text = self.call("train", self.lathe, "train", "--device", "cuda", "--dataset", "cifar10", "--model", self.options.model,
                         "--amp", "fp16", "--epochs", 1, "--run-dir", self.scratch / "run")
        self.report.data["texts"]["lathe train"] = text[-2000:]
        return None

    def build_tree(self):
        """Builds with the toolkit of the machine, or else with one made of NVIDIA's wheels; cuDNN may be a wheel either way."""
        toolkit, prefix = [], ROOT / "build/cuda-toolkit"
        has_nvcc = os.environ.get("CUDACXX") or tool("nvcc")
        if not has_nvcc:
            self.call("toolkit", sys.executable, ROOT / "tools/cuda_from_wheels.py", prefix)
            toolkit = [f"-DCMAKE_CUDA_COMPILER={prefix}/bin/nvcc", f"-DCUDAToolkit_ROOT={prefix}"]
        elif "CUDNN_ROOT" not in self.env:
            wheels = [p for site in sys.path for p in glob.glob(f"{site}/nvidia/cudnn")]
            self.env |= {"CUDNN_ROOT": wheels[0]} if wheels else {}
        self.call("configure", "cmake", "-S", ROOT, "-B", self.build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DLATHE_CUDA=ON",
                  "-DLATHE_WERROR=OFF", *toolkit)
        self.call("build", "cmake", "--build", self.build, "--parallel", os.cpu_count())
        self.recorder, cuda = self.build / "librecord_kernels.so", os.environ.get("CUDA_PATH", "/usr/local/cuda")
        self.call("recorder", "g++", "-std=c++20", "-O2", "-shared", "-fPIC", f"-I{cuda}/include", f"-I{cuda}/extras/CUPTI/include",
                  BENCH / "record_kernels.cpp", "-o", self.recorder, *(f"-L{p}" for p in library_folders(None)), "-lcupti", may_fail=True)
        self.tests = sorted(p for p in self.build.glob("tests/**/test_*") if p.is_file() and os.access(p, os.X_OK))

    def make(self, names):
        a, b = self.options.batches
        actions = {"probe": self.probe, "smoke": self.smoke, "conv": self.conv, "step-A": lambda: self.compare(a, "eager,graph"),
                   "step-B": lambda: self.compare(b, "eager,graph"), "tables": self.tables, "kernels": self.kernels, "tests": self.test,
                   "losses": self.losses, "sanitizer": self.sanitizer, "ncu": self.ncu,
                   "autotune-A": lambda: self.compare(a, "max-autotune"), "autotune-B": lambda: self.compare(b, "max-autotune"),
                   "train": self.train}
        if self.packed or self.step("build", self.build_tree):
            for name in names:
                self.step(name, actions[name])
        print("{} passed, {} failed, {} skipped".format(*self.totals), flush=True)
        self.clean()
        return 1 if self.totals[1] else 0

    def stop(self):
        """Ends at once. The programs under way end with this process."""
        if self.entry and self.entry["seconds"] is None:
            self.entry["result"] = "ended by a signal"
            self.report.write()
        self.clean()
        os._exit(143)

    def clean(self):
        self.report.running.unlink(missing_ok=True)
        self.report.close()
        shutil.rmtree(self.scratch, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=description(), formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=os.environ.get("OUT") or ROOT / "build/gpu-check")
    parser.add_argument("--programs", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=570)
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--batches", default="512,128")
    parser.add_argument("steps", nargs="*", metavar="STEP")
    options = parser.parse_args()
    if unknown := set(options.steps) - set(STEPS):
        parser.error(f"no such step: {' '.join(sorted(unknown))}")
    if not re.fullmatch(r"\d+,\d+", options.batches):
        parser.error(f"--batches: expected two numbers, such as 512,128, got {options.batches}")
    if options.programs and not options.programs.exists():
        parser.error(f"--programs: there is no {options.programs}")
    options.out, options.batches = pathlib.Path(options.out), [int(n) for n in options.batches.split(",")]
    words = sys.argv[1:len(sys.argv) - len(options.steps)]
    check = Check(options, " ".join(["tools/gpu_check.py", *words]))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: check.stop())
    sys.exit(check.make(options.steps or STEPS))


if __name__ == "__main__":
    main()
