"""The steps of gpu_check.py: their order, their budgets (PLAN), and what each does (Steps)."""
import json
import os
import pathlib
import re
import shutil
import sys
import time

from gpu import log, machine
from gpu.report import BESIDE, replace, unreadable
from gpu.schedule import FAILED, SKIPPED, Step
from gpu.test_programs import TestPrograms

ROOT = pathlib.Path(__file__).resolve().parents[2]
BENCH = ROOT / "tools/bench"
# A and B are the two of --batches.
PLAN = (
    Step("unpack", 10, "the archive of --programs", "nothing"),
    Step("probe", 10, "driver, libraries, how cuDNN describes the GPU (JSON for `lathe plan --gpu`)", "texts"),
    Step("smoke", 15, "five steps of `lathe train`, a step of resnet8 as a graph", least=5),
    Step("ours-A", 25, "a step in fp16: one graph, the same without fusion, kernel by kernel", "rows, algos.json", 5),
    Step("ours-B", 20, "the same with the smaller batch", "rows, algos.json", 5),
    Step("torch-A", 32, "in turns with PyTorch, eager and as a graph captured by hand", "a row each round", 15),
    Step("torch-B", 28, "the same with the smaller batch", "a row each round", 15),
    Step("compile", 0, "max-autotune compiles", "beside.txt, caches.tar.gz", beside=("tests", "losses", "memcheck", "autotune")),
    Step("tests", 100, "every source file of the test programs, the fused ones first", "a result each file", 10),
    Step("losses", 40, "50 steps against PyTorch's losses, with fusion (fails if nothing was fused) and without", least=15),
    Step("memcheck", 40, "compute-sanitizer's memcheck of one captured step of resnet8", "its summary", 10),
    Step("autotune", 35, "batch A in turns with max-autotune", "a row each round", 8),
    Step("conv", 45, "every convolution of batch A, with 4 settings of each engine and with all", least=10),
    Step("tables", 20, "our kernels by CUPTI (PyTorch's come with torch-A and torch-B)", least=8),
    Step("batch-norm", 13, "batch norm with 256 and 512 threads in a block, three shapes", least=4),
    Step("ncu", 12, "Nsight Compute on the hot kernels", "its table", 6),
    Step("train", 18, "an epoch of CIFAR-10, or of what data is there", "its last lines", 8),
    Step("recipe", 17, "a training by `--recipe cifar10-94-fast`, on the same data", "its last lines", 8),
    Step("unmeasured", 45, "the step as a graph with each part of LATHE_UNMEASURED, with all and with none, both batches", least=8, extra=True),
    Step("kernels", 45, "`lathe bench kernels`: bandwidths next to a copy's", least=15, extra=True),
    Step("sanitizer", 60, "memcheck and racecheck of single kernels", "their summaries", 25, extra=True),
    Step("autotune-B", 240, "the smaller batch in turns with max-autotune", "a row each round", 170, extra=True),
)
# Under a sanitizer a kernel takes a hundred times as long: these launch the kernels of a training step.
SANITIZED = ("batch_norm", "update", "check_grads", "copy", "binary", "softmax", "reduce")
HOT = "stats_kernel|train_kernel|sums_kernel|input_kernel|update_kernel"
NCU_METRICS = ("dram__throughput.avg.pct_of_peak_sustained_elapsed,sm__warps_active.avg.pct_of_peak_sustained_active,"
               "sm__inst_executed.avg.per_cycle_active,launch__registers_per_thread,gpu__time_duration.sum")
NORM_THREADS = (256, 512)
UNMEASURED = ("relu-bits", "dependent-launch", "residual-grad")  # core/unmeasured.h
DATA_SETS = {"cifar10": ("cifar-10-batches-bin", "cifar10", "cifar-10"), "cifar100": ("cifar-100-binary", "cifar100", "cifar-100"),
             "fashion-mnist": ("fashion-mnist", "FashionMNIST"), "mnist": ("mnist", "MNIST")}


