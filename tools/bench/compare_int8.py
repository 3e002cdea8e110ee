#!/usr/bin/env python3
"""A trained model in f32 and in 8-bit integers, ours and PyTorch's: right answers, and inputs per second in the same run.

    compare_int8.py --run RUN --data CIFAR [--calibration-images 256] [--batch 32] [--threads 2] [--rounds 5] [--json]

RUN is a run of `lathe train --dataset cifar10`, CIFAR the folder with the binary files. Both sides have the weights of RUN's best
checkpoint and look at as many training images for calibration: ours at images of the whole set, PyTorch at some of
data_batch_1. Ours: `lathe ckpt convert`, with and without --int8, then
`lathe predict` of the test images as PNG files and `lathe bench infer`. PyTorch's f32 is traced and frozen; its int8 is
torch.ao.quantization's after training, prepare_fx and convert_fx with the defaults of the engine x86, traced and frozen, too.
All sides take turns; the figures are medians of the rounds' medians.
"""
import argparse
import csv
import io
import json
import os
import pathlib
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import zlib

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


def cifar(path):
    """→ labels, images u8 [N,3,32,32]"""
    import numpy
    records = numpy.fromfile(path, "u1").reshape(-1, 3073)
    return records[:, 0].astype("i8"), records[:, 1:].reshape(-1, 3, 32, 32)


def write_png(path, image):
    """An image u8 [3,H,W]."""
    height, width = image.shape[1:]
    rows = b"".join(b"\0" + image[:, y].T.tobytes() for y in range(height))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b""))


class Torch:
    """PyTorch's two forms of the model."""

    def __init__(self, args, calibration):
        import torch
        import torch_models
        from torch.ao.quantization import get_default_qconfig_mapping
        from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx
        self.torch = torch
        torch.set_num_threads(args.threads)
        torch.backends.quantized.engine = "x86"
        net = torch_models.make(args.model, 32, 10).eval()
        net.load_state_dict(self.weights(pathlib.Path(args.run) / "best.safetensors", net.state_dict()))
        x = self.normalised(calibration)
        with torch.no_grad():
            prepared = prepare_fx(net, get_default_qconfig_mapping("x86"), (x[:1],))
            for begin in range(0, len(x), 16):
                prepared(x[begin:begin + 16])
            self.forms = {"f32": net, "int8": convert_fx(prepared)}
        self.traced = {}

    def weights(self, path, wanted):
        data = path.read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8:8 + size])
        types = {"F32": self.torch.float32, "I64": self.torch.int64}
        out = {}
        for name in wanted:
            entry = header[name]
            begin, end = entry["data_offsets"]
            flat = self.torch.frombuffer(bytearray(data[8 + size + begin:8 + size + end]), dtype=types[entry["dtype"]])
            out[name] = flat.reshape(entry["shape"])
        return out

    def normalised(self, images):
        torch = self.torch
        x = torch.from_numpy(images.copy()).float() / 255
        return (x - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)

    def answers(self, form, images):
        with self.torch.no_grad():
            return [int(i) for begin in range(0, len(images), 250)
                    for i in self.forms[form](self.normalised(images[begin:begin + 250])).argmax(1)]

    def window(self, form, batch, seconds):
        torch = self.torch
        x = torch.randn(batch, 3, 32, 32).contiguous(memory_format=torch.channels_last)
        with torch.no_grad():
            key = form, batch
            if key not in self.traced:
                self.traced[key] = torch.jit.optimize_for_inference(torch.jit.freeze(torch.jit.trace(self.forms[form], x)))
                for _ in range(5):
                    self.traced[key](x)
            times, end = [], time.perf_counter() + seconds
            while time.perf_counter() < end or len(times) < 3:
                start = time.perf_counter()
                self.traced[key](x)
                times.append(time.perf_counter() - start)
        return statistics.median(times)


class Ours:
    def __init__(self, args, folder):
        self.args = args
        self.files = {"f32": folder / "f32.lathe", "int8": folder / "int8.lathe"}
        checkpoint = str(pathlib.Path(args.run) / "best.safetensors")
        self.run("ckpt", "convert", checkpoint, self.files["f32"])
        self.run("ckpt", "convert", checkpoint, self.files["int8"], "--int8", "--calibration-images", args.calibration_images,
                 "--data-root", args.data)

    def run(self, *words):
        return subprocess.run([self.args.lathe, *map(str, words)], check=True, stdout=subprocess.PIPE, text=True).stdout

    def answers(self, form, pictures):
        rows = csv.DictReader(io.StringIO(self.run("predict", "--weights", self.files[form], pictures, "--format", "csv", "--top", 1,
                                                   "--batch-size", 64, "--threads", self.args.threads)))
        return [int(row["class"]) for row in sorted(rows, key=lambda row: row["file"])]

    def windows(self, form, seconds):
        """{batch: seconds}"""
        out = self.run("bench", "infer", "--weights", self.files[form], "--batch-size", self.args.batch, "--threads", self.args.threads,
                       "--seconds", seconds + 0.5, "--json")
        return {row["batch_size"]: row["seconds_p50"] for row in map(json.loads, out.splitlines())}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--model", default="resnet20")
    parser.add_argument("--calibration-images", type=int, default=256)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.6, help="length of a window")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--lathe", default=str(pathlib.Path(__file__).parents[2] / "build/release/bin/lathe"))
    args = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", str(args.threads))
    data = pathlib.Path(args.data)
    labels, images = cifar(data / "test_batch.bin")
    training = cifar(data / "data_batch_1.bin")[1]
    step = max(1, len(training) // args.calibration_images)
    torch = Torch(args, training[::step][:args.calibration_images])
    result = {"threads": args.threads, "torch_version": torch.torch.__version__, "right": {}, "seconds": {}}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        ours = Ours(args, folder)
        pictures = folder / "pictures"
        pictures.mkdir()
        for i, image in enumerate(images):
            write_png(pictures / f"{i:05}.png", image)
        answers = {}
        for form in ("f32", "int8"):
            answers[f"lathe {form}"] = ours.answers(form, pictures)
            answers[f"PyTorch {form}"] = torch.answers(form, images)
        for side, classes in answers.items():
            form = answers[side.split()[0] + " f32"]
            result["right"][side] = sum(c == label for c, label in zip(classes, labels)) / len(labels)
            result.setdefault("like f32", {})[side] = sum(a == b for a, b in zip(classes, form)) / len(labels)
        times = {}
        for _ in range(args.rounds):
            for form in ("f32", "int8"):
                for batch, seconds in ours.windows(form, args.seconds).items():
                    times.setdefault((f"lathe {form}", batch), []).append(seconds)
                for batch in (1, args.batch):
                    times.setdefault((f"PyTorch {form}", batch), []).append(torch.window(form, batch, args.seconds))
    for (side, batch), seconds in times.items():
        result["seconds"].setdefault(side, {})[batch] = statistics.median(seconds)
    if args.json:
        return print(json.dumps(result))
    print(f"{'':<14} {'right':>8} {'like f32':>9} " + " ".join(f"{f'{b}: ms':>10} {'images/s':>10}" for b in (1, args.batch)))
    for side, of in result["seconds"].items():
        print(f"{side:<14} {100 * result['right'][side]:7.2f}% {100 * result['like f32'][side]:8.2f}% "
              + " ".join(f"{1e3 * of[b]:10.3f} {b / of[b]:10.0f}" for b in (1, args.batch)))


if __name__ == "__main__":
    sys.exit(main())
