"""compare_torch.py --device cuda: lathe and the variants of PyTorch on one GPU, taking turns."""
import ctypes
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time


def worker(args):
    """Loads PyTorch and waits for a line, then builds one variant; then answers a line per command: window, kernels, memory."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: compiling goes on for nobody
    import torch
    from torch_step import Step, by_kind
    sys.stdin.readline()
    step = Step(args.variant, args.model, args.batch, args.image_size, args.amp, args.device, args.tf32)
    first, warm = step.warm_up()
    answer = {"torch": torch.__version__, "first_step_seconds": first, "warm_up_seconds": warm}
    if step.cuda:
        answer |= {"cudnn": torch.backends.cudnn.version(), "cuda": torch.version.cuda, "gpu": torch.cuda.get_device_name()}
    print(json.dumps(answer), flush=True)
    for line in sys.stdin:
        if line.strip() == "window":
            print(step.window(args.seconds), flush=True)
        elif line.strip() == "kernels":
            rows = step.kernels()
            print(json.dumps({"by_kind_ms": by_kind(rows), "slowest": rows[:40]}), flush=True)
        elif line.strip() == "memory":
            print(step.peak_reserved_bytes(), flush=True)


class Variant:
    """A PyTorch process. It loads PyTorch beside the others; `prepare` makes it ready to be timed, one at a time, because cuDNN's
    benchmark mode times. `failure` if it never will be."""

    def __init__(self, args, variant):
        self.name, self.failure = variant, None
        script = pathlib.Path(__file__).with_name("compare_torch.py")
        command = [args.python, script, "--worker", "--device", args.device, "--variant", variant, "--model", args.model,
                   "--batch", args.batch, "--image-size", args.image_size, "--amp", args.amp, "--seconds", args.seconds]
        command += [] if args.tf32 else ["--no-tf32"]
        self.errors = tempfile.TemporaryFile("w+")  # max-autotune says more than a pipe holds
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.errors, text=True)

    def prepare(self):
        try:
            self.facts = self.ask("begin")
        except (BrokenPipeError, ValueError):  # it has ended
            self.process.wait()
            self.errors.seek(0)
            self.failure = (self.errors.read().strip().splitlines() or ["no output"])[-1]

    def ask(self, question):
        print(question, file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())

    def close(self):
        if self.failure is None:
            self.process.stdin.close()
            self.process.wait()


def ours(args):
    command = [args.lathe, "bench", "step", "--device", args.device, "--model", args.model, "--batch-size", args.batch,
               "--image-size", args.image_size, "--seconds", args.seconds, "--json"]
    command += ["--amp", args.amp] if args.amp != "off" else []
    command += ["--stem", "imagenet", "--classes", 1000] if args.image_size > 64 else []
    command += ["--tf32" if args.tf32 else "--no-tf32"]
    out = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if out.returncode != 0:
        sys.exit(f"compare_torch: {' '.join(map(str, command))}: {out.stderr.strip()}")
    return json.loads(out.stdout.splitlines()[-1])


def compare(args):
    os.environ.setdefault("LATHE_ALGO_CACHE", str(pathlib.Path(args.lathe).parent / "compare-algos.json"))
    variants = [Variant(args, name) for name in args.variants.split(",")]
    for variant in variants:
        variant.prepare()
    ready = [v for v in variants if v.failure is None]
    if not ready:
        sys.exit(f"compare_torch: no variant of PyTorch runs: {variants[0].failure}")
    if args.wait_for:
        print(json.dumps({"event": "ready", "facts": {v.name: v.facts for v in ready}}), flush=True)
        while not args.wait_for.exists():
            time.sleep(0.1)
    rounds, last = [], {}
    for number in range(args.rounds):
        last = ours(args)
        rounds.append({"ours": last["images_per_second"], **{v.name: v.ask("window") for v in ready}})
        if args.json:  # as they come: whoever is killed has those that are over
            print(json.dumps({"bench": "round", "model": args.model, "batch": args.batch, "amp": args.amp, "round": number + 1,
                              "images_per_second": rounds[-1]}), flush=True)
    medians = {name: statistics.median(r[name] for r in rounds) for name in rounds[0]}
    best = max((name for name in medians if name != "ours"), key=medians.get)
    result = {"bench": "turns", "model": args.model, "batch": args.batch, "image_size": args.image_size, "amp": args.amp, "tf32": args.tf32,
              "ours": last, "images_per_second": medians, "best_of_torch": best,
              "ratio": statistics.median(r["ours"] / r[best] for r in rounds),
              "ratio_to_eager": statistics.median(r["ours"] / r["eager"] for r in rounds) if "eager" in medians else None,
              "torch": {v.name: {**v.facts, "peak_reserved_bytes": v.ask("memory")} for v in ready},
              "failed": {v.name: v.failure for v in variants if v.failure is not None},
              "torch_kernels": {v.name: v.ask("kernels") for v in ready if v.name in ("eager", best)}, "rounds": rounds}
    for v in variants:
        v.close()
    if args.json:
        print(json.dumps(result))
        return
    print(f"{args.model} {args.image_size}x{args.image_size}, batch {args.batch}, amp {args.amp}"
          f"{', TF32' if args.tf32 and args.amp == 'off' else ''}: ours {medians['ours']:.0f} images/s")
    for name, rate in sorted(medians.items(), key=lambda item: -item[1]):
        if name != "ours":
            print(f"  PyTorch {name:<16} {rate:>9.0f} images/s   ours / it {medians['ours'] / rate:.2f}")
    for name, reason in result["failed"].items():
        print(f"  PyTorch {name:<16} does not run: {reason}")
    for kind, ms in result["torch_kernels"].get("eager", {}).get("by_kind_ms", {}).items():
        print(f"    eager: {kind:<16} {ms:.3f} ms per step")
