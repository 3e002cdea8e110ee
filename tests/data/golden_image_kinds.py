#!/usr/bin/env python3
"""Writes golden_image_kinds.h: a small file of each kind that PNG, JPEG and WebP know, and what Pillow decodes it to.

    golden_image_kinds.py > golden_image_kinds.h     (needs Pillow and NumPy; up to kJpegYcck made with Pillow 9.4.0, then with 13.0.0)

The PNG files are written here, because Pillow does not write most kinds. Decoded images are kept as the FNV-1a hash of
their bytes as [3,h,w] after convert("RGB"). Of 16-bit grey alone Pillow makes white where a sample is above 255; there
the hash is that of the same picture with 8 bits, the upper half of each sample, as Pillow does for the other kinds.
Pillow wants an end marker, or bytes in its place: of the file that lacks it the hash is that of the whole file.
"""
import io
import struct
import zlib

import numpy
import PIL
from golden_transforms import fnv
from PIL import Image

WIDTH, HEIGHT = 21, 13
Y, X = numpy.mgrid[0:HEIGHT, 0:WIDTH]
RED, GREEN, BLUE, ALPHA = 12 * X, 15 * Y + X, 255 - 8 * X - 6 * Y, 37 * X + 11 * Y & 255
LOW = 61 * X + 7 * Y + 31 & 255  # the lower halves of 16-bit samples
GREY, GREY_ALPHA, RGB, PALETTE, RGBA = 0, 4, 2, 3, 6  # colour types
ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))


def wide(plane):
    """16-bit samples whose lower half is not the upper one."""
    return 256 * plane + LOW


