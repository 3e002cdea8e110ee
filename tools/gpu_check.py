#!/usr/bin/env python3
"""Everything that only a machine with a GPU can show: tests, sanitizer, benchmarks, PyTorch beside them. One report.

    gpu_check.py [--out FOLDER] [--programs FOLDER] [--seconds N] [PART...]

Parts, in this order if none is named:
    probe      driver, libraries, `lathe info`, how cuDNN describes the GPU
    tests      every test program, each source file in a process of its own, so that a fault in one leaves the others whole
    bench      `lathe bench step`, `conv` and `kernels`, in fp16
    times      the kernels of a step (needs the recorder that gpu_pack.sh builds)
    compare    compare_torch.py with PyTorch eager and as a CUDA graph; `compile` adds torch.compile's modes
    sanitizer  the kernel tests under compute-sanitizer's four tools
    train      an epoch of CIFAR-10, where $LATHE_DATA_ROOT holds it
`compile` is a part too, for it takes minutes: name it.

Without --programs the tree is built in build/gpu first; --programs names what tools/gpu_pack.sh packed, unpacked. No step begins
after --seconds. Whatever is known is written at once: log.txt grows line by line, report.md and report.json after each step, so
a run that is cut off has lost nothing. Ends with the line "N passed, N failed, N skipped".
"""
import argparse
import concurrent.futures
import glob
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
PARTS = ("probe", "tests", "bench", "times", "compare", "sanitizer", "train")
COUNTS = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped\s*$", re.MULTILINE)
# These read files of the tree in which they were built.
NEED_THE_TREE = ("cache_file_test.cpp", "shared_library_test.cpp", "op_table_test.cpp")
# Under a sanitizer a kernel takes a hundred times as long: these files launch each kind of kernel at least once.
SANITIZED = ("binary", "unary", "copy", "reduce", "batch_norm", "update", "softmax", "pool2d", "check_grads", "conv2d")


def library_folders(programs):
    """Folders with CUDA's libraries: PyTorch's wheels and the toolkit, then what was packed."""
    found = []
    for site in [p for p in sys.path if p.endswith("-packages")]:
        found += sorted(glob.glob(f"{site}/nvidia/*/lib"))
    for cuda in (os.environ.get("CUDA_PATH", "/usr/local/cuda"),):
        found += [f"{cuda}/lib64", f"{cuda}/extras/CUPTI/lib64"]
    return [p for p in found if os.path.isdir(p)] + ([str(programs / "lib")] if programs else [])


