#!/usr/bin/env python3
"""Data sets of one's own, seen from outside: folders, packed files, broken files, caches.

    data_test.py LATHE [--sanitized]
"""
import hashlib
import json
import os
import pathlib
import random
import struct
import zlib

from driver import Skip, expect, expect_one_line, lathe, main

MODEL = ["--model", "resnet8", "--batch-size", 8, "--seed", 3, "--threads", 1]


def write_png(path, width, height, seed):
    """Noise as a PNG file of 8-bit RGB (W3C, Portable Network Graphics)."""
    noise = random.Random(seed)
    rows = b"".join(b"\0" + noise.randbytes(3 * width) for _ in range(height))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def make_folder(train=10, test=4):
    """images/train and images/test with the classes cat and dog; images/train/cat/1.png is damaged."""
    for part, count in (("train", train), ("test", test)):
        for k in range(count):
            write_png(pathlib.Path("images") / part / ("cat", "dog")[k % 2] / f"{k}.png", 20 + k % 3, 18, k)
    broken = pathlib.Path("images/train/dog/1.png")
    whole = broken.read_bytes()
    broken.write_bytes(whole[:60])
    if "no libpng" in lathe("data", "verify", "images").stdout:
        raise Skip("no libpng")
    return broken, whole


def rows(result):
    return [json.loads(line) for line in result.stdout.splitlines()]


def losses(run):
    lines = (pathlib.Path(run) / "metrics.jsonl").read_text().splitlines()
    return [(row["split"], row["loss"]) for row in map(json.loads, lines)]


def test_a_folder_becomes_a_packed_file_with_the_same_images(folder):
    broken, whole = make_folder()
    prepare = ["data", "prepare", "pets.pack", "--dataset", "folder", "--data-root", "images"]
    expect_one_line(lathe(*prepare), 3, f"{broken}: is a damaged PNG file")
    assert not pathlib.Path("pets.pack").exists()
    done = rows(expect(lathe(*prepare, "--skip-broken", "--json"), 0, f"left out: {broken}"))[0]
    assert (done["train_images"], done["test_images"], done["broken_files"]) == (9, 4, 1), done
    broken.write_bytes(whole)
    expect(lathe(*prepare), 0)
    hashes = {}
    for data in ("images", "pets.pack"):
        verified = rows(expect(lathe("data", "verify", data, "--json"), 0))
        hashes[data] = [row["sha256"] for row in verified if row["event"] == "verified"]
        classes = {(row["part"], row["class"]): row["images"] for row in verified if row["event"] == "class"}
        assert classes == {("train", "cat"): 5, ("train", "dog"): 5, ("test", "cat"): 2, ("test", "dog"): 2}
    assert hashes["images"] == hashes["pets.pack"] and len(set(hashes["images"])) == 2
    assert verified[-1] == {"event": "file", "sha256": hashlib.sha256(pathlib.Path("pets.pack").read_bytes()).hexdigest()}

    train = ["train", *MODEL, "--image-size", 16, "--epochs", 2, "--log-every", 1]
    expect(lathe(*train, "--dataset", "folder", "--data-root", "images", "--run-dir", "a"), 0)
    expect(lathe(*train, "--data-root", "pets.pack", "--augment", "resized-crop,flip", "--run-dir", "b"), 0, "a packed file")
    expect(lathe(*train, "--dataset", "packed", "--data-root", "pets.pack", "--data-cache", "ram", "--run-dir", "c"), 0)
    assert losses("a") == losses("b") == losses("c")
    assert 'data-cache = "none"' in pathlib.Path("b/config.toml").read_text()
    expect(lathe("eval", "--run-dir", "b"), 0)
    os.rename("b", "elsewhere")
    pathlib.Path("home").mkdir()
    expect(lathe("train", "--resume", folder / "elsewhere", "--epochs", 3, cwd="home"), 0)  # finds the file again


def test_images_of_one_size_train_as_those_they_were_made_of(folder):
    synthetic = ["--dataset", "synthetic", "--synthetic-size", 24, "--image-size", 16, "--seed", 3]
    expect(lathe("data", "prepare", "shapes.pack", *synthetic), 0)
    train = ["train", *MODEL, "--augment", "crop,flip", "--epochs", 1, "--log-every", 1]
    expect(lathe(*train, *synthetic, "--run-dir", "a"), 0)
    expect(lathe(*train, "--data-root", "shapes.pack", "--run-dir", "b"), 0)
    assert losses("a") == losses("b")
    assert "image-size = 16" in pathlib.Path("b/config.toml").read_text()


