#!/usr/bin/env python3
"""What becomes of a training on several ranks when one of them fails: every fault at every moment, and random kills.

    tools/rank_faults.py LATHE [matrix] [kills] [gpus]

matrix: two ranks with a timeout of 10 s. A fault hits one rank at one moment. A row of the table says how long the ranks lived on, and
what the first of the others said. A row is bad if a rank ended a second or more after the timeout, or if one of the others did not end
with one line that names the rank. Who fails by itself may say more: that its metrics, and then that its checkpoint was not written.
kills: a training of four ranks under `lathe launch --max-restarts` loses a random rank 20 times, and must come to its end with the bits
of one that loses none.
gpus: rows of the table for two ranks with an emulated GPU each (a build with LATHE_CUDA=EMULATE), whose steps are CUDA graphs. Only if asked for.
A full disk needs the right to mount a tmpfs.
"""
import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import zlib

LATHE = os.path.abspath(sys.argv[1])
TIMEOUT = 10
SAVE_EVERY = 5
MODEL = ["--model", "resnet8", "--batch-size", "8", "--image-size", "16", "--threads", "1", "--quiet", "--log-every", "1", "--save-every", str(SAVE_EVERY)]
LONG = ["--dataset", "synthetic", "--synthetic-size", "400", "--epochs", "2000", *MODEL]
SHORT = ["--dataset", "synthetic", "--synthetic-size", "400", "--epochs", "1", *MODEL]  # 50 steps
FOLDER = ["--dataset", "folder", "--augment", "none", "--data-cache", "none", "--workers", "0", *MODEL]
# Small enough for emulated GPUs. 6 steps are an epoch, so that from the fourth or fifth row on all steps are graphs.
ON_GPUS = ["--dataset", "synthetic", "--synthetic-size", "48", "--epochs", "2000", *(word if word != "16" else "4" for word in MODEL), "--amp", "fp16", "--no-cudnn-benchmark"]
EMULATED = {"LATHE_EMULATED_DEVICES": "2", "LATHE_EMULATED_MEMORY": str(1 << 28), "LATHE_EMULATED_WATCH": "0"}
MOMENTS = ("rendezvous", "first step", "mid-epoch", "checkpoint", "end")


def rows_of(run):
    try:
        lines = pathlib.Path(run, "metrics.jsonl").read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in lines if line.endswith(b"\n")]


def log_of(run):
    try:
        return pathlib.Path(run, "log.txt").read_text()
    except FileNotFoundError:
        return ""


def has_come(moment, run, begin):
    """Whether the training in the folder is at this moment."""
    if moment == "rendezvous":
        return time.monotonic() - begin > 1  # they wait for a third rank
    if moment == "first step":
        return log_of(run) != ""
    if moment == "checkpoint":
        return len(rows_of(run)) >= SAVE_EVERY and any(".tmp" in p.name for p in pathlib.Path(run).glob("*"))
    return len(rows_of(run)) >= (12 if moment == "mid-epoch" else 50)


