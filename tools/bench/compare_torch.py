#!/usr/bin/env python3
"""Training throughput of lathe and of PyTorch: the same model, batch and thread count, in the same run.

    compare_torch.py [--model resnet18] [--image-size 32] [--classes 10] [--batch 64] [--threads 2] [--amp bf16] [--rounds 5] [--json]
                     [--variants eager,compile]
    compare_torch.py --model resnet50,vgg11_bn,mobilenet_v2,efficientnet_b0,convnext_tiny,vit_s_16 --image-size 64 --classes 1000 --batch 4
    compare_torch.py --device cuda [--batch 512] [--amp fp16] [--image-size 224] [--variants eager,compile,graph] [--no-tf32]

The two sides take turns (A B A B …), so that a machine whose speed drifts slows both. A round is a window of training steps
(forward, loss, backward, SGD with momentum) on synthetic images, after a warm-up; with --amp bf16 both sides compute it under
autocast. PyTorch's rounds are the best of its two memory formats and of OpenMP threads that spin a while or sleep at once when
they wait, chosen first. With --variants eager,compile a round has a window of each: called layer by layer, and the model with
its loss under torch.compile, which needs PyTorch 2. The figures are medians over the rounds. PyTorch gets a malloc that keeps
large blocks, without which it loses up to a third of its speed. With --json, one object per model and variant:
ours_images_per_second, torch_images_per_second, ratio (the median of the rounds' ratios), torch_version, and the rounds.

On a GPU (compare_torch_cuda.py) the other side is PyTorch's best variant of those named: eager, torch.compile in its default,
reduce-overhead and max-autotune modes, and a CUDA graph captured by hand, all in NHWC with cuDNN's benchmark mode over all
plans and the fused optimizer; with --json a line after each round, then PyTorch's kernels by kind, first-step times and peak memory.
With --wait-for FILE the rounds begin when there is such a file: until then PyTorch compiles and warms up, beside other work.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

# How OpenMP's threads wait between parallel regions. Not "active": those of an idle worker would take a core from the other side.
WAITING = {"default": {}, "passive": {"OMP_WAIT_POLICY": "passive"}}
KEEP_BLOCKS = {"MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_MMAP_THRESHOLD_": str(1 << 40)}


def torch_worker(args):
    """Reads a memory format and a variant per line, runs one window, answers with images per second."""
    import torch
    from torch.nn import functional as F
    import torch_models
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    formats = {"nchw": torch.contiguous_format, "nhwc": torch.channels_last}
    net = torch_models.make(args.model, args.image_size, args.classes)
    opt = torch.optim.SGD(net.parameters(), 0.01, 0.9, weight_decay=5e-4)
    x, y = torch.randn(args.batch, 3, args.image_size, args.image_size), torch.randint(0, args.classes, (args.batch,))
    print(torch.__version__, flush=True)

    def loss(images):
        with torch.autocast("cpu", torch.bfloat16, enabled=args.amp == "bf16"):
            scores = net(images)
        return F.cross_entropy(scores.float(), y)

    def step(variant, images):
        opt.zero_grad(set_to_none=True)
        losses[variant](images).backward()
        opt.step()

    losses = {"eager": loss}
    for line in sys.stdin:
        name, variant = line.split()
        if variant == "compile" and variant not in losses:
            losses[variant] = torch.compile(loss, dynamic=False)  # for each memory format its own code
        memory_format = formats[name]
        net.to(memory_format=memory_format)
        images = x.contiguous(memory_format=memory_format)
        for _ in range(2):
            step(variant, images)
        times, end = [], time.perf_counter() + args.seconds
        while time.perf_counter() < end or len(times) < 3:
            start = time.perf_counter()
            step(variant, images)
            times.append(time.perf_counter() - start)
        print(args.batch / statistics.median(times), flush=True)


class Torch:
    def __init__(self, args, waiting):
        command = [args.python, os.path.abspath(__file__), "--worker", "--model", args.model, "--batch", str(args.batch),
                   "--threads", str(args.threads), "--seconds", str(args.seconds), "--amp", args.amp,
                   "--image-size", str(args.image_size), "--classes", str(args.classes)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **KEEP_BLOCKS, **WAITING[waiting], "OMP_NUM_THREADS": str(args.threads)})
        self.version = self.process.stdout.readline().strip()
        if not self.version:
            sys.exit(f"compare_torch: {args.python} has no PyTorch (Debian: apt install python3-torch, then --python /usr/bin/python3)")

    def window(self, memory_format, variant):
        print(memory_format, variant, file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def ours_window(args):
    command = [args.lathe, "bench", "step", "--model", args.model, "--batch-size", str(args.batch), "--threads", str(args.threads),
               "--amp", args.amp, "--image-size", str(args.image_size), "--classes", str(args.classes), "--json"]
    if args.model in ("resnet34", "resnet50", "resnet101", "resnet152", "wide_resnet50_2", "wide_resnet101_2"):
        command += ["--stem", "imagenet"]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(out.splitlines()[-1])["images_per_second"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="resnet18", help="on a GPU resnet18 or resnet20; on a CPU one or several (a,b,c) of nn/models.h")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4, help="length of a window of PyTorch's")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--lathe", default=str(pathlib.Path(__file__).parents[2] / "build/release/bin/lathe"))
    parser.add_argument("--python", default=sys.executable, help="a Python that has PyTorch")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--amp", default="off", choices=("off", "fp16", "bf16"))
    parser.add_argument("--tf32", default=True, action=argparse.BooleanOptionalAction, help="of fp32 on a GPU, both sides")
    parser.add_argument("--image-size", type=int, default=32)
    parser.add_argument("--classes", type=int, default=10, help="on a CPU")
    parser.add_argument("--variants", help="of PyTorch; on a CPU eager (the default there) and compile")
    parser.add_argument("--wait-for", type=pathlib.Path, metavar="FILE", help="on a GPU: begin the rounds when it exists")
    parser.add_argument("--variant", help=argparse.SUPPRESS)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.device == "cpu" and args.amp == "fp16" and not args.variant:
        parser.error("--amp fp16 is compared on a GPU only: PyTorch's autocast for CPUs has bf16 alone")
    args.variants = args.variants or ("eager" if args.device == "cpu" else "eager,compile,reduce-overhead,graph")
    if args.device == "cpu" and not args.variant and set(args.variants.split(",")) - {"eager", "compile"}:
        parser.error(f"--variants {args.variants}: on a CPU eager, compile or both")
    if args.device != "cpu" or args.variant:
        import compare_torch_cuda
        return compare_torch_cuda.worker(args) if args.worker else compare_torch_cuda.compare(args)
    if args.worker:
        return torch_worker(args)
    for model in args.model.split(","):
        compare(argparse.Namespace(**{**vars(args), "model": model}))


def compare(args):
    """One model on the CPU."""
    workers = {waiting: Torch(args, waiting) for waiting in WAITING}
    variants = args.variants.split(",")
    best = {variant: best_choice(workers, variant) for variant in variants}
    rounds = {variant: [] for variant in variants}
    for i in range(args.rounds):
        ours = ours_window(args)
        for variant, (waiting, memory_format) in best.items():
            theirs = workers[waiting].window(memory_format, variant)
            rounds[variant].append({"ours": ours, "torch": theirs, "ratio": ours / theirs})
            if not args.json:
                print(f"round {i + 1}: ours {ours:.1f}, PyTorch {variant} {theirs:.1f} images/s, ratio {ours / theirs:.2f}", flush=True)
    version = workers["default"].version
    for worker in workers.values():
        worker.close()
    for variant in variants:
        report(args, variant, best[variant], rounds[variant], version)


def best_choice(workers, variant):
    """The way of waiting and the memory format whose better one of two windows, by turns, is the fastest."""
    choices = [(waiting, memory_format) for waiting in workers for memory_format in ("nhwc", "nchw")]
    speeds = dict.fromkeys(choices, 0)
    for waiting, memory_format in choices * 2:
        speed = workers[waiting].window(memory_format, variant)
        speeds[waiting, memory_format] = max(speeds[waiting, memory_format], speed)
    return max(choices, key=speeds.get)


def report(args, variant, best, rounds, version):
    def median(key):
        return statistics.median(r[key] for r in rounds)

    waiting, memory_format = best
    result = {"model": args.model, "batch": args.batch, "classes": args.classes, "threads": args.threads, "amp": args.amp,
              "ours_images_per_second": median("ours"), "torch_images_per_second": median("torch"),
              "ratio": median("ratio"), "torch_version": version, "torch_variant": variant, "torch_format": memory_format,
              "torch_waiting": waiting, "rounds": rounds}
    if args.json:
        print(json.dumps(result))
    else:
        print(f"{args.model}, batch {args.batch}, {args.threads} threads, amp {args.amp}: ours {median('ours'):.1f}, PyTorch {version} "
              f"({variant}, {memory_format}, {waiting}) {median('torch'):.1f} images/s, ratio {median('ratio'):.2f}")


if __name__ == "__main__":
    main()