def test_broken_files_are_skipped_named_and_counted(folder):
    broken, _ = make_folder()
    train = ["train", "--dataset", "folder", "--data-root", "images", *MODEL, "--image-size", 16, "--epochs", 2]
    expect(lathe(*train, "--run-dir", "a"), 3, f"{broken}: is a damaged PNG file")
    result = expect(lathe(*train, "--skip-broken", "--run-dir", "b", "--json"), 0, f"skipped {broken}")
    assert rows(result)[-1]["broken_files"] == 1 and result.stderr.count("skipped") == 1
    assert f"skipped {broken}" in pathlib.Path("b/log.txt").read_text()
    evaluated = rows(expect(lathe("eval", "--run-dir", "b", "--split", "train", "--skip-broken", "--json"), 0))
    assert evaluated[0]["broken_files"] == 1 and evaluated[0]["images"] == 10
    read = ["bench", "loader", "--dataset", "folder", "--data-root", "images", "--image-size", 16, "--batch-size", 4, "--json"]
    result = expect_one_line(lathe(*read, "--skip-broken"), 0, f"skipped {broken}")
    assert rows(result)[0]["images_per_second"] > 0 and rows(result)[0]["broken_files"] == 1

    broken.unlink()
    broken.symlink_to("nowhere.png")  # an error of a file, not of its content
    for command in (read, ["find-workers", *read[2:]], ["eval", "--run-dir", "b", "--split", "train", "--no-skip-broken"],
                    ["predict", "--run-dir", "b", "--split", "train", "--index", "0:10", "--no-skip-broken"]):
        expect_one_line(lathe(*command), 3, f"{broken}: No such file")
    expect_one_line(lathe("bench", "loader", "--data-cache", "gpu"), 2, "--data-cache gpu")


def crc32c(data):
    """CRC-32C of RFC 3720, appendix B.4, a bit at a time."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_a_packed_file_may_hold_one_part_alone(folder):
    broken, whole = make_folder()
    broken.write_bytes(whole)
    expect(lathe("data", "prepare", "p", "--dataset", "folder", "--data-root", "images", "--image-size", 4), 0)
    data = pathlib.Path("p").read_bytes()
    images, train, pixels = struct.unpack("<QQQ", data[-48:-24])
    assert (images, train) == (14, 10)
    for name, part, count in (("train", 14, 14), ("test", 0, 14)):
        tail = data[-48:-40] + struct.pack("<Q", part) + data[-32:-8]
        directory = data[:16] + data[16 + pixels:-48] + tail
        pathlib.Path(name).write_bytes(data[:-48] + tail + struct.pack("<I", crc32c(directory)) + data[-4:])
        verified = rows(expect(lathe("data", "verify", name, "--json"), 0))
        assert [(row["part"], row["images"]) for row in verified if row["event"] == "verified"] == [(name, count)]
        again = rows(expect(lathe("data", "prepare", "again", "--dataset", "packed", "--data-root", name, "--json"), 0))[0]
        assert (again["train_images"], again["test_images"]) == ((14, 0) if name == "train" else (0, 14))
        assert pathlib.Path("again").read_bytes() == pathlib.Path(name).read_bytes()


def test_verify_names_every_broken_file(folder):
    broken, whole = make_folder()
    other = pathlib.Path("images/test/cat/0.png")
    other.write_bytes(b"no image")
    result = expect_one_line(lathe("data", "verify", "images"), 7, "2 images of images are broken")
    assert f"broken   {broken}: is a damaged PNG file" in result.stdout and f"broken   {other}: is neither JPEG nor PNG" in result.stdout
    assert "4 images, 1 broken" in result.stdout  # dog of train
    expect(lathe("data", "verify", "images/test"), 7, "1 images")
    broken.write_bytes(whole)
    other.unlink()
    expect(lathe("data", "verify", "images"), 0)

    expect(lathe("data", "prepare", "p", "--dataset", "folder", "--data-root", "images", "--image-size", 12), 0)
    data = pathlib.Path("p").read_bytes()
    pathlib.Path("p").write_bytes(data[:100] + b"?" + data[101:])
    damaged = expect_one_line(lathe("data", "verify", "p"), 7, "1 images of p are broken")
    assert "p: record 0 (12x12, class cat) is damaged" in damaged.stdout
    expect(lathe("train", "--dataset", "packed", "--data-root", "p", *MODEL, "--run-dir", "a"), 3, "p: record 0 (12x12, class cat) is damaged")
    pathlib.Path("p").write_bytes(data[:-1])
    expect_one_line(lathe("data", "verify", "p"), 7, "p: does not end as a packed file")
    expect_one_line(lathe("train", "--data-root", "p", *MODEL), 3, "p: does not end as a packed file")
    expect_one_line(lathe("train", "--dataset", "packed", "--data-root", "q", *MODEL), 3, "q: No such file")
    expect_one_line(lathe("train", "--dataset", "packed", *MODEL), 2, "--data-root FILE")
    expect_one_line(lathe("data", "prepare", "x"), 2, "--dataset")


def test_images_in_their_files_train_as_images_in_memory(folder):
    pixels = random.Random(1)
    for part, count in (("train", 12), ("t10k", 4)):  # http://yann.lecun.com/exdb/mnist: big endian
        (folder / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">4i", 0x803, count, 28, 28) + pixels.randbytes(count * 784))
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">2i", 0x801, count) + bytes(k % 10 for k in range(count)))
    train = ["train", "--dataset", "mnist", "--data-root", ".", *MODEL, "--epochs", 1, "--log-every", 1]
    expect(lathe(*train, "--run-dir", "ram"), 0)
    expect(lathe(*train, "--data-cache", "none", "--run-dir", "none"), 0)
    assert losses("ram") == losses("none") and 'data-cache = "ram"' in pathlib.Path("ram/config.toml").read_text()


main(globals())
