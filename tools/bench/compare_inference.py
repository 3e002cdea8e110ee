#!/usr/bin/env python3
"""Inference of lathe and of PyTorch on a CPU: latency with one image and throughput with a batch, in the same run.

    compare_inference.py [--model resnet18] [--image-size 224] [--classes 1000] [--batch 32] [--threads 2] [--rounds 5] [--int8] [--json]

Ours is `lathe bench infer`: the model called layer by layer (eager) and as an optimised graph. PyTorch's variants: eager;
torch.jit.trace, frozen and optimised for inference; torch.compile with frozen weights. Each in both memory formats, of which
the faster one is taken per variant and batch. All sides take turns, so that a machine whose speed drifts slows all. The
figures are medians of the rounds' medians; a ratio is the median of the rounds' ratios against the best variant of PyTorch.
With --int8 both sides also run in 8-bit integers: PyTorch by torch.ao.quantization after training (prepare_fx, convert_fx, the
defaults of the engine x86), traced and frozen. A second ratio compares these two.
PyTorch gets a malloc that keeps large blocks. Results of the variants are compared with eager's before anything is timed.
"""
import argparse
import copy
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

KEEP_BLOCKS = {"MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_MMAP_THRESHOLD_": str(1 << 40)}
VARIANTS = ("eager", "frozen", "compiled")


def torch_worker(args):
    """Reads "variant format batch" per line, runs one window, answers with the median seconds of a call."""
    import torch
    import torch_models
    from torch._inductor import config as inductor
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    if args.model == "resnet18" and args.image_size > 64:  # as lathe chooses the stem
        from torchvision import models
        net = models.resnet18(num_classes=args.classes).eval()
    else:
        net = torch_models.make(args.model, args.image_size, args.classes).eval()
    formats = {"nchw": torch.contiguous_format, "nhwc": torch.channels_last}
    made = {}

    def variant(name, order, x):
        """The model in this form; of frozen and compiled one per shape."""
        key = (name, order, x.shape[0] if name != "eager" else 0)
        if key in made:
            return made[key]
        model = copy.deepcopy(net).to(memory_format=formats[order])
        if name == "frozen":
            model = torch.jit.optimize_for_inference(torch.jit.freeze(torch.jit.trace(model, x)))
        elif name == "int8":
            from torch.ao.quantization import get_default_qconfig_mapping
            from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx
            torch.backends.quantized.engine = "x86"
            prepared = prepare_fx(model, get_default_qconfig_mapping("x86"), (x,))
            prepared(torch.randn(8, *x.shape[1:]))
            model = torch.jit.optimize_for_inference(torch.jit.freeze(torch.jit.trace(convert_fx(prepared), x)))
        elif name == "compiled":
            inductor.freezing = True
            model = torch.compile(model, dynamic=False)
        want = net(x)
        for _ in range(3):  # the first calls compile
            got = model(x)
        most = 0.2 if name == "int8" else 1e-3
        assert (got - want).abs().max() <= most * (1 + want.abs().max()), (name, order)
        made[key] = model
        return model

    print(torch.__version__, flush=True)
    inputs = {(order, batch): torch.randn(batch, 3, args.image_size, args.image_size).contiguous(memory_format=formats[order])
              for order in formats for batch in (1, args.batch)}
    with torch.inference_mode(False), torch.no_grad():
        for line in sys.stdin:
            name, order, batch = line.split()
            x = inputs[order, int(batch)]
            model = variant(name, order, x)
            model(x)
            times, end = [], time.perf_counter() + args.seconds
            while time.perf_counter() < end or len(times) < 3:
                start = time.perf_counter()
                model(x)
                times.append(time.perf_counter() - start)
            print(statistics.median(times), flush=True)


class Torch:
    def __init__(self, args):
        command = [args.python, os.path.abspath(__file__), "--worker", "--model", args.model, "--batch", str(args.batch),
                   "--threads", str(args.threads), "--seconds", str(args.seconds), "--image-size", str(args.image_size),
                   "--classes", str(args.classes)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **KEEP_BLOCKS, "OMP_NUM_THREADS": str(args.threads)})
        self.version = self.process.stdout.readline().strip()
        if not self.version:
            sys.exit(f"compare_inference: {args.python} has no PyTorch")

    def window(self, variant, order, batch):
        print(variant, order, batch, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit(f"compare_inference: PyTorch's {variant} failed")
        return float(answer)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def ours_windows(args):
    """{(form, batch): seconds} of one run."""
    command = [args.lathe, "bench", "infer", "--model", args.model, "--batch-size", str(args.batch), "--threads", str(args.threads),
               "--image-size", str(args.image_size), "--classes", str(args.classes), "--seconds", str(args.seconds + 0.5), "--json"]
    command += ["--int8"] * args.int8
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return {(row["form"], row["batch_size"]): row["seconds_p50"] for row in map(json.loads, out.splitlines())}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1, help="length of a window")
    parser.add_argument("--int8", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--lathe", default=str(pathlib.Path(__file__).parents[2] / "build/release/bin/lathe"))
    parser.add_argument("--python", default=sys.executable, help="a Python that has PyTorch")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        return torch_worker(args)
    torch = Torch(args)
    variants = VARIANTS + ("int8",) * args.int8
    batches = sorted({1, args.batch})
    best_order = {(v, b): min(("nhwc", "nchw"), key=lambda order: torch.window(v, order, b)) for v in variants for b in batches}
    rounds = []
    for _ in range(args.rounds):
        forms = ("eager", "graph") + ("int8",) * args.int8
        times = {f"lathe {form}": {} for form in forms} | {f"PyTorch {v}": {} for v in variants}
        for (form, batch), seconds in ours_windows(args).items():
            times[f"lathe {form}"][batch] = seconds
        for (variant, batch), order in best_order.items():
            times[f"PyTorch {variant}"][batch] = torch.window(variant, order, batch)
        rounds.append(times)
        if not args.json:
            print("round " + str(len(rounds)) + ": " + ", ".join(f"{side} " + " / ".join(f"{1e3 * t[b]:.2f}" for b in batches)
                                                             for side, t in times.items()) + " ms", flush=True)
    torch.close()

    result = {"model": args.model, "image_size": args.image_size, "threads": args.threads, "torch_version": torch.version, "batches": {}}
    for batch in batches:
        medians = {side: statistics.median(r[side][batch] for r in rounds) for side in rounds[0]}
        best = min((side for side in medians if side.startswith("PyTorch") and side != "PyTorch int8"), key=medians.get)
        ratios = [r[best][batch] / r["lathe graph"][batch] for r in rounds]
        result["batches"][batch] = {"seconds": medians, "best": best, "ratio": statistics.median(ratios), "ratios": sorted(ratios)}
        if not args.json:
            print(f"{args.model} {args.image_size}x{args.image_size}, batch {batch}, {args.threads} threads, PyTorch {torch.version}:")
            for side, seconds in medians.items():
                print(f"  {side:<17} {1e3 * seconds:9.3f} ms {batch / seconds:9.1f} images/s")
            print(f"  {statistics.median(ratios):.2f} x {best} ({min(ratios):.2f} to {max(ratios):.2f})")
            for side in ("PyTorch int8", "lathe graph") if args.int8 else ():
                ratios = [r[side][batch] / r["lathe int8"][batch] for r in rounds]
                print(f"  int8: {statistics.median(ratios):.2f} x {side} ({min(ratios):.2f} to {max(ratios):.2f})")
    if args.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
