"""What the tests share: a small run, what runs leave behind, and what `lathe info` says."""
import json
import pathlib
import struct
import zlib

from driver import SANITIZED, expect, lathe

SIZE, SIDE = 600, 8 if SANITIZED else 16
TINY = ["--dataset", "synthetic", "--synthetic-size", SIZE, "--model", "resnet8", "--batch-size", 50, "--image-size", SIDE]


def train(*arguments, **options):
    return lathe("train", *TINY, *arguments, **options)


def rows_of(run, split=None):
    rows = [json.loads(line) for line in (pathlib.Path(run) / "metrics.jsonl").read_text().splitlines()]
    return [row for row in rows if split in (None, row["split"])]


def safetensors_header(path):
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    end = max(entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__")
    assert len(data) == 8 + length + end, "the file ends where the last entry does"
    return header


def values_of(path, prefix):
    """The entries of a checkpoint whose names begin so, without that, each as a list of numbers."""
    data = pathlib.Path(path).read_bytes()
    begin = 8 + struct.unpack("<Q", data[:8])[0]
    letters = {"F64": "d", "F32": "f", "I64": "q", "I32": "i", "U8": "B", "BOOL": "?"}
    values = {}
    for name, entry in safetensors_header(path).items():
        if name.startswith(prefix) and name != "__metadata__":
            first, end = entry["data_offsets"]
            numbers = struct.iter_unpack("<" + letters[entry["dtype"]], data[begin + first:begin + end])
            values[name[len(prefix):]] = [number for number, in numbers]
    return values


def write_safetensors(path, tensors, metadata):
    """One-dimensional f32 tensors by name (https://github.com/huggingface/safetensors, "Format")."""
    header, values = {"__metadata__": metadata} if metadata else {}, b""
    for name, numbers in tensors.items():
        begin = len(values)
        values += struct.pack(f"<{len(numbers)}f", *numbers)
        header[name] = {"dtype": "F32", "shape": [len(numbers)], "data_offsets": [begin, len(values)]}
    text = json.dumps(header).encode()
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + values)


def crc32c(data):
    """CRC-32C of RFC 3720, appendix B.4, a bit at a time."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def write_png(path, width, rows):
    """Rows of 8-bit RGB as a PNG file (W3C, Portable Network Graphics)."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, len(rows), 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + row for row in rows))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b""))


def info_rows(**env):
    return [json.loads(line) for line in expect(lathe("info", "--json", env=env), 0).stdout.splitlines()]
