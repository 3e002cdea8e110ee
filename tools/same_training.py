#!/usr/bin/env python3
"""Whether two builds of the command train alike: runs the same trainings with both, and compares all that they leave.

    tools/same_training.py OLD NEW [--only NAME]... [--gpu] [--jobs N] [--keep FOLDER] [--list]

OLD and NEW are two programs `lathe`, compiled by the same compiler with the same flags: another -O may round differently.
For each setting both run the same calls in a fresh folder of the same name. Then these are compared (tools/compare_runs.py):

- the names of all files
- each checkpoint: every tensor (parameters, buffers, optimizer, schedule, scaler, averages, generators, the trainer's sums and
  its position in the data) by name, dtype, shape and bits, and the metadata
- metrics and TensorBoard's records, without times, rates and memory, which depend on threads
- exit codes, stdout, stderr, log.txt, config.toml and env.json, without times, rates and the revision

CHANGES lists what commits changed on purpose. An entry counts only if NEW contains its commit and OLD does not.
Without --gpu all runs on the CPU. With it the settings of GPU_SETTINGS run on cuda:0, emulated or real.
A run takes about a minute and 1 GB of the temporary folder.

Exit code 0: all is the same, but for CHANGES. 7: something differs, or a call did not end as it has to.
"""
import argparse
import os
import pathlib
import random
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

sys.dont_write_bytecode = True
from compare_runs import Change, Comparison  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
TIMEOUT_S = 600  # of one call
MOST_SHOWN = 10  # differences of a setting


# ---- the settings -------------------------------------------------------------------------------------------------------

class Call(NamedTuple):
    words: str
    code: int = 0  # how it has to end, with both programs


# 50 images in batches of 8: an epoch has 7 steps, the last one of 2 images.
SYNTHETIC = "--dataset synthetic --synthetic-size 50 --model resnet8 --image-size 16 --batch-size 8 --threads 1"
SMALL = f"{SYNTHETIC} --augment crop,flip --log-every 4 --epochs 2 --run-dir run"
SMALL_GPU = ("--dataset synthetic --synthetic-size 16 --model resnet8 --image-size 8 --batch-size 4 --threads 1 --augment crop,flip "
             "--log-every 2 --epochs 2 --run-dir run --device cuda:0 --deterministic")


def begin(flags="", code=0, ranks=1, small=SMALL):
    """A new training: the small one with `flags`. The last one of a name counts."""
    return Call(f"{f'launch -n {ranks} ' if ranks > 1 else ''}train {small} {flags}", code)


def begin_gpu(flags="", ranks=1):
    return begin(flags, ranks=ranks, small=SMALL_GPU)


def write_images(folder):
    """Images of three classes, with noise, below images/train, val and test. One file is broken."""
    noise = random.Random(1)
    for part, count in (("train", 10), ("val", 3), ("test", 3)):
        for kind, name in enumerate(("blue", "green", "red")):
            (folder / "images" / part / name).mkdir(parents=True)
            for index in range(count):
                rows = [bytes(min(255, noise.randrange(120) + 90 * (i % 3 == 2 - kind)) for i in range(3 * 24)) for _ in range(20)]
                (folder / f"images/{part}/{name}/{index}.png").write_bytes(png(24, rows))
    (folder / "images/train/red/broken.png").write_bytes(b"\x89PNG\r\n\x1a\n")