def rows(planes, depth):
    """Rows as PNG packs them, each less the one above."""
    packed, above = b"", b""
    for row in numpy.stack(planes, -1):
        if depth == 16:
            data = row.astype(">u2").tobytes()
        elif depth == 8:
            data = row.astype(numpy.uint8).tobytes()
        else:
            bits = "".join(format(int(sample), f"0{depth}b") for sample in row.reshape(-1))
            data = int(bits.ljust(-(-len(bits) // 8) * 8, "0"), 2).to_bytes(-(-len(bits) // 8), "big")
        packed += b"\2" + bytes((a - b) % 256 for a, b in zip(data, above or bytes(len(data))))
        above = data
    return packed


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(colour, depth, planes, extra=(), interlaced=False):
    pixels = b""
    for x, y, dx, dy in ADAM7 if interlaced else ((0, 0, 1, 1),):
        pixels += rows([plane[y::dy, x::dx] for plane in planes], depth)
    head = struct.pack(">IIBBBBB", WIDTH, HEIGHT, depth, colour, 0, 0, interlaced)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + b"".join(chunk(kind, data) for kind, data in extra)
            + chunk(b"IDAT", zlib.compress(pixels, 9)) + chunk(b"IEND", b""))


def jpeg(image, **options):
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", **options)
    return buffer.getvalue()


def adobe(data, transform):
    """The file with Adobe's marker in place of JFIF's or its own: 0 is RGB or CMYK, 2 is YCCK; None leaves it out."""
    length = struct.unpack(">H", data[4:6])[0]
    assert data[2:4] in (b"\xff\xe0", b"\xff\xee")
    marker = b"" if transform is None else b"\xff\xee\0\x0eAdobe\0\x64\0\0\0\0" + bytes([transform])
    return data[:2] + marker + data[4 + length:]


def webp(image, **options):
    buffer = io.BytesIO()
    image.save(buffer, "WEBP", **options)
    return buffer.getvalue()


def odd_scan(data):
    """The file with the last coefficient of its scan, which only progressive files may choose, as 62 in place of 63."""
    at = data.index(b"\xff\xda")
    at += 2 + struct.unpack(">H", data[at + 2:at + 4])[0] - 2  # Se, the last byte but one
    assert data[at] == 63
    return data[:at] + b"\x3e" + data[at + 1:]


COLOURS = [RED, GREEN, BLUE]
WIDE = [wide(plane) for plane in COLOURS]
GAMMA = [(b"gAMA", struct.pack(">I", 100000))]  # samples proportional to light
CHROMATICITIES = [(b"cHRM", struct.pack(">8I", 31270, 32900, 68000, 32000, 26500, 69000, 15000, 6000))]
PALETTE_16 = [(b"PLTE", bytes((17 * k * step + 40) % 256 for k in range(16) for step in (1, 3, 7)))]
PICTURE = Image.fromarray(numpy.stack(COLOURS, -1).clip(0, 255).astype(numpy.uint8))
CLEAR = PICTURE.copy()
CLEAR.putalpha(Image.fromarray(ALPHA.astype(numpy.uint8)))
PLAIN = jpeg(PICTURE, quality=75)
assert PLAIN[6:11] == b"JFIF\0" and PLAIN[20:22] == b"\xff\xdb" and PLAIN[-2:] == b"\xff\xd9"
FILES = [
    ("kPngGrey1", png(GREY, 1, [(X + Y) % 3 % 2])),
    ("kPngGrey2", png(GREY, 2, [(X + Y) % 4])),
    ("kPngGrey4", png(GREY, 4, [(X + Y) % 16])),
    ("kPngGrey16", png(GREY, 16, [wide(GREEN)])),
    ("kPngGreyAlpha", png(GREY_ALPHA, 8, [GREEN, ALPHA])),
    ("kPngGreyAlpha16", png(GREY_ALPHA, 16, [wide(GREEN), wide(ALPHA)])),
    ("kPngRgb16", png(RGB, 16, WIDE)),
    ("kPngRgba16", png(RGBA, 16, [*WIDE, wide(ALPHA)])),
    ("kPngPalette4", png(PALETTE, 4, [(X + Y) % 16], PALETTE_16)),
    ("kPngInterlaced", png(RGB, 8, COLOURS, interlaced=True)),
    ("kPngInterlaced1", png(GREY, 1, [(X + Y) % 3 % 2], interlaced=True)),
    ("kPngInterlaced16", png(RGBA, 16, [*WIDE, wide(ALPHA)], interlaced=True)),
    ("kPngTransparentGrey", png(GREY, 8, [GREEN], [(b"tRNS", struct.pack(">H", 30))])),
    ("kPngTransparentRgb", png(RGB, 8, COLOURS, [(b"tRNS", struct.pack(">3H", 12, 1, 247))])),
    ("kPngTransparentRgb16", png(RGB, 16, WIDE, [(b"tRNS", struct.pack(">3H", *(int(plane[0, 0]) for plane in WIDE)))])),
    ("kPngTransparentPalette", png(PALETTE, 4, [(X + Y) % 16], [*PALETTE_16, (b"tRNS", bytes(range(0, 160, 10)))])),
    ("kPngGamma", png(RGB, 8, COLOURS, GAMMA)),
    ("kPngGamma16", png(RGB, 16, WIDE, GAMMA)),
    ("kPngGammaGrey", png(GREY, 8, [GREEN], GAMMA)),
    ("kPngGammaPalette", png(PALETTE, 4, [(X + Y) % 16], [*GAMMA, *PALETTE_16])),
    ("kPngGammaAlpha", png(RGBA, 8, [*COLOURS, ALPHA], GAMMA)),
    ("kPngChromaticities", png(RGB, 8, COLOURS, [*GAMMA, *CHROMATICITIES])),
    ("kPngSrgb16", png(RGB, 16, WIDE, [(b"sRGB", b"\0")])),
    ("kPngSignificantBits", png(RGB, 8, COLOURS, [(b"sBIT", bytes([5, 6, 5]))])),
    ("kPngSignificantBits16", png(RGB, 16, WIDE, [(b"sBIT", bytes([10, 12, 10]))])),
    ("kPngBackground", png(RGBA, 8, [*COLOURS, ALPHA], [(b"bKGD", struct.pack(">3H", 250, 0, 0))])),
    ("kJpegLuminance", jpeg(PICTURE.convert("L"), quality=75)),
    ("kJpegAdobeRgb", adobe(jpeg(PICTURE, quality=75, subsampling=0), 0)),
    ("kJpegAdobeCmyk", jpeg(PICTURE.convert("CMYK"), quality=75)),
    ("kJpegPlainCmyk", adobe(jpeg(PICTURE.convert("CMYK"), quality=75), None)),
    ("kJpegYcck", adobe(jpeg(PICTURE.convert("CMYK"), quality=75), 2)),
    # Files that libjpeg warns of. Nothing that pixels are made of is missing.
    ("kJpegBytesBeforeEnd", PLAIN[:-2] + b"\x12\x34" * 20 + PLAIN[-2:]),
    ("kJpegBytesBeforeTables", PLAIN[:20] + b"\x12\x34" * 5 + PLAIN[20:]),
    ("kJpegRevision0", PLAIN[:11] + b"\0\0" + PLAIN[13:]),
    ("kJpegZerosForEnd", PLAIN[:-2] + bytes(64)),
    ("kJpegWithoutEnd", PLAIN[:-2]),
    ("kJpegOddScan", odd_scan(PLAIN)),
    ("kJpegScans", jpeg(PICTURE, quality=75, progressive=True)),
    ("kWebpLossy", webp(PICTURE, quality=75)),
    ("kWebpLossless", webp(PICTURE, lossless=True)),
    ("kWebpAlpha", webp(CLEAR, lossless=True, exact=True)),
    ("kWebpLossyAlpha", webp(CLEAR, quality=75, exact=True)),
]
TWINS = {"kPngGrey16": png(GREY, 8, [GREEN]), "kJpegWithoutEnd": PLAIN}

print(f"""// Made by golden_image_kinds.py with Pillow {PIL.__version__}; do not edit.
#pragma once

#include <cstdint>

namespace lathe::data::golden {{

// clang-format off""")
table = []
for name, data in FILES:
    print(f"inline constexpr uint8_t {name}[] = {{")
    for k in range(0, len(data), 24):
        print("    " + ",".join(str(byte) for byte in data[k:k + 24]) + ",")
    print("};")
    pixels = fnv(Image.open(io.BytesIO(TWINS.get(name, data))).convert("RGB"))
    table.append(f'    {{"{name}", {name}, sizeof {name}, 0x{pixels:016x}}},')
print(f"""
struct ImageKind {{
  const char* name;
  const uint8_t* bytes;
  int64_t size;
  uint64_t pixels;  // their hash
}};

inline constexpr int64_t kKindHeight = {HEIGHT}, kKindWidth = {WIDTH};

inline constexpr ImageKind kImageKinds[] = {{""")
print("\n".join(table))
print("""};
// clang-format on

}  // namespace lathe::data::golden""")