def write_png(path, colour):
    """16 by 16 pixels of one colour."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    pixels = zlib.compress(b"".join(b"\0" + bytes(colour) * 16 for _ in range(16)))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 16, 16, 8, 2, 0, 0, 0)) + chunk(b"IDAT", pixels) + chunk(b"IEND", b""))


def image_folder(root, classes=2):
    for part, count in (("train", 200), ("test", 16)):
        for i in range(count):
            write_png(root / part / f"class{i % classes}" / f"{i}.png", (i % 256, 255 * (i % 2), 7))
    return root


@contextlib.contextmanager
def small_disk(place):
    """A folder on a file system of 16 MB; None without the right to mount one."""
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", place], stderr=subprocess.DEVNULL).returncode != 0:
        yield None
        return
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def fill(disk, rest=0):
    """Leaves `rest` bytes free."""
    try:
        with open(disk / "filler", "wb", buffering=0) as f:
            while True:
                f.write(bytes(4096))
    except OSError:
        pass
    os.truncate(disk / "filler", os.stat(disk / "filler").st_size - rest)


class Job:
    """The ranks of one row of the table."""

    def __init__(self, folder, world_size=2):
        self.folder, self.world_size, self.run, self.processes = folder, world_size, folder / "run", []
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.place = f"tcp://127.0.0.1:{s.getsockname()[1]}"
        self.begin = time.monotonic()

    def start(self, arguments, program=LATHE, rank=None, **variables):
        number = str(len(self.processes) if rank is None else rank)
        env = {**os.environ, "RANK": number, "WORLD_SIZE": str(self.world_size), "LOCAL_RANK": number, "LOCAL_WORLD_SIZE": str(self.world_size),
               "LATHE_RENDEZVOUS": self.place, "LATHE_DISTRIBUTED_TIMEOUT": str(TIMEOUT), "LATHE_JOB_TOKEN": "a", **variables}
        self.processes.append(subprocess.Popen([program, "train", *arguments, "--run-dir", str(self.run)], env=env,
                                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))

    def wait_for(self, moment):
        end = time.monotonic() + 120
        while not has_come(moment, self.run, self.begin) and all(p.poll() is None for p in self.processes):
            assert time.monotonic() < end, f"{moment} did not come"
            time.sleep(0.0005)

    def row(self, fault, moment, victim, killed=False):
        """Waits for the ends of all, but for a rank that was killed or stopped, and prints what came of it.   → whether it is good"""
        begin, ends, said, good = time.monotonic(), [], [], True
        for number, p in enumerate(self.processes):
            if killed and number == victim:
                continue
            try:
                _, errors = p.communicate(timeout=max(0.1, begin + 3 * TIMEOUT - time.monotonic()))
            except subprocess.TimeoutExpired:
                p.kill()
                errors = f"STILL ALIVE {p.communicate()[1]}"
            ends.append(p.returncode)
            done = moment == "end" and p.returncode == 0  # it had done its work before it could hear of the fault
            named = number == victim or (errors.count("\n") == 1 and re.search(rf"rank {victim}\b", errors) is not None)
            good = good and "ALIVE" not in errors and (done or (p.returncode > 0 and named))
            said += [errors.strip()] if number != victim or len(self.processes) == 1 else []
        took = time.monotonic() - begin
        for p in self.processes:
            if p.poll() is None:
                p.kill()
                p.communicate()
        good = good and took <= TIMEOUT + 1 and "kernel by kernel" not in log_of(self.run)
        text = next((text for text in said if text), "").replace("\n", " / ").replace(str(self.folder), "…")
        print(f"{'ok ' if good else 'BAD'} {fault:22} {moment:11} {took:5.1f} s, exit {ends}: {text[:250]}", flush=True)
        return good


def signals(folder, long=LONG, moments=MOMENTS):
    for name in ("SIGKILL", "SIGSTOP"):
        for victim in (1, 0):
            for moment in moments:
                if moment == "rendezvous" and victim == 0 and name == "SIGSTOP":
                    continue  # who is stopped there is not there: as a rank that is missing
                job = Job(folder / f"{name}-{victim}-{moment}", 3 if moment == "rendezvous" else 2)
                for _ in range(2):
                    job.start(SHORT if moment == "end" else long)
                job.wait_for(moment)
                job.processes[victim].send_signal(getattr(signal, name))
                yield job.row(f"{name} of rank {victim}", moment, victim, killed=True)


def exceptions(folder):
    images = image_folder(folder / "images")
    for moment in MOMENTS[1:]:
        job = Job(folder / f"exception-{moment}")
        own = folder / f"own-{moment}"
        shutil.copytree(images, own)
        epochs = ["--epochs", "2" if moment == "end" else "2000"]
        job.start([*FOLDER, *epochs, "--data-root", str(images)])
        job.start([*FOLDER, *epochs, "--data-root", str(own)])
        job.wait_for(moment)
        for part in ("test",) if moment == "end" else ("train", "test"):
            shutil.rmtree(own / part)
        yield job.row("exception of rank 1", moment, 1)


def full_disks(folder, long=LONG, moments=MOMENTS):
    for moment in moments:
        with small_disk(folder / f"disk-{moment}") as disk:
            if disk is None:
                print(f"--- full disk, {moment}: no right to mount one")
                continue
            job = Job(disk)
            if moment == "rendezvous":
                job.place = f"file://{disk}/place"
            if moment in MOMENTS[:2]:
                fill(disk)
            for _ in range(2):
                job.start(SHORT if moment == "end" else long)
            if moment not in MOMENTS[:2]:
                job.wait_for(moment)
                fill(disk, 65536 if moment == "checkpoint" else 0)
            yield job.row("full disk of rank 0", moment, 0)


def misfits(folder):
    """What does not fit is noticed where ranks meet."""
    other = folder / "other-version"
    other.write_bytes(pathlib.Path(LATHE).read_bytes().replace(b"0.1.0", b"0.1.1"))
    other.chmod(0o755)
    two, three = image_folder(folder / "two"), image_folder(folder / "three", 3)
    for fault, first, second, program, variables in (
            ("wrong shape (classes)", [*FOLDER, "--data-root", str(two)], [*FOLDER, "--data-root", str(three)], LATHE, {}),
            ("other settings", LONG, [*LONG, "--lr", "0.7"], LATHE, {}), ("other code version", LONG, LONG, str(other), {}),
            ("wrong token", LONG, LONG, LATHE, {"LATHE_JOB_TOKEN": "b"}), ("rank twice", LONG, LONG, LATHE, {}), ("missing rank", LONG, None, LATHE, {})):
        job = Job(folder / fault.replace(" ", "-"))
        job.start(first)
        if second is not None:
            job.start(second, program, **variables)
        if fault == "rank twice":
            job.start(second, rank=1)
        yield job.row(fault, "rendezvous", 1)


def matrix(folder):
    return all([good for part in (signals, exceptions, full_disks, misfits) for good in part(folder)])


def gpus(folder):
    os.environ.update(EMULATED)
    info = subprocess.run([LATHE, "info", "--json"], stdout=subprocess.PIPE, text=True, check=True).stdout
    if info.count('"emulated') < 2:
        sys.exit(f"rank_faults: {LATHE} has no emulated GPUs; they are in a build with LATHE_CUDA=EMULATE")
    # Steps take a second here: a disk that is full later is noticed steps later, and the row would say how slow they are.
    return all([*signals(folder, ON_GPUS, MOMENTS[1:4]), *full_disks(folder, ON_GPUS, MOMENTS[1:2])])


def kills(folder, wanted=20, seed=7):
    """→ whether the training came to its end; prints the figures."""
    draw = random.Random(seed)
    run, begin = folder / "kills", time.monotonic()
    training = ["train", "--dataset", "synthetic", "--synthetic-size", "1600", "--epochs", "12", *MODEL, "--resume", "auto"]
    env = {**os.environ, "LATHE_DISTRIBUTED_TIMEOUT": str(TIMEOUT)}
    subprocess.run([LATHE, "launch", "-n", "4", *training, "--run-dir", folder / "whole"], env=env, check=True, stdout=subprocess.DEVNULL)
    alone, begin = time.monotonic() - begin, time.monotonic()
    errors = open(folder / "errors", "w+")
    launcher = subprocess.Popen([LATHE, "launch", "-n", "4", "--max-restarts", "1000", *training, "--run-dir", run], env=env,
                                stdout=subprocess.DEVNULL, stderr=errors)
    children = pathlib.Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children")

    def begins():
        return [int(step) for step in re.findall(r"going on from \S+, step (\d+)", log_of(run))]

    killed, reached = set(), []  # of each kill: the last step that was logged, and how often the training had gone on
    while len(killed) < wanted and launcher.poll() is None:
        time.sleep(draw.uniform(0.2, 3))
        pids = [pid for pid in children.read_text().split() if pid not in killed] if launcher.poll() is None else []
        if len(pids) < 4:
            continue  # they are starting or ending
        victim = draw.choice(pids)
        rows = rows_of(run)
        reached.append((rows[-1]["step"] if rows else 0, len(begins())))
        os.kill(int(victim), signal.SIGKILL)
        killed.add(victim)
    code = launcher.wait(timeout=600)
    errors.seek(0)
    named = len(re.findall(r"^lathe: launch: rank \d+ \(process \d+\) was ended by signal 9", errors.read(), re.M))
    again = begins()
    lost = [step - again[number] for step, number in reached if number < len(again)]
    rows, whole = rows_of(run), rows_of(folder / "whole")
    same = all((run / name).read_bytes() == (folder / "whole" / name).read_bytes() for name in ("last.safetensors", "best.safetensors"))
    print(f"{len(killed)} kills of a training on 4 ranks, {named} named by the launcher; exit code {code}; {len(again)} times it went on, "
          f"with at most {max(lost)} steps to do again (a checkpoint is made every {SAVE_EVERY}); step {rows[-1]['step']} of {whole[-1]['step']}, "
          f"rows complete: {[r['step'] for r in rows] == [r['step'] for r in whole]}; {time.monotonic() - begin:.0f} s, {alone:.0f} s without kills; "
          f"accuracy {rows[-1]['accuracy']:.4f}, without kills {whole[-1]['accuracy']:.4f}; checkpoints with the same bits: {same}")
    return same and code == 0 and len(killed) == wanted and max(lost) <= SAVE_EVERY and [r["step"] for r in rows] == [r["step"] for r in whole]


def main():
    asked = sys.argv[2:] or ["matrix", "kills"]
    with tempfile.TemporaryDirectory(prefix="lathe-rank-faults-") as folder:
        good = all([{"matrix": matrix, "kills": kills, "gpus": gpus}[name](pathlib.Path(folder)) for name in asked])
    sys.exit(0 if good else 1)


main()
