#!/usr/bin/env python3
"""Does lathe train as PyTorch does? The same weights, the same images, 50 steps: the losses side by side.

    compare_losses.py [--device cuda] [--model resnet18] [--batch 128] [--amp fp16] [--steps 50] [--lathe PATH] [--python PATH] [--json]
                      [--fusion on,off]

Draws --batch random images, and labels for them. One batch is all of them, so their order changes nothing but the order of sums.
PyTorch makes the weights, trains in f32, and trains a second time on the images in another order, under --amp if it is given. lathe
trains from the same weights, under the same --amp. SGD with momentum and weight decay on all sides.

Losses agree if the first one does within 1 % and if lathe's differ from PyTorch's in f32, on average over the steps, by no more than
{factor} times what PyTorch's own two trainings differ by, or by 0.1 %. Exit code 7 if they do not.

--fusion on,off is for a GPU: lathe trains twice, with kernels that compute a convolution together with batch norm and relu, and without
them. `on` fails, with exit code 8, if the convolution search chose no such kernel: then nothing was compared.
"""
import argparse
import contextlib
import json
import os
import pathlib
import statistics
import struct
import subprocess
import sys
import tempfile
import zlib

FACTOR, LEAST = 3, 1e-3
SIDE, CLASSES, LR, MOMENTUM, WEIGHT_DECAY = 32, 10, 0.02, 0.9, 5e-4
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # lathe's for folders of images


def png(pixels):
    """An RGB image of SIDE x SIDE from its bytes."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + pixels[i:i + 3 * SIDE] for i in range(0, len(pixels), 3 * SIDE))
    header = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b"")


def torch_side(args):
    """Writes images and weights into the folder; prints PyTorch's losses, in f32 and again with --amp and another order."""
    import torch
    from torch.nn import functional as F
    import torch_models
    torch.manual_seed(0)
    folder = pathlib.Path(args.folder)
    pixels = torch.randint(0, 256, (args.batch, SIDE, SIDE, 3), dtype=torch.uint8)
    labels = torch.arange(args.batch) % CLASSES
    for i in range(args.batch):
        for part in ("train", "test") if i < CLASSES else ("train",):  # a folder needs test images; nobody looks at them
            path = folder / "images" / part / str(int(labels[i])) / f"{i:05}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(png(bytes(pixels[i].flatten().tolist())))
    first = torch_models.make(args.model, SIDE, CLASSES)
    weights = {name: value.clone() for name, value in first.state_dict().items()}
    torch.save(weights, folder / "weights.pth")
    x = (pixels.permute(0, 3, 1, 2).float() / 255 - torch.tensor(MEAN).view(1, 3, 1, 1)) / torch.tensor(STD).view(1, 3, 1, 1)
    cuda = args.device != "cpu"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False

    def train(order, amp):
        net = torch_models.make(args.model, SIDE, CLASSES)
        net.load_state_dict(weights)
        net.to(args.device).train()
        images = x[order].to(args.device).contiguous(memory_format=torch.channels_last)
        wanted = labels[order].to(args.device)
        optimizer = torch.optim.SGD(net.parameters(), LR, MOMENTUM, weight_decay=WEIGHT_DECAY)
        scaler = torch.cuda.amp.GradScaler(enabled=cuda and amp == "fp16")
        losses = []
        for _ in range(args.steps):
            half = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(amp)
            with torch.autocast("cuda" if cuda else "cpu", half) if half else contextlib.nullcontext():
                loss = F.cross_entropy(net(images).float(), wanted)
            optimizer.zero_grad(set_to_none=True)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            losses.append(loss.item())
        return losses

    torch.set_num_threads(args.threads)
    print(json.dumps({"torch": torch.__version__, "f32": train(torch.arange(args.batch), "off"),
                      "again": train(torch.arange(args.batch).flip(0), args.amp)}))


def pack_images(args, folder):
    subprocess.run([args.lathe, "data", "prepare", folder / "images.pack", "--dataset", "folder", "--data-root", folder / "images",
                    "--quiet"], check=True, stdout=subprocess.DEVNULL)


