#!/usr/bin/env python3
"""Rehearses a run of gpu_check.py without a GPU, and kills it: every row that a program had printed must be in the report.

    tools/gpu_pack.sh build/emulate pack.tar.xz test_optim       (a build with LATHE_CUDA=EMULATE; one small test program)
    tools/gpu/rehearse.py pack.tar.xz --kills 40 probe ours-A torch-A compile tests autotune conv
    tools/gpu/rehearse.py pack.tar.xz [--kills N] [--seed N] [STEP...]

Unpacks the pack into an empty folder and runs it there, with a tiny network. In the place of `lathe` stands a witness, which runs the
real one and writes down each row after it has passed it on. In the place of PyTorch stands a program that answers with numbers. Of each
test program three files run, and the command's own script not at all. One whole run shows how long it takes; then each run is killed
at a random moment, with its process group, and its report is made again from its log. Fails if a row is missing, if too many files
come back, or if a program outlives its run.
"""
import argparse
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

WITNESS = '''#!{python}
import ctypes, json, os, subprocess, sys
ctypes.CDLL(None).prctl(1, 9)
words, tiny = sys.argv[1:], {{"--image-size": "4", "--synthetic-size": "24", "--seconds": "0.01"}}
for at, word in enumerate(words[:-1]):
    words[at + 1] = tiny.get(word, words[at + 1])
if words[:2] == ["bench", "step"] and "--help" not in words:
    words = [word for word in words if "capture" not in word] + ["--no-capture"]
if "--recipe" in words:  # its network is wide, and refuses images of 4 x 4; two steps are too few to lower the loss scale
    words += ["--model", "resnet8", "--batch-size", "4", "--max-steps", "2", "--init-scale", "16", "--no-capture"]
if words[:2] == ["bench", "conv"]:
    words += ["--peak-gflops", "1", "--peak-gbytes", "1", "--seconds", "0.01"]
process = subprocess.Popen([sys.argv[0] + ".real", *words], stdout=subprocess.PIPE, preexec_fn=lambda: ctypes.CDLL(None).prctl(1, 9))
seen = os.path.realpath("/proc/self/fd/1").startswith(os.environ["REHEARSAL_OUT"])
for line in process.stdout:
    os.write(1, line)
    if seen and line.startswith(b'{{"bench"'):
        with open(os.environ["REHEARSAL_ROWS"], "ab", buffering=0) as rows:
            rows.write(line)
sys.exit(process.wait())
'''
TESTS = '''#!{python}
import os, subprocess, sys, xml.etree.ElementTree as tree
real = os.path.join(os.path.dirname(sys.argv[0]), "../real", os.path.basename(sys.argv[0]))
if sys.argv[1] != "-r=xml":
    os.execv(real, [real, *sys.argv[1:]])
cases = tree.fromstring(subprocess.run([real, *sys.argv[1:]], stdout=subprocess.PIPE, text=True).stdout).iter("TestCase")
print("<cases>", *(f'<TestCase filename="{{f}}"/>' for f in sorted({{case.get("filename") for case in cases}})[:3]), "</cases>")
'''
STAND_IN = '''#!{python}
import ctypes, json, sys
ctypes.CDLL(None).prctl(1, 9)
if "--worker" not in sys.argv:
    sys.exit("this stands in for PyTorch and trains nothing")
for line in sys.stdin:
    answers = {{"begin": {{"torch": "none"}}, "window": 100.0, "memory": 0, "kernels": {{"by_kind_ms": {{}}, "slowest": []}}}}
    print(json.dumps(answers[line.strip()]), flush=True)
'''
TINY = ["--model", "resnet8", "--batches", "3,2", "--small-batch", "2", "--window", "0.02"]
# Without a search, and in the witness without graphs, which take an emulated GPU most of its time.
EMULATED = {"LATHE_IMAGE_SIZE": "4", "LATHE_CUDNN_BENCHMARK": "0", "LATHE_EMULATED_MEMORY": str(1 << 30), "LATHE_EMULATED_WATCH": "0"}


def missing_rows(witnessed, report):
    """The rows of a witness that a report.json lacks. A report's rows may say more."""
    return [row for row in witnessed if not any(row.items() <= found.items() for found in map(flat, report["rows"]))]


def flat(row):
    """Without what has no hash."""
    return {key: value for key, value in row.items() if not isinstance(value, (dict, list))}


