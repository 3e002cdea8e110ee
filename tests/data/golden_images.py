#!/usr/bin/env python3
"""Writes golden_images.h: small JPEG and PNG files, and what Pillow decodes them to.

    golden_images.py > golden_images.h        (needs Pillow and NumPy; made with Pillow 9.4.0, libjpeg-turbo 2.1.5)

Decoded images are kept as the FNV-1a hash of their bytes as [3,h,w] after convert("RGB"); JPEG files also at half their
size, as draft() has the decoder make it.
"""
import io

import numpy
import PIL
from golden_transforms import fnv
from PIL import Image

WIDTH, HEIGHT = 37, 29


def picture():
    """A smooth pattern with an edge: little to store, and every block different."""
    y, x = numpy.mgrid[0:HEIGHT, 0:WIDTH]
    r = 128 + 100 * numpy.sin(x / 5.0)
    g = 6 * x + y
    b = numpy.where(x + y > 33, 230, 7 * y)
    return Image.fromarray(numpy.stack([r, g, b], -1).clip(0, 255).astype(numpy.uint8))


rgb = picture()
alpha = rgb.copy()
alpha.putalpha(Image.fromarray(numpy.arange(HEIGHT * WIDTH, dtype=numpy.uint32).reshape(HEIGHT, WIDTH).astype(numpy.uint8)))
FILES = [
    ("kJpeg", rgb, "JPEG", {"quality": 75}),
    ("kJpeg444", rgb, "JPEG", {"quality": 90, "subsampling": 0}),
    ("kJpegProgressive", rgb, "JPEG", {"quality": 60, "progressive": True}),
    ("kJpegGrey", rgb.convert("L"), "JPEG", {"quality": 75}),
    ("kJpegCmyk", rgb.convert("CMYK"), "JPEG", {"quality": 75}),
    ("kPng", rgb, "PNG", {"optimize": True}),
    ("kPngGrey", rgb.convert("L"), "PNG", {"optimize": True}),
    ("kPngPalette", rgb.quantize(16), "PNG", {"optimize": True}),
    ("kPngAlpha", alpha, "PNG", {"optimize": True}),
]

print(f"""// Made by golden_images.py with Pillow {PIL.__version__}; do not edit.
#pragma once

#include <cstdint>

namespace lathe::data::golden {{

// clang-format off""")
rows = []
for name, image, kind, options in FILES:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    data = buffer.getvalue()
    print(f"inline constexpr uint8_t {name}[] = {{")
    for k in range(0, len(data), 24):
        print("    " + ",".join(str(byte) for byte in data[k:k + 24]) + ",")
    print("};")
    half = 0
    if kind == "JPEG":
        drafted = Image.open(io.BytesIO(data))
        drafted.draft(None, (WIDTH // 2, HEIGHT // 2))
        assert drafted.size == ((WIDTH + 1) // 2, (HEIGHT + 1) // 2), drafted.size
        half = fnv(drafted.convert("RGB"))
    whole = fnv(Image.open(io.BytesIO(data)).convert("RGB"))
    rows.append(f'    {{"{name}", {name}, sizeof {name}, 0x{whole:016x}, 0x{half:016x}}},')
print(f"""
struct ImageBytes {{
  const char* name;
  const uint8_t* bytes;
  int64_t size;
  uint64_t whole, half;  // hashes of the pixels; half: 0 for PNG
}};

inline constexpr int64_t kImageHeight = {HEIGHT}, kImageWidth = {WIDTH};

inline constexpr ImageBytes kImages[] = {{""")
print("\n".join(rows))
print("""};
// clang-format on

}  // namespace lathe::data::golden""")