def our_losses(args, folder, fusion, algos):
    packed, run = folder / "images.pack", folder / f"run-{fusion}"
    env = {**os.environ, "LATHE_ALGO_CACHE": str(algos), **({} if fusion is None else {"LATHE_CONV_FUSION": "01"[fusion == "on"]})}
    command = [args.lathe, "train", "--device", args.device, "--dataset", "packed", "--data-root", packed, "--augment", "none", "--model",
               args.model, "--weights", folder / "weights.pth", "--batch-size", args.batch, "--epochs", args.steps, "--log-every", 1,
               "--optimizer", "sgd", "--lr", LR, "--momentum", MOMENTUM, "--weight-decay", WEIGHT_DECAY, "--scheduler", "none",
               "--eval-every", 0, "--amp", args.amp, "--no-tf32", "--threads", args.threads, "--run-dir", run, "--quiet"]
    if args.model == "resnet18":
        command += ["--stem", "cifar"]
    done = subprocess.run([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=env)
    if done.returncode:
        sys.exit(f"compare_losses: {done.stderr.strip()}")
    rows = [json.loads(line) for line in open(run / "metrics.jsonl")]
    return [row["loss"] for row in rows if row["split"] == "train"]


def fused_convolutions(args, algos):
    """How many searches for this batch chose a fused kernel; engine -1 stands for the way without one."""
    shown = subprocess.run([args.lathe, "algos", "show", "--algo-cache", algos, "--json"], stdout=subprocess.PIPE, text=True).stdout
    rows = [json.loads(line) for line in shown.splitlines()]
    return sum(row["chosen"] and row["engine"] != "-1" and row["key"].split()[1] != "none" and f" x=f16[{args.batch}," in row["key"]
               for row in rows)


def mean_difference(a, b):
    """Relative to b, over all steps."""
    return statistics.mean(abs(p - q) / max(abs(q), 1e-3) for p, q in zip(a, b, strict=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__.format(factor=FACTOR), formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--model", default="resnet18", help="resnet18 or one of CIFAR's ResNets")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--amp", default="fp16", choices=("off", "fp16", "bf16"))
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--lathe", default=str(pathlib.Path(__file__).parents[2] / "build/release/bin/lathe"))
    parser.add_argument("--python", default=sys.executable, help="a Python that has PyTorch")
    parser.add_argument("--fusion", help="on, off or on,off: ways in which lathe trains on a GPU, one after the other")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.folder:
        return torch_side(args)
    with tempfile.TemporaryDirectory() as folder:
        words = [args.python, __file__, *sys.argv[1:], "--folder", folder]
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(f"compare_losses: {(done.stderr.strip().splitlines() or ['no output'])[-1]}")
        theirs, folder = json.loads(done.stdout), pathlib.Path(folder)
        algos = os.environ.get("LATHE_ALGO_CACHE") or folder / "algos.json"
        pack_images(args, folder)
        status = 0
        for fusion in args.fusion.split(",") if args.fusion else [None]:
            result = compare(args, theirs, our_losses(args, folder, fusion, algos)) | {"fusion": fusion}
            if fusion == "on":
                result["fused"] = fused_convolutions(args, algos)
                status = status or (8 if result["fused"] == 0 else 0)
            show(args, result)
            status = status or (0 if result["losses_agree"] else 7)
    return status


def compare(args, theirs, ours):
    f32, again = theirs["f32"], theirs["again"]
    ours_differ, torch_differ = mean_difference(ours, f32), mean_difference(again, f32)
    agree = abs(ours[0] - f32[0]) <= 1e-2 * f32[0] and ours_differ <= max(FACTOR * torch_differ, LEAST)
    return {"losses_agree": agree, "model": args.model, "batch": args.batch, "amp": args.amp, "steps": args.steps,
            "torch": theirs["torch"], "ours_differ": ours_differ, "torch_differ": torch_differ, "ours": ours, "torch_f32": f32,
            "torch_again": again}


def show(args, result):
    if args.json:
        print(json.dumps(result), flush=True)
        return
    if result["fusion"]:
        print(f"fusion {result['fusion']}: {result.get('fused', 0)} fused convolutions")
    for step in sorted({*range(0, args.steps, max(args.steps // 10, 1)), args.steps - 1}):
        print(f"step {step + 1:>3}: ours {result['ours'][step]:.5f}, PyTorch f32 {result['torch_f32'][step]:.5f}, "
              f"again {result['torch_again'][step]:.5f}")
    print(f"ours differ from PyTorch's in f32 by {result['ours_differ']:.2e}, PyTorch's own by {result['torch_differ']:.2e}: "
          f"{'agree' if result['losses_agree'] else 'DIFFER'}")


if __name__ == "__main__":
    sys.exit(main())
