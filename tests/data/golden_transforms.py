#!/usr/bin/env python3
"""Writes golden_transforms.h: what Pillow makes of small images.

    golden_transforms.py > golden_transforms.h        (needs Pillow and NumPy; made with Pillow 9.4.0)

Images come from a hash, so that transforms_test.cpp builds the same ones without files: byte i of image s, as [3,H,W], is
the highest byte of mix(s * 2654435761 + i), mix being the 32-bit finaliser of MurmurHash3. Results are kept as the 64-bit
FNV-1a hash of their bytes, again as [3,h,w].
"""
import numpy
import PIL
from PIL import Image, ImageEnhance

# height, width -> height, width: enlarged and made smaller, along one axis and along both, by even and odd factors, to and
# from one pixel, narrower than a vector, and as it is.
SIZES = [
    (32, 32, 224, 224), (9, 20, 224, 224), (31, 27, 64, 48), (5, 7, 3, 4), (1, 1, 5, 9), (40, 33, 1, 1), (64, 64, 32, 32),
    (100, 75, 33, 33), (17, 130, 17, 31), (130, 17, 31, 17), (24, 24, 24, 24), (375, 500, 224, 224), (16, 300, 48, 7),
    (3, 2, 2, 3), (2, 1000, 1, 3),
]


def image(stream, height, width):
    x = numpy.arange(3 * height * width, dtype=numpy.uint64) + numpy.uint64(stream * 2654435761 % 2**32)
    x &= numpy.uint64(0xFFFFFFFF)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, None)):
        x ^= x >> numpy.uint64(shift)
        if factor:
            x = x * numpy.uint64(factor) & numpy.uint64(0xFFFFFFFF)
    return Image.fromarray((x >> numpy.uint64(24)).astype(numpy.uint8).reshape(3, height, width).transpose(1, 2, 0))


def fnv(picture):
    value = 0xCBF29CE484222325
    for byte in numpy.asarray(picture).transpose(2, 0, 1).tobytes():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


FACTORS = [("Brightness", 0.4), ("Brightness", 1.7), ("Contrast", 0.3), ("Contrast", 1.6), ("Color", 0.25), ("Color", 2.5), ("Hue", 0.21),
           ("Hue", -0.5), ("Hue", -0.03), ("Grey", 0), ("Contrast", 0), ("Brightness", 1)]
COLOR_HEIGHT, COLOR_WIDTH = 61, 47


def changed(source, what, factor):
    if what == "Grey":
        return source.convert("L").convert("RGB")
    if what != "Hue":
        return getattr(ImageEnhance, what)(source).enhance(factor)
    h, s, v = source.convert("HSV").split()  # as torchvision's adjust_hue
    turned = (numpy.asarray(h).astype(int) + int(factor * 255)).astype(numpy.uint8)
    return Image.merge("HSV", (Image.fromarray(turned), s, v)).convert("RGB")


def main():
    print(f"""// Made by golden_transforms.py with Pillow {PIL.__version__}; do not edit.
#pragma once

#include <cstdint>

namespace lathe::data::golden {{

struct Resized {{
  int64_t in_height, in_width, height, width;
  uint64_t bilinear, nearest;  // hashes
}};

inline constexpr Resized kResized[] = {{""")
    for number, (in_height, in_width, height, width) in enumerate(SIZES):
        source = image(number, in_height, in_width)
        hashes = [fnv(source.resize((width, height), how)) for how in (Image.BILINEAR, Image.NEAREST)]
        print(f"    {{{in_height}, {in_width}, {height}, {width}, 0x{hashes[0]:016x}, 0x{hashes[1]:016x}}},")
    print(f"""}};

struct Changed {{
  const char* what;
  double factor;
  uint64_t hash;
}};

inline constexpr int64_t kColorHeight = {COLOR_HEIGHT}, kColorWidth = {COLOR_WIDTH};  // of image 100

inline constexpr Changed kChanged[] = {{""")
    source = image(100, COLOR_HEIGHT, COLOR_WIDTH)
    for what, factor in FACTORS:
        print(f'    {{"{what}", {factor}, 0x{fnv(changed(source, what, factor)):016x}}},')
    print("""};

}  // namespace lathe::data::golden""")


if __name__ == "__main__":
    main()