def read_rows(path):
    """What a witness wrote; a kill may have cut its last line."""
    lines = path.read_text().splitlines() if path.exists() else []
    found = []
    for line in lines:
        try:
            row = flat(json.loads(line))
        except ValueError:
            continue
        found += [row] if "bench" in row or "losses_agree" in row else []
    return found


def too_many(folder):
    """Why a borrowed machine would not give all files back, or None."""
    files = sorted(folder.iterdir())
    large = [p.name for p in files if p.stat().st_size > 16 << 20]
    return f"{len(files)} files" if len(files) > 8 else f"too large: {large}" if large else None


def survivors(token):
    """The processes that were started with `token` in their environment."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if token.encode() in (path / "environ").read_bytes() and (path / "stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX":
                found.append(int(path.name))
        except OSError:
            pass
    return found


class Rehearsal:
    def __init__(self, pack, folder, steps):
        self.folder, self.number, self.steps = folder, 0, steps
        with tarfile.open(pack) as packed:
            packed.extractall(folder / "pack")
        shutil.rmtree(folder / "pack/tests/cli")
        lathe = folder / "pack/lathe"
        lathe.rename(folder / "pack/lathe.real")
        scripts = {lathe: WITNESS, folder / "torch": STAND_IN}
        (folder / "pack/real").mkdir()
        for program in (folder / "pack/tests").glob("test_*"):
            scripts[program] = TESTS
            program.rename(folder / "pack/real" / program.name)
        for path, text in scripts.items():
            path.write_text(text.format(python=sys.executable))
            path.chmod(0o755)

    def start(self):
        self.number += 1
        self.out, self.rows = self.folder / f"out-{self.number}", self.folder / f"rows-{self.number}"
        self.token = f"REHEARSAL_OUT={self.out}"
        env = {**os.environ, **EMULATED, "REHEARSAL_OUT": str(self.out), "REHEARSAL_ROWS": str(self.rows), "TMPDIR": str(self.folder)}
        env.pop("LATHE_DATA_ROOT", None)
        return subprocess.Popen([sys.executable, "-B", self.folder / "pack/tools/gpu_check.py", "--out", self.out, "--python",
                                 self.folder / "torch", *TINY, *self.steps], env=env, start_new_session=True, stdout=subprocess.DEVNULL,
                                stderr=subprocess.STDOUT)

    def faults(self):
        """What is wrong with what a killed run left."""
        end = time.monotonic() + 20
        while survivors(self.token) and time.monotonic() < end:
            time.sleep(0.05)
        if left := survivors(self.token):
            return [f"processes outlived it: {left}"]
        if not (self.out / "log.txt").exists():  # killed before it began
            return [] if not self.rows.exists() else ["no log"]
        subprocess.run([sys.executable, "-B", self.folder / "pack/tools/gpu_check.py", "--render", self.out], check=True)
        lost = missing_rows(read_rows(self.rows), json.loads((self.out / "report.json").read_text()))
        count = too_many(self.out)
        return [f"lost: {row}" for row in lost] + ([count] if count else [])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pack", type=pathlib.Path)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**6)
    parser.add_argument("steps", nargs="*", metavar="STEP", help="all without any")
    options = parser.parse_intermixed_args()
    with tempfile.TemporaryDirectory(prefix="rehearsal-") as folder:
        rehearsal = Rehearsal(options.pack, pathlib.Path(folder), options.steps)
        begin = time.monotonic()
        status = rehearsal.start().wait()
        whole = time.monotonic() - begin
        print((rehearsal.out / "report.md").read_text())
        print(f"whole run: {whole:.0f} s, exit code {status}, {len(read_rows(rehearsal.rows))} rows", flush=True)
        bad, rows, draw = len(rehearsal.faults()) > 0, 0, random.Random(options.seed)
        for kill in range(options.kills):
            process, moment = rehearsal.start(), draw.uniform(0, whole)
            time.sleep(moment)
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
            found, seen = rehearsal.faults(), len(read_rows(rehearsal.rows))
            rows, bad = rows + seen, bad + (len(found) > 0)
            print(f"kill {kill + 1} at {moment:.2f} s: {seen} rows, {'; '.join(found) or 'all in the report'}", flush=True)
        print(f"{options.kills} kills (seed {options.seed}), {rows} rows, {bad} with a fault")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
