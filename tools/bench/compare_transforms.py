#!/usr/bin/env python3
"""Images per second of processor time on one thread: our transforms against the same with Pillow and NumPy, taking turns.

    compare_transforms.py [--build build/release] [--rounds 3]        (needs Pillow, NumPy, libturbojpeg0-dev)

Pillow does what torchvision's transforms of PIL images do, without torchvision around it. A folder of 48 JPEG files of 500 x 375 is
made for the comparison with a plain loop of TurboJPEG calls. Prints medians.
"""
import argparse
import math
import pathlib
import random
import statistics
import subprocess
import tempfile
import time

import numpy
from PIL import Image, ImageFilter

from lathe_program import compile_program

HERE = pathlib.Path(__file__).resolve().parent
IMAGE = Image.fromarray(numpy.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=numpy.uint8))


def make_images(folder):
    path = folder / "images/class"
    path.mkdir(parents=True)
    noise = numpy.random.default_rng(1)
    for k in range(48):
        smooth = Image.fromarray(noise.integers(0, 256, (375, 500, 3), dtype=numpy.uint8)).filter(ImageFilter.GaussianBlur(2))
        pixels = (numpy.asarray(smooth).astype(float) - 127) * 3 + 128
        Image.fromarray(pixels.clip(0, 255).astype(numpy.uint8)).save(path / f"{k}.jpg", quality=90)
    return path.parent


def pad_crop():
    i, j = random.randint(0, 8), random.randint(0, 8)
    padded = numpy.zeros((40, 40, 3), numpy.uint8)
    padded[4:36, 4:36] = numpy.asarray(IMAGE)
    x = padded[i:i + 32, j:j + 32]
    return numpy.ascontiguousarray((x[:, ::-1] if random.random() < 0.5 else x).transpose(2, 0, 1))


def resized_crop():
    for _ in range(10):
        area, ratio = 1024 * random.uniform(0.08, 1), math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= 32 and 0 < h <= 32:
            break
    else:
        w = h = 32
    i, j = random.randint(0, 32 - h), random.randint(0, 32 - w)
    x = IMAGE.crop((j, i, j + w, i + h)).resize((224, 224), Image.BILINEAR)
    if random.random() < 0.5:
        x = x.transpose(Image.FLIP_LEFT_RIGHT)
    return numpy.ascontiguousarray(numpy.asarray(x).transpose(2, 0, 1))


def rate(function, images):
    best = math.inf
    for _ in range(3):
        start = time.thread_time()
        for _ in range(images):
            function()
        best = min(best, time.thread_time() - start)
    return images / best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parents[1] / "build/release")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    ours, theirs = {}, {}
    with tempfile.TemporaryDirectory() as name:
        program = compile_program("transforms_lathe.cpp", args.build, f"{name}/ours")
        images = make_images(pathlib.Path(name))
        for _ in range(args.rounds):
            for line in subprocess.run([program, images], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines():
                what, value = line.split("\t")
                ours.setdefault(what, []).append(float(value))
            theirs.setdefault("pad-crop, flip", []).append(rate(pad_crop, 5000))
            theirs.setdefault("RandomResizedCrop 32 to 224, flip", []).append(rate(resized_crop, 1000))
    for what, values in ours.items():
        line = f"{what:55} {statistics.median(values):11,.0f}"
        if what in theirs:
            other = statistics.median(theirs[what])
            line += f"   Pillow and NumPy {other:9,.0f}, ratio {statistics.median(values) / other:.1f}"
        print(line)


if __name__ == "__main__":
    main()