class Check:
    def __init__(self, options):
        self.out = options.out
        self.out.mkdir(parents=True, exist_ok=True)
        self.end = time.monotonic() + options.seconds
        self.log = open(self.out / "log.txt", "w", errors="replace")
        self.report = {"date": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()), "steps": [], "tests": {}, "rows": []}
        self.totals = [0, 0, 0]
        self.build, self.packed = ROOT / "build/gpu", options.programs is not None
        self.lathe = options.programs / "lathe" if options.programs else self.build / "bin/lathe"
        self.tests = sorted(options.programs.glob("tests/test_*")) if options.programs else []
        self.recorder = options.programs / "lib/librecord_kernels.so" if options.programs else None
        old = os.environ.get("LD_LIBRARY_PATH")
        self.env = {**os.environ, "PYTHONUNBUFFERED": "1",
                    "LD_LIBRARY_PATH": ":".join(library_folders(options.programs) + ([old] if old else []))}

    def step(self, name, *command, limit=120, **env):
        """Runs a command, notes it in the report, and returns (exit code, output). None, "" when the time is over."""
        left = self.end - time.monotonic()
        if left < 5:
            self.note(name, 0, None)
            return None, ""
        self.say(f"=== {name}: {' '.join(map(str, command))}")
        begin = time.monotonic()
        status, text = run(command, min(limit, left), {**self.env, **{k: str(v) for k, v in env.items()}})
        self.say(text)
        self.note(name, time.monotonic() - begin, status)
        return status, text

    def say(self, text):
        self.log.write(text.rstrip("\n") + "\n")
        self.log.flush()

    def note(self, name, seconds, status):
        result = "not begun: the time is over" if status is None else "ok" if status == 0 else f"FAILED, exit code {status}"
        self.report["steps"].append({"step": name, "seconds": round(seconds, 1), "result": result})
        print(f"{name}: {result}, {seconds:.1f} s", flush=True)
        if status:
            self.totals[1] += 1
        self.write()

    def rows(self, text):
        """Keeps the lines of `text` that are JSON objects."""
        found = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        self.report["rows"] += found
        self.write()
        return found

    def write(self):
        (self.out / "report.json").write_text(json.dumps(self.report, indent=1) + "\n")
        (self.out / "report.md").write_text("\n".join(markdown(self.report)) + "\n")

    # The parts.

    def probe(self):
        self.step("nvidia-smi", "nvidia-smi")
        self.report["info"] = self.step("info", self.lathe, "info", limit=60)[1]
        self.report["cudnn_device"] = self.step("cudnn-device", sys.executable, ROOT / "tools/bench/cudnn_device.py", limit=60)[1]
        self.step("first-step", self.lathe, "train", "--device", "cuda", "--dataset", "synthetic", "--synthetic-size", "256",
                  "--model", "resnet8", "--max-steps", "5", "--log-every", "1", "--run-dir", self.out / "first", limit=90)
        shutil.rmtree(self.out / "first", ignore_errors=True)

    def build_tree(self):
        """Builds with the toolkit of the machine, or else with one made of NVIDIA's wheels; cuDNN may be a wheel either way."""
        toolkit, prefix = [], ROOT / "build/cuda-toolkit"
        has_nvcc = os.environ.get("CUDACXX") or shutil.which("nvcc") or os.access(
            pathlib.Path(os.environ.get("CUDA_PATH", "/usr/local/cuda")) / "bin/nvcc", os.X_OK)
        if not has_nvcc and self.step("toolkit", sys.executable, ROOT / "tools/cuda_from_wheels.py", prefix)[0] == 0:
            toolkit = [f"-DCMAKE_CUDA_COMPILER={prefix}/bin/nvcc", f"-DCUDAToolkit_ROOT={prefix}"]
        elif has_nvcc and "CUDNN_ROOT" not in self.env:
            wheels = [p for site in sys.path for p in glob.glob(f"{site}/nvidia/cudnn")]
            self.env |= {"CUDNN_ROOT": wheels[0]} if wheels else {}
        if self.step("configure", "cmake", "-S", ROOT, "-B", self.build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                     "-DLATHE_CUDA=ON", *toolkit, limit=300)[0] != 0:
            return False
        built = self.step("build", "cmake", "--build", self.build, "--parallel", os.cpu_count(), limit=3600)[0] == 0
        self.tests = sorted(p for p in self.build.glob("tests/**/test_*") if p.is_file() and os.access(p, os.X_OK))
        return built

    def test(self):
        """One process for each source file, several at a time."""
        jobs = []
        for program in self.tests:
            status, text = run([program, "-r=xml", "-ltc"], 60, self.env)
            try:
                files = {case.get("filename") for case in ElementTree.fromstring(text).iter("TestCase")}
            except ElementTree.ParseError:
                self.say(f"{program}: its cases cannot be listed (exit code {status}): {text[-2000:]}")
                files = {"*"}
            jobs += [(program, name) for name in sorted(files)
                     if not (self.packed and pathlib.Path(name).name in NEED_THE_TREE)]
        begin = time.monotonic()
        env = {**self.env, "LATHE_TEST_THREADS": "4", "OMP_NUM_THREADS": "4"}

        def job(program, name):
            left = self.end - time.monotonic()
            return (None, "") if left < 5 else run([program, f"-sf={name}"], min(200, left), env)

        failed = 0
        with concurrent.futures.ThreadPoolExecutor(max(2, (os.cpu_count() or 4) // 2)) as pool:
            running = {pool.submit(job, *j): j for j in jobs}
            for done in concurrent.futures.as_completed(running):
                program, name = running[done]
                status, text = done.result()
                label = f"{program.name} {pathlib.Path(name).name}"
                counts = list(map(int, COUNTS.findall(text)[-1])) if COUNTS.search(text) else [0, 0, 0]
                if status and counts[1] == 0:
                    counts[1] = 1
                self.report["tests"][label] = {"exit_code": status, "counts": counts}
                self.totals = [a + b for a, b in zip(self.totals, counts)]
                if status != 0:
                    failed += 1
                    self.say(f"=== FAILED {label}, exit code {status}\n{text[-6000:]}")
                    print(f"FAILED {label}: {counts}", flush=True)
                self.write()
        self.report["steps"].append({"step": "tests", "seconds": round(time.monotonic() - begin, 1),
                                     "result": f"{failed} of {len(jobs)} files failed"})
        print(f"tests: {self.totals}, {failed} of {len(jobs)} files failed, {time.monotonic() - begin:.0f} s", flush=True)
        script = ROOT / "tests/cli/device_test.py"
        text = self.step("device-test", sys.executable, script, self.lathe, limit=200)[1]
        if COUNTS.search(text):
            self.totals = [a + int(b) for a, b in zip(self.totals, COUNTS.findall(text)[-1])]
        self.write()

    def bench(self):
        for batch, capture in [(batch, capture) for batch in (512, 128) for capture in ("--capture", "--no-capture")]:
            _, text = self.step(f"bench-step-{batch}{capture}", self.lathe, "bench", "step", "--device", "cuda", "--model", "resnet18",
                                "--batch-size", batch, "--amp", "fp16", capture, "--json", limit=90)
            self.rows(text)
        self.rows(self.step("bench-conv", self.lathe, "bench", "conv", "--device", "cuda", "--model", "resnet18", "--dtype", "f16",
                            "--batch-size", 512, "--json", limit=120)[1])
        self.rows(self.step("bench-kernels", self.lathe, "bench", "kernels", "--device", "cuda", "--json", limit=120)[1])

    def times(self):
        for batch in (512, 128):
            records = pathlib.Path("/tmp") / f"lathe-records-{batch}.txt"
            self.step(f"record-{batch}", self.lathe, "bench", "step", "--device", "cuda", "--model", "resnet18", "--batch-size", batch,
                      "--amp", "fp16", limit=90, CUDA_INJECTION64_PATH=self.recorder, RECORD_KERNELS=records)
            self.step(f"times-{batch}", sys.executable, ROOT / "tools/bench/kernel_times.py", records)

    def compare(self, variants="eager,graph", batches=(512, 128), limit=150):
        for batch in batches:
            _, text = self.step(f"compare-{variants}-{batch}", sys.executable, ROOT / "tools/bench/compare_torch.py", "--device", "cuda",
                                "--lathe", self.lathe, "--model", "resnet18", "--batch", batch, "--amp", "fp16", "--variants", variants,
                                "--rounds", 5, "--seconds", 1, "--json", limit=limit)
            self.rows(text)

    def sanitizer(self):
        tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
        program = next((p for p in self.tests if p.name == "test_cuda"), None)
        if not os.path.exists(tool) or program is None:
            self.say("compute-sanitizer or test_cuda is not here: the sanitizer's checks are skipped")
            return
        files = ",".join(f"*/tests/cuda/{name}_test.cpp" for name in SANITIZED)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for check in ("memcheck", "racecheck", "initcheck", "synccheck"):
                pool.submit(self.step, f"sanitizer-{check}", tool, "--tool", check, "--error-exitcode", 9, program, f"-sf={files}",
                            limit=200, LATHE_NO_CACHE=1)

    def train(self):
        if os.environ.get("LATHE_DATA_ROOT"):
            self.step("train", self.lathe, "train", "--device", "cuda", "--dataset", "cifar10", "--model", "resnet18", "--amp", "fp16",
                      "--epochs", 1, "--run-dir", self.out / "run", limit=300)


def run(command, limit, env):
    """(exit code, output); 124 when it was ended, with all its children, after `limit` seconds."""
    try:
        process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   errors="replace", env=env, start_new_session=True)
    except OSError as e:
        return 127, str(e)
    try:
        return_text = process.communicate(timeout=limit)[0]
        return process.returncode, return_text
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return 124, process.communicate()[0] + f"\nended after {limit:.0f} s"


def markdown(report):
    lines = [f"# GPU check, {report['date']}", "", "```", report.get("info", "").rstrip(), "```", "", "| step | seconds | result |",
             "|---|---|---|"]
    lines += [f"| {s['step']} | {s['seconds']:.0f} | {s['result']} |" for s in report["steps"]]
    failed = {name: t for name, t in report["tests"].items() if t["exit_code"] != 0}
    if report["tests"]:
        sums = [sum(t["counts"][i] for t in report["tests"].values()) for i in range(3)]
        lines += ["", f"Test programs: {sums[0]} passed, {sums[1]} failed, {sums[2]} skipped."]
        lines += [f"- {name}: exit code {t['exit_code']}, {t['counts'][1]} failed" for name, t in sorted(failed.items())]
    of = {kind: [row for row in report["rows"] if row.get("bench") == kind] for kind in ("step", "conv", "kernels")}
    if of["step"]:
        lines += ["", "| model | batch | amp | one graph | images/s | ms per step |", "|---|---|---|---|---|---|"]
        for row in of["step"]:
            lines.append(f"| {row['model']} | {row['batch_size']} | {row['amp']} | {row['capture']} | {row['images_per_second']:.0f} "
                         f"| {1e3 * row['batch_size'] / row['images_per_second']:.2f} |")
    if of["kernels"]:
        lines += ["", "| kernel | dtype | GB/s | of a copy |", "|---|---|---|---|"]
        for row in of["kernels"]:
            lines.append(f"| {row['kernel']} | {row['dtype']} | {row['bytes_per_second'] / 1e9:.0f} | {100 * row['of_copy']:.0f} % |")
    compared = [row for row in report["rows"] if "best_of_torch" in row]
    if compared:
        lines += ["", "| model | image | batch | amp | ours, images/s | best PyTorch | ratio | to eager |",
                  "|---|---|---|---|---|---|---|---|"]
        for row in compared:
            rates, best = row["images_per_second"], row["best_of_torch"]
            eager = "" if row["ratio_to_eager"] is None else f"{row['ratio_to_eager']:.2f}"
            lines.append(f"| {row['model']} | {row['image_size']} | {row['batch']} | {row['amp']} | {rates['ours']:.0f} "
                         f"| {best} {rates[best]:.0f} | {row['ratio']:.2f} | {eager} |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/gpu-check")
    parser.add_argument("--programs", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("parts", nargs="*", metavar="PART")
    options = parser.parse_args()
    if unknown := set(options.parts) - {*PARTS, "compile"}:
        parser.error(f"no such part: {' '.join(sorted(unknown))}")
    check = Check(options)
    if options.programs is None and not check.build_tree():
        sys.exit("0 passed, 1 failed, 0 skipped")
    parts = options.parts or PARTS
    actions = {"probe": check.probe, "tests": check.test, "bench": check.bench, "times": check.times, "compare": check.compare,
               "compile": lambda: check.compare("compile,max-autotune", limit=400), "sanitizer": check.sanitizer, "train": check.train}
    for part in parts:
        actions[part]()
    print("{} passed, {} failed, {} skipped".format(*check.totals))
    sys.exit(1 if check.totals[1] else 0)


if __name__ == "__main__":
    main()