def png(width, rows):
    """8-bit RGB (W3C, Portable Network Graphics)."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    header = struct.pack(">IIBBBBB", width, len(rows), 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + row for row in rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def write_idx(folder):
    """Files like Fashion-MNIST's below data/: 20 and 6 images of 8 x 8 (http://yann.lecun.com/exdb/mnist)."""
    noise = random.Random(2)
    (folder / "data").mkdir()
    for part, count in (("train", 20), ("t10k", 6)):
        (folder / f"data/{part}-images-idx3-ubyte").write_bytes(struct.pack(">4I", 0x803, count, 8, 8) + noise.randbytes(64 * count))
        (folder / f"data/{part}-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x801, count) + bytes(i % 10 for i in range(count)))


IDX = "--dataset fashion-mnist --data-root data"
OF_IMAGES = "--model resnet8 --image-size 16 --batch-size 4 --threads 1 --log-every 3"

# What each setting runs, one after the other, in one folder: functions that write files, and calls of the command.
SETTINGS = {
    # models and optimisers
    "sgd": [begin("--tensorboard --save-every 3"), Call("eval --run-dir run --threads 1"), Call("predict --run-dir run --index 0:6")],
    "nesterov": [begin("--model resnet20 --nesterov --scheduler step --step-size 1 --no-decay-norm --label-smoothing 0.1")],
    "adam": [begin("--optimizer adam --scheduler multistep --milestones 1 --weight-decay 1e-4 --json --drop-last")],
    "vit-adamw": [begin("--model vit_s_16 --image-size 32 --synthetic-size 24 --optimizer adamw --warmup-epochs 1 --keep 1")],
    "mobilenet-rmsprop": [begin("--model mobilenet_v2 --image-size 32 --synthetic-size 24 --optimizer rmsprop --lr 1e-3 --scheduler poly")],
    "lars": [begin("--optimizer lars --scheduler linear --warmup-epochs 0.5 --lr-scale-batch")],
    "lamb": [begin("--optimizer lamb --scheduler onecycle --augment cutout")],
    "novograd": [begin("--optimizer novograd --scheduler plateau --patience 0 --gamma 0.5 --epochs 4")],
    "efficientnet-dropout": [begin("--model efficientnet_b0 --image-size 32 --synthetic-size 24 --lr 0.01 --scheduler none")],
    "resnet18-two-threads": [begin("--model resnet18 --synthetic-size 32 --threads 2 --workers 4 --recompute --layout nchw --eval-every 2")],
    # precision and what makes a step
    "bf16": [begin("--amp bf16")],
    "fp16-scaler": [begin("--amp fp16 --init-scale 16777216 --growth-interval 2")],  # skips steps, then doubles the scale
    "ema": [write_idx, begin(f"--ema 0.9 {IDX}")],
    "accumulate": [begin("--accumulate 3 --synthetic-size 48")],  # every step has 3 batches of 8
    "all-together": [begin("--optimizer adamw --amp fp16 --loss-scale 128 --accumulate 2 --synthetic-size 48 --ema 0.8 "
                           "--clip-grad-norm 0.1 --conv-exact --detect-anomaly --profile --profile-steps 1:3")],
    # ranks
    "two-ranks": [begin("--synthetic-size 48", ranks=2)],
    "two-ranks-resumed": [begin("--synthetic-size 48 --accumulate 2 --ema 0.9 --stop-after 2", ranks=2),
                          Call("launch -n 2 train --resume auto --run-dir run")],
    # what is chosen, and what ends a run
    "val-split": [begin("--val-split 0.2 --epochs 3"), Call("eval --run-dir run --threads 1")],
    "early-stopping": [begin("--early-stopping 1 --epochs 12 --lr 0.3 --target-acc 99", code=7)],
    "diverged": [begin("--lr 1e6 --momentum 0 --scheduler none --epochs 5", code=6)],
    # what goes on
    "resume": [begin("--stop-after 5"), Call("train --resume auto --run-dir run --workers 3 --stop-after 7"),
               Call("train --resume run --lr 0.5", code=2), Call("train --resume auto --run-dir run --epochs 3")],
    "resume-fp16": [begin("--amp fp16 --init-scale 1e5 --growth-interval 2 --optimizer adam --accumulate 2 --synthetic-size 48 "
                          "--ema 0.9 --save-every 1 --keep 20 --stop-after 4"),
                    Call("train --resume run/step-2.safetensors --run-dir fork --quiet"), Call("train --resume run")],
    "fine-tuning": [begin("--max-steps 3"),
                    begin("--weights run/last.safetensors --new-head --freeze layer1,*.bn1 --head-lr 0.2 --seed 5 --run-dir tuned"),
                    begin("--weights run/last.safetensors --freeze backbone --epochs 1 --run-dir head")],
    "folder": [write_images, Call(f"train --data-root images {OF_IMAGES} --workers 2 --epochs 2 --skip-broken --run-dir run"),
               Call("data prepare images.pack --dataset folder --data-root images --skip-broken"),
               Call(f"train --data-root images.pack {OF_IMAGES} --epochs 1 --run-dir packed"),
               Call("predict --run-dir run images/test/red --threads 1")],
    # Beside these 24: two whose results a commit changed, and steps that `train` does not make.
    "accumulate-smaller-batch": [begin("--accumulate 4 --eval-every 0")],
    "two-ranks-sync-batch-norm": [begin("--synthetic-size 48 --sync-batch-norm", ranks=2)],
    "other-commands": [Call(f"find-lr {SYNTHETIC}"), Call(f"ckpt verify-resume {SYNTHETIC} --steps 9")],
}

# A process records the third step of a shape, and launches the later ones as a graph.
GPU_SETTINGS = {
    "captured": [begin_gpu("--ema 0.9 --augment crop")],
    "captured-fp16": [begin_gpu("--amp fp16 --init-scale 262144 --growth-interval 2")],  # skips steps, then doubles the scale
    "captured-accumulate": [begin_gpu("--amp fp16 --loss-scale 128 --accumulate 2 --clip-grad-norm 0.5 --optimizer adamw")],
    "captured-resumed": [write_idx, begin_gpu(f"--amp fp16 {IDX} --data-cache gpu --batch-size 6 --epochs 3 --stop-after 4"),
                         Call("train --resume auto --run-dir run")],  # an epoch's last batch has 2 images
    "queued": [begin_gpu("--no-capture --amp bf16 --label-smoothing 0.1")],
    "two-gpus": [begin_gpu("--amp fp16 --device auto", ranks=2)],
}


# ---- what commits changed on purpose ------------------------------------------------------------------------------------

CHANGES = (
    Change("44f454eb", "--weights-section is a setting", new='weights-section = ""'),
    Change("5ac108eb", "WebP images are read by libwebp", new='  "libwebp": "[0-9.]+",'),
    Change("9926c0bd", "a file may also be skipped because its image cannot be resized", old="warning: skipped .*: it cannot be read",
           new="warning: skipped .*: it cannot be read or resized"),
    Change("fe9bed58", "one broken file is no plural",
           old=".*[,;] 1 broken files (skipped|left out).*", new=".*[,;] 1 broken file (skipped|left out).*"),
    Change("af97e3cb", "batches of an accumulated step count by their images", results=("accumulate-smaller-batch",)),
    Change("ed573836", "gradients in a synchronised batch norm have PyTorch's order in memory, and are summed in it",
           results=("two-ranks-sync-batch-norm",)),
    Change("61445f47", "a CPU's convolutions are not timed any more", old="conv-benchmark = false"),
    Change("a86f5ad3", "checkpoints name no flags", old=r"(its weights are averages \(--ema\)|made after the --time-limit)",
           new=r"(its weights are averages \(EMA\)|made after the time limit)"),
    Change("bd685d1c", "the note on the best checkpoint in plainer words", old=r"(.*; )?the best is chosen by .*", new=r"(.*; )?the best checkpoint is chosen on .*"),
    Change("6ed6a172", "so is that of --detect-anomaly with a loss scale", old="--detect-anomaly: the loss scale is raised .*",
           new="--detect-anomaly checks only the forward pass: .*"),
)


def is_in_git(*words):
    return subprocess.run(["git", "-C", str(ROOT), *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def changes_between(old, new):
    for revision in (old, new):
        if not is_in_git("cat-file", "-e", f"{revision}^{{commit}}"):
            print(f"no change counts, for this repository has no commit {revision or 'of a program without one'}")
            return []
    return [c for c in CHANGES if is_in_git("merge-base", "--is-ancestor", c.commit, new)
            and not is_in_git("merge-base", "--is-ancestor", c.commit, old)]


def revision_of(program):
    try:
        said = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60).stdout
    except OSError as error:
        sys.exit(f"{program}: {error.strerror}")
    found = re.search(r"\(([0-9a-f]{7,40})\b", said)
    return found[1] if found else ""


# ---- running the programs -----------------------------------------------------------------------------------------------

def environment(gpu):
    """Without settings of ours, and with emulated GPUs only where they are asked for."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LATHE_") and name != "NO_COLOR"}
    return {**kept, "LATHE_EMULATED_DEVICES": "2" if gpu else "0", "LATHE_EMULATED_WATCH": "0", "LATHE_DISTRIBUTED_TIMEOUT": "200"}


def run_steps(program, steps, folder, gpu):
    """Runs them in `folder`, where what a call says becomes files. → what went wrong, as text, or none."""
    folder.mkdir(parents=True)
    for number, step in enumerate(steps, 1):
        if not isinstance(step, Call):
            step(folder)
            continue
        try:
            done = subprocess.run([program, *shlex.split(step.words)], cwd=folder, env=environment(gpu), capture_output=True, timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return f"{program} {step.words}\n      took more than {TIMEOUT_S} s"
        for kind, text in (("stdout", done.stdout), ("stderr", done.stderr), ("code", f"{done.returncode}\n".encode())):
            (folder / f"call-{number}.{kind}").write_bytes(text)
        if done.returncode != step.code:  # what follows builds on it
            last = (done.stderr.decode(errors="replace").splitlines() or [""])[-1]
            return f"{program} {step.words}\n      ended with {done.returncode}, not {step.code}: {last}"
    return None


def compare(name, steps, programs, changes, top, gpu):
    """Both programs work in a folder of one path, so that no other path is in what they write. → all differences as text, and
    whether there are none."""
    wrong, folders = [], []
    for who, program in zip(("old", "new"), programs):
        wrong.append(run_steps(program, steps, top / name / "now", gpu))
        folders.append((top / name / "now").rename(top / name / who))
    result = Comparison(name, changes).folders(*folders)
    verdict = "FAILS" if any(wrong) else "DIFFERS" if result.differences else "same"
    excepted = f"; but for {', '.join(change.commit for change in result.explained)}" if result.explained else ""
    lines = [f"{verdict:<8} {name}: " + ", ".join(f"{number} {kind}" for kind, number in result.compared.items()) + excepted]
    lines += [f"    {text}" for text in (*filter(None, wrong), *result.differences[:MOST_SHOWN])]
    if len(result.differences) > MOST_SHOWN:
        lines.append(f"    and {len(result.differences) - MOST_SHOWN} more")
    return "\n".join(lines), verdict == "same"


def compare_all(settings, programs, changes, options, top):
    """→ how many settings are the same."""
    def work(item):
        out = compare(*item, programs, changes, top, options.gpu)
        if not options.keep:
            shutil.rmtree(top / item[0])
        return out
    same = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for text, is_same in pool.map(work, settings.items()):
            print(text, flush=True)
            same += is_same
    return same


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", metavar="OLD NEW", type=os.path.abspath)
    parser.add_argument("--only", action="append", metavar="NAME", help="this setting; can be given several times")
    parser.add_argument("--gpu", action="store_true", help="the settings of a GPU")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="settings at the same time [2]")
    parser.add_argument("--keep", type=pathlib.Path, metavar="FOLDER", help="a new folder, where NAME/old and NAME/new stay")
    parser.add_argument("--list", action="store_true", help="print the calls of each setting, and run nothing")
    options = parser.parse_args()
    settings = GPU_SETTINGS if options.gpu else SETTINGS
    for name in options.only or ():
        if name not in settings:
            parser.error(f"there is no setting {name}; there are {', '.join(settings)}")
    settings = {name: settings[name] for name in options.only or settings}
    if options.list:
        print("\n".join(f"{name}: lathe {step.words}" for name, steps in settings.items() for step in steps if isinstance(step, Call)))
        return 0
    if len(options.programs) != 2:
        parser.error("OLD and NEW are two programs")
    old, new = map(revision_of, options.programs)
    changes = changes_between(old, new)
    print(f"old {old}, new {new}; what commits between them changed on purpose: {len(changes) or 'nothing'}")
    print("".join(f"    {change.commit}  {change.why}\n" for change in changes), end="", flush=True)
    with tempfile.TemporaryDirectory(prefix="same-training-") as scratch:
        same = compare_all(settings, options.programs, changes, options, (options.keep or pathlib.Path(scratch)).resolve())
    print(f"{same} of {len(settings)} settings are the same")
    return 0 if same == len(settings) else 7


if __name__ == "__main__":
    sys.exit(main())