class Steps:
    """The actions, as Schedule wants them. `schedule` is set before the first."""

    def __init__(self, options, report, scratch):
        self.options, self.report, self.scratch, self.schedule = options, report, scratch, None
        self.packed, self.tests, self.test_totals = options.programs is not None, [], [0, 0, 0]
        self.algos, self.go = scratch / "algos.json", scratch / "go"
        # Of one name in all runs: it is part of what PyTorch knows a compiled kernel by.
        self.caches = scratch.parent / "gpu-check-caches"
        self.help, self.compiling = {}, None
        if not self.packed:
            self.use(None, ROOT / "build/gpu/bin/lathe", None)
        elif options.programs.is_dir():
            self.use(options.programs)

    def use(self, programs, lathe=None, recorder=None):
        self.programs, self.lathe = programs, lathe or programs / "lathe"
        self.recorder = recorder or (programs / "lib/librecord_kernels.so" if programs else None)
        self.tests = sorted(programs.glob("tests/test_*")) if programs else []
        old = os.environ.get("LD_LIBRARY_PATH")
        self.env = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1", "LATHE_ALGO_CACHE": str(self.algos),
                    "TORCHINDUCTOR_CACHE_DIR": str(self.caches / "inductor"), "TRITON_CACHE_DIR": str(self.caches / "triton"),
                    "LD_LIBRARY_PATH": ":".join(machine.library_folders(programs) + ([old] if old else []))}

    def actions(self):
        a, b = self.options.batches
        return {"unpack": self.unpack, "probe": self.probe, "smoke": self.smoke, "ours-A": lambda: self.ours(a),
                "ours-B": lambda: self.ours(b), "torch-A": lambda: self.torch(a), "torch-B": lambda: self.torch(b),
                "compile": self.compile, "tests": self.test, "losses": self.losses, "memcheck": self.memcheck,
                "autotune": self.autotune, "conv": self.conv, "tables": self.tables, "batch-norm": self.batch_norm, "ncu": self.ncu,
                "train": self.train, "recipe": self.recipe, "unmeasured": self.unmeasured, "kernels": lambda: self.bench("kernels"), "sanitizer": self.sanitizer,
                "autotune-B": lambda: self.autotune_alone(b)}

    def call(self, name, *words, limit=3600, may_fail=False, row=None, **env):
        """Runs a command of the step under way. Each row that it prints gets the keys of `row`. Returns its output."""
        self.report.event("command", name=name, words=" ".join(map(str, words)), row=row or {})
        begin, at = time.monotonic(), self.report.log.size()
        command = machine.Command(words, {**self.env, **{k: str(v) for k, v in env.items()}}, self.report.log.path)
        status = command.wait(min(limit, self.schedule.left()), self.tick)
        text = self.report.log.since(at)
        self.report.event("ended", name=name, seconds=round(time.monotonic() - begin, 1), exit_code=0 if may_fail else status)
        self.tick()
        for line in text.splitlines():
            found = log.row_of(line)
            if found and (error := unreadable(found | (row or {}))):
                raise ValueError(f"{name}: {error} in a row")
        return text

    def tick(self):
        """Brings out what changed: the report, and the choices of convolutions, which the next run and the product can use."""
        self.report.refresh()
        kept = self.report.folder / "algos.json"
        if self.algos.exists() and (not kept.exists() or kept.stat().st_mtime < self.algos.stat().st_mtime):
            replace(kept, self.algos.read_text())

    def lathe_bench(self, name, *words, **options):
        self.call(f"bench {name}", self.lathe, "bench", *words, "--device", "cuda", "--json", **options)

    def bench(self, *words, **options):
        self.lathe_bench(" ".join(str(w) for w in words if not str(w).startswith("--")), *words, **options)

    def knows(self, command, flag):
        """Whether this version of the command has a flag."""
        if command not in self.help:
            self.help[command] = machine.run([self.lathe, *command.split(), "--help"], 10, self.env, self.scratch / "help.txt")[1]
        return flag in self.help[command]

    def step_words(self, batch, flag="--batch-size"):
        return ["--model", self.options.model, flag, batch, "--amp", "fp16"]

    def unpack(self):
        if not self.packed:
            return f"{SKIPPED}: built here"
        if self.options.programs.is_file():
            self.use(machine.unpack(self.options.programs, self.scratch / "programs"))
        if self.options.caches:
            shutil.rmtree(self.caches, ignore_errors=True)
            machine.unpack(self.options.caches, self.caches)
        return None

    def probe(self):
        smi = self.call("nvidia-smi", "nvidia-smi", "--query-gpu=name,driver_version,memory.total,clocks.max.sm,power.limit",
                        "--format=csv,noheader", limit=5, may_fail=True)
        info = self.call("info", self.lathe, "info", limit=8)
        gpu = re.search(r"cuda:0.*", info)
        self.report.event("run", gpu=smi.strip().splitlines()[0] if "," in smi else gpu.group(0) if gpu else None)
        self.report.event("text", name="lathe info", text=info)
        # Kept as it is: `lathe plan --gpu FILE` and the tests of plans read it.
        device = self.call("cudnn-device", sys.executable, BENCH / "cudnn_device.py", limit=8)
        self.report.event("text", name="cuDNN's description of the GPU", text=device)

    def small_step(self, seconds):
        """A captured step that memcheck can repeat with the convolutions that were chosen before."""
        return ["step", "--model", "resnet8", "--batch-size", self.options.small_batch, "--amp", "fp16", "--capture", "--seconds", seconds]

    def smoke(self):
        self.call("train", self.lathe, "train", "--device", "cuda", "--dataset", "synthetic", "--synthetic-size",
                  4 * self.options.small_batch, "--batch-size", self.options.small_batch, "--model", "resnet8", "--max-steps", 5,
                  "--log-every", 1, "--amp", "fp16", "--eval-every", 0, "--run-dir", self.scratch / "smoke")
        self.bench(*self.small_step(0.5))

    def ours(self, batch):
        """The three ways of one step, the most telling first."""
        words = [*self.step_words(batch), "--seconds", self.options.window]
        fusion = self.knows("bench step", "conv-fusion")
        self.lathe_bench(f"step {batch}, graph", "step", *words, "--capture")
        if fusion:
            self.lathe_bench(f"step {batch}, graph without fusion", "step", *words, "--capture", "--no-conv-fusion")
        self.lathe_bench(f"step {batch}, eager", "step", *words, "--no-capture")
        return None if fusion else "ok, but this `lathe bench step` has no --conv-fusion: the step without fusion is missing"

    def unmeasured(self):
        """The runs differ in the parts alone. What all gain together comes first."""
        for batch in self.options.batches:
            for parts in ("none", ",".join(UNMEASURED), *UNMEASURED):
                self.lathe_bench(f"step {batch}, {parts}", "step", *self.step_words(batch), "--capture", "--seconds", self.options.window / 2,
                                 row={"unmeasured": parts}, LATHE_UNMEASURED="" if parts == "none" else parts)

    def compare_words(self, variants, batch):
        return [sys.executable, BENCH / "compare_torch.py", "--device", "cuda", "--lathe", self.lathe, "--python", self.options.python,
                *self.step_words(batch, "--batch"), "--variants", variants, "--rounds", 3, "--seconds", self.options.window / 2, "--json"]

    def compare(self, variants, batch):
        self.call(f"compare {variants} {batch}", *self.compare_words(variants, batch))

    def torch(self, batch):
        self.compare("eager,graph", batch)

    def compile(self):
        """Begins beside the tests; `autotune` lets it go on to its rounds."""
        self.go.unlink(missing_ok=True)
        self.compiling = machine.Command([*self.compare_words("max-autotune", self.options.batches[0]), "--wait-for", self.go], self.env,
                                         self.report.folder / BESIDE)
        return self.compiling.stop

    def keep_caches(self):
        if any(self.caches.rglob("*")):
            self.report.say(machine.pack_caches(self.caches, self.report.folder / "caches.tar.gz"))

    def autotune(self):
        if self.compiling is None:  # named alone
            self.compile()
        said = self.report.folder / BESIDE
        while self.compiling.running() and '"ready"' not in said.read_text(errors="replace") and self.schedule.left() > 3:
            time.sleep(machine.TICK)
            self.tick()
        self.keep_caches()
        if self.compiling.running() and self.schedule.left() <= 3:
            return f"{FAILED}: max-autotune still compiles"
        self.go.touch()
        status = self.compiling.wait(self.schedule.left(), self.tick)
        return None if status == 0 else f"{FAILED}: {'out of time' if status == 124 else status}, see {BESIDE}"

    def autotune_alone(self, batch):
        self.compare("max-autotune", batch)
        self.keep_caches()

    def test(self):
        programs = TestPrograms(self.tests, self.packed, self.env, self.scratch, self.report)
        files, failed, left = programs.run(self.schedule.step_end)
        script = ROOT / "tests/cli/device_test.py"
        if script.exists() and self.schedule.left() > 2:
            status, text = machine.run([sys.executable, script, self.lathe], self.schedule.left(), self.env, self.scratch / "device.txt")
            programs.note("device_test.py", status, text)
            files, failed = files + 1, failed + (status != 0)
        self.test_totals = programs.totals
        unfinished = f", {left} not begun" if left else ""
        return f"{f'{FAILED}: ' if failed else ''}{failed} of {files} files failed{unfinished}" if files else f"{SKIPPED}: no tests"

    def losses(self):
        fusion = "on,off" if self.knows("bench step", "conv-fusion") else "on"
        self.call("losses", sys.executable, BENCH / "compare_losses.py", "--device", "cuda", "--lathe", self.lathe, "--python",
                  self.options.python, *self.step_words(self.options.batches[1], "--batch"), "--fusion", fusion, "--json")

    def memcheck(self):
        sanitizer = machine.tool("compute-sanitizer")
        if not sanitizer:
            return f"{SKIPPED}: compute-sanitizer is not here"
        text = self.call("memcheck", sanitizer, "--tool", "memcheck", "--error-exitcode", 9, self.lathe, "bench", *self.small_step(0.01),
                         "--device", "cuda")
        self.report.event("text", name="memcheck", text="\n".join(line for line in text.splitlines() if "SUMMARY" in line))
        return None

    def conv(self):
        words = ["conv", "--model", self.options.model, "--dtype", "f16", "--batch-size", self.options.batches[0]]
        if not self.knows("bench conv", "--search-per-engine"):
            self.bench(*words)
            return "ok, but this `lathe bench conv` has no --search-per-engine: only its default limit"
        for limit in (4, 0):  # 0: none
            self.lathe_bench(f"conv, search limit {limit}", *words, "--search-per-engine", limit, row={"search_limit": limit},
                             LATHE_ALGO_CACHE=self.scratch / f"algos-{limit}.json")
        return None

    def tables(self):
        if not self.recorder or not self.recorder.exists():
            return f"{SKIPPED}: no recorder, which wants CUPTI"
        for batch in self.options.batches:
            records = self.scratch / f"kernels-{batch}.txt"
            self.call(f"record {batch}", self.lathe, "bench", "step", "--device", "cuda", *self.step_words(batch), "--no-capture",
                      "--seconds", self.options.window / 2, CUDA_INJECTION64_PATH=self.recorder, RECORD_KERNELS=records)
            self.call(f"table {batch}", sys.executable, BENCH / "kernel_times.py", records, "--json",
                      row={"kernels_of": "Lathe", "batch": batch})
        return None

    def batch_norm(self):
        programs = {threads: self.programs / f"batch_norm_{threads}" for threads in NORM_THREADS} if self.programs else {}
        if not programs or not all(path.exists() for path in programs.values()):
            return f"{SKIPPED}: the pack has no batch_norm_256 and batch_norm_512"
        for threads, path in programs.items():
            self.call(f"batch norm {threads}", path, self.options.batches[0], row={"threads": threads})
        return None

    def ncu(self):
        profiler = machine.tool("ncu")
        if not profiler:
            return f"{SKIPPED}: ncu is not here"
        text = self.call("ncu", profiler, "--clock-control", "none", "--metrics", NCU_METRICS, "--kernel-name", f"regex:{HOT}",
                         "--launch-skip", 120, "--launch-count", 30, "--csv", self.lathe, "bench", "step", "--device", "cuda",
                         *self.step_words(self.options.batches[0]), "--no-capture", "--seconds", 0.2)
        self.report.event("text", name="ncu", text="\n".join(line for line in text.splitlines() if line.startswith('"'))[-4000:])
        return None

    def data(self):
        """Words for `lathe train`: the best data set that $LATHE_DATA_ROOT has, or made-up images."""
        root = os.environ.get("LATHE_DATA_ROOT")
        for name, folders in DATA_SETS.items():
            if root and any((pathlib.Path(root) / folder).is_dir() for folder in folders):
                return ["--dataset", name]
        packed = sorted(pathlib.Path(root).glob("*.pack")) if root else []
        return ["--dataset", "packed", "--data-root", packed[0]] if packed else ["--dataset", "synthetic", "--synthetic-size", 50000]

    def train(self):
        text = self.call("train", self.lathe, "train", "--device", "cuda", *self.data(), "--model", self.options.model, "--amp", "fp16",
                         "--epochs", 1, "--run-dir", self.scratch / "run")
        self.report.event("text", name="lathe train", text=text[-2000:])

    def recipe(self):
        """The seconds to the end and the accuracy count only with CIFAR-10."""
        recipe = "cifar10-94-fast"
        text = self.call("recipe", self.lathe, "train", "--recipe", recipe, "--device", "cuda", *self.data(), "--run-dir",
                         self.scratch / "recipe")
        self.report.event("text", name=f"lathe train --recipe {recipe}", text=text[-2000:])

    def sanitizer(self):
        program, sanitizer = next((p for p in self.tests if p.name == "test_cuda"), None), machine.tool("compute-sanitizer")
        if not sanitizer or not program:
            return f"{SKIPPED}: {'no test_cuda' if sanitizer else 'compute-sanitizer is not here'}"
        files = ",".join(f"*/tests/cuda/{name}_test.cpp" for name in SANITIZED)
        for check in ("memcheck", "racecheck"):
            text = self.call(check, sanitizer, "--tool", check, "--error-exitcode", 9, program, f"-sf={files}",
                             limit=self.schedule.left() / 2, LATHE_NO_CACHE=1)
            self.report.event("text", name=f"{check} of kernels", text="\n".join(line for line in text.splitlines() if "SUMMARY" in line))
        return None
