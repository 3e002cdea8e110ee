#!/usr/bin/env python3
"""Data sets of one's own, seen from outside: folders, packed files, broken files, caches.

    data_test.py LATHE [--sanitized] [--save-fault=LIBRARY]
"""
import hashlib
import json
import os
import pathlib
import random
import struct

from driver import Skip, check_shown, expect, expect_one_line, lathe, main, with_fault
from runs import crc32c, write_png

MODEL = ["--model", "resnet8", "--batch-size", 8, "--seed", 3, "--threads", 1]


def noise(width, height, seed):
    """Rows of random RGB."""
    values = random.Random(seed)
    return [values.randbytes(3 * width) for _ in range(height)]


def make_folder(train=10, test=4):
    """images/train and images/test with the classes cat and dog; images/train/dog/1.png is damaged."""
    for part, count in (("train", train), ("test", test)):
        for k in range(count):
            width = 20 + k % 3
            write_png(pathlib.Path("images") / part / ("cat", "dog")[k % 2] / f"{k}.png", width, noise(width, 18, k))
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
    expect(lathe(*train, "--run-dir", "a"), 3, f"{broken}: is a damaged PNG file", "; --skip-broken trains without such files (with --resume also --allow-changes), and "
           "lathe data verify images names them all")
    result = expect(lathe(*train, "--skip-broken", "--run-dir", "b", "--json"), 0, f"skipped {broken}")
    # The first file is read before the training begins, and a shell takes the folder's name as it is said.
    os.rename("images", "my images")
    first = min((folder / "my images/train").glob("*/*.png"))
    whole = first.read_bytes()
    first.write_bytes(b"no image")
    expect(lathe(*["my images" if word == "images" else word for word in train], "--run-dir", "f"), 3, "is neither JPEG, PNG nor WebP; --skip-broken", "lathe data verify 'my images' names them all")
    first.write_bytes(whole)
    os.rename("my images", "images")
    assert rows(result)[-1]["broken_files"] == 1 and result.stderr.count("skipped") == 1
    assert f"skipped {broken}" in pathlib.Path("b/log.txt").read_text()
    one_by_one = [*train, "--skip-broken", "--batch-size", 1, "--epochs", 1, "--workers", 0, "--run-dir", "s"]
    expect(lathe(*one_by_one, "--stop-after", 9), 0)  # of 10; who goes on does not come upon it again
    expect(lathe("train", "--resume", "s"), 0)
    assert f"skipped {broken}" in pathlib.Path("s/log.txt").read_text()
    evaluated = rows(expect(lathe("eval", "--run-dir", "b", "--split", "train", "--skip-broken", "--json"), 0))
    assert evaluated[0]["broken_files"] == 1 and evaluated[0]["images"] == 10
    expect_one_line(lathe("predict", "--run-dir", "b", "--split", "train", "--index", "0:10", "--skip-broken"), 0, f"skipped {folder.resolve() / broken}")
    read = ["bench", "loader", "--dataset", "folder", "--data-root", "images", "--image-size", 16, "--batch-size", 4, "--json"]
    result = expect_one_line(lathe(*read, "--skip-broken"), 0, f"skipped {broken}")
    assert rows(result)[0]["images_per_second"] > 0 and rows(result)[0]["broken_files"] == 1

    broken.unlink()
    broken.symlink_to("nowhere.png")  # an error of a file, not of its content
    sweep = ["find-lr", *read[2:], "--model", "resnet8", "--sweep-steps", 20]
    for command in (read, ["find-workers", *read[2:]], sweep, ["eval", "--run-dir", "b", "--split", "train", "--no-skip-broken"],
                    ["predict", "--run-dir", "b", "--split", "train", "--index", "0:10", "--no-skip-broken"]):
        expect_one_line(lathe(*command), 3, f"{broken}: cannot open: No such file")
    expect(lathe(*sweep, "--skip-broken"), 0, f"skipped {broken}")
    for command in (["bench", "loader"], ["find-workers"]):
        expect_one_line(lathe(*command, "--data-cache", "gpu"), 2, "--data-cache gpu: this command times threads")


def test_where_all_images_are_broken(folder):
    make_folder(4, 2)
    files = sorted(pathlib.Path("images/train").glob("*/*.png"))
    for file in files:
        file.write_bytes(b"no image")
    result = expect_one_line(lathe("data", "verify", "images"), 7, "4 images of images are broken")
    assert all(f"broken   {file}: is neither JPEG, PNG nor WebP" in result.stdout for file in files)
    train = ["train", "--dataset", "folder", "--data-root", "images", *MODEL]
    expect_one_line(lathe(*train, "--skip-broken"), 3, f"none of 4 images can be read; the first: {files[0]}: is neither")
    expect_one_line(lathe(*train), 3, f"lathe: {files[0]}: is neither")
    prepare = ["data", "prepare", "p.pack", "--dataset", "folder", "--data-root", "images", "--skip-broken"]
    expect(lathe(*prepare), 0, "warning: class cat: none of its training images could be read", "warning: class dog: none")
    for file in pathlib.Path("images/test").glob("*/*.png"):
        file.write_bytes(b"")
    pathlib.Path("p.pack").unlink()
    expect(lathe(*prepare), 3, "none of 6 images can be read")
    assert not list(folder.glob("p.pack*"))


def test_prepare_names_a_class_that_is_lost(folder):
    make_folder(4, 2)
    pathlib.Path("images/train/dog/3.png").write_bytes(b"no image")
    result = expect(lathe("data", "prepare", "p.pack", "--dataset", "folder", "--data-root", "images", "--skip-broken"), 0)
    assert [line for line in result.stderr.splitlines() if "class" in line] == ["warning: class dog: none of its training images could be read"]


SYNTHETIC = ["--dataset", "synthetic", "--synthetic-size", 5]


def test_prepare_replaces_packed_files_alone(folder):
    write_png(folder / "photo.png", 4, noise(4, 4, 1))
    photo = pathlib.Path("photo.png").read_bytes()
    for name in ("photo.png", ".", "/dev/null"):
        expect_one_line(lathe("data", "prepare", name, *SYNTHETIC), 2, f"{name} exists and is not a packed file")
    assert pathlib.Path("photo.png").read_bytes() == photo

    expect(lathe("data", "prepare", "a.pack", *SYNTHETIC, "--image-size", 4), 0)
    small = pathlib.Path("a.pack").read_bytes()
    os.link("a.pack", "same.pack")
    os.symlink("a.pack", "link.pack")
    for name in ("a.pack", "same.pack", "link.pack"):
        expect_one_line(lathe("data", "prepare", name, "--dataset", "packed", "--data-root", "a.pack", "--image-size", 1), 2,
                        f"data prepare reads its images from {name}")
    assert pathlib.Path("a.pack").read_bytes() == small
    expect(lathe("data", "prepare", "link.pack", *SYNTHETIC, "--image-size", 6), 0)
    assert pathlib.Path("link.pack").is_symlink() and pathlib.Path("a.pack").stat().st_size > len(small)

    os.symlink("loop.pack", "loop.pack")
    expect_one_line(lathe("data", "prepare", "loop.pack", *SYNTHETIC), 1, "loop.pack: cannot look at: Too many levels")
    assert pathlib.Path("loop.pack").is_symlink()
    expect_one_line(lathe("data", "prepare", "", *SYNTHETIC), 2, 'expected the new file, got ""')
    expect_one_line(lathe("data", "prepare", "b.pack", "c.pack", *SYNTHETIC), 2, 'unexpected argument "c.pack"')


def test_a_signal_at_any_call_of_prepare_leaves_the_whole_file_or_none(folder):
    prepare, codes = ["data", "prepare", "s.pack", *SYNTHETIC, "--image-size", 4, "--threads", 1], []
    expect(lathe(*prepare), 0)
    whole = pathlib.Path("s.pack").read_bytes()
    for n in range(1, 100):
        pathlib.Path("s.pack").unlink(missing_ok=True)
        result = with_fault(f"term:{n}", *prepare)
        if "no such call" in result.stderr:
            break
        codes.append(result.returncode)
        if result.returncode == 143:
            expect_one_line(result, 143, "stopped; no file was written")
            assert not list(folder.iterdir()), n
        else:
            expect(result, 0)
            assert pathlib.Path("s.pack").read_bytes() == whole and len(list(folder.iterdir())) == 1, n
    # Until the content is on the disk; what is left then takes no time: the folder's open, a second
    # fsync, close, rename, the folder's fsync and close.
    assert codes == [143] * (len(codes) - 6) + [0] * 6 and len(codes) > 12, codes


def test_what_verify_and_train_make_of_a_word(folder):
    (folder / "cifar10").mkdir()
    expect_one_line(lathe("data", "verify", "cifar10", "--data-root", "."), 3, "CIFAR-10 not found")
    expect_one_line(lathe("data", "verify", "./cifar10"), 7, "cifar10: has no folders")
    expect_one_line(lathe("data", "verify", "nope/x.pack"), 3, "nope/x.pack: no such file or folder")
    os.mkfifo("pipe")
    for name in ("/dev/zero", "pipe"):
        expect_one_line(lathe("data", "verify", name), 3, f"{name}: is neither a regular file nor a folder")
    (folder / "pets/train/cat").mkdir(parents=True)
    expect(lathe("train", "--data-root", "nope.pack"), 3, "--data-root nope.pack: no such file or folder")
    expect(lathe("train", "--data-root", "pets"), 3, "pets/train/cat: a class without images")
    expect(lathe("train", "--data-root", "cifar10"), 3, "no data set found in --data-root cifar10")


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
    assert f"broken   {broken}: is a damaged PNG file" in result.stdout and f"broken   {other}: is neither JPEG, PNG nor WebP" in result.stdout
    assert "4 images, 1 broken" in result.stdout  # dog of train
    expect(lathe("data", "verify", "images/test"), 7, "1 image of images/test is broken")
    broken.write_bytes(whole)
    other.unlink()
    expect(lathe("data", "verify", "images"), 0)

    expect(lathe("data", "prepare", "p", "--dataset", "folder", "--data-root", "images", "--image-size", 12), 0)
    data = pathlib.Path("p").read_bytes()
    pathlib.Path("p").write_bytes(data[:100] + b"?" + data[101:])
    damaged = expect_one_line(lathe("data", "verify", "p"), 7, "1 image of p is broken")
    assert "p: record 0 (12x12, class cat) is damaged" in damaged.stdout
    expect(lathe("train", "--dataset", "packed", "--data-root", "p", *MODEL, "--run-dir", "a"), 3, "p: record 0 (12x12, class cat) is damaged")
    pathlib.Path("p").write_bytes(data[:-1])
    expect_one_line(lathe("data", "verify", "p"), 7, "p: does not end as a packed file")
    expect_one_line(lathe("train", "--data-root", "p", *MODEL), 3, "p: does not end as a packed file")
    expect_one_line(lathe("train", "--dataset", "packed", "--data-root", "q", *MODEL), 3, "q: cannot open: No such file")
    expect_one_line(lathe("train", "--dataset", "packed", *MODEL), 2, "--data-root FILE")
    expect_one_line(lathe("data", "prepare", "x"), 2, "--dataset")


def test_names_of_classes_and_files_do_not_command_the_terminal(folder):
    evil = "cat\033]0;x\007\n\u202e\u009b31m"
    for part, count in (("train", 4), ("test", 2)):
        for k in range(count):
            write_png(folder / "images" / part / (evil, "dog")[k % 2] / f"{k}.png", 8, noise(8, 8, k))
    (folder / "images/test" / evil / "0\033[2J.png").write_bytes(b"no image")
    escaped = "cat\\x1b]0;x\\x07\\n\\u202e\\u009b31m"
    shown = check_shown(expect(lathe("data", "verify", "images"), 7))
    if "no libpng" in shown.stdout:
        raise Skip("no libpng")
    assert escaped in shown.stdout and "0\\x1b[2J.png: is neither JPEG, PNG nor WebP" in shown.stdout, shown.stdout
    check_shown(lathe("data", "verify", "images", "--json"))
    data = ["--dataset", "folder", "--data-root", "images", "--skip-broken"]
    check_shown(expect(lathe("data", "prepare", "p\033", *data), 0, "0\\x1b[2J.png"))
    expect(lathe("train", *MODEL, *data, "--image-size", 8, "--max-steps", 1, "--run-dir", "a\033"), 0)
    log = (folder / "a\033/log.txt").read_text()
    assert "\033" not in log and "a\\x1b" in log, log
    for command in (["eval"], ["predict", "--index", "0:2"], ["train", "--resume", "a\033", "--epochs", 2]):
        for more in ([], ["--json"]):
            run = [] if command[0] == "train" else ["--run-dir", "a\033", "--split", "train"]
            result = check_shown(expect(lathe(*command, *run, *more), 0))
            assert command[0] == "train" or more or escaped in result.stdout, result.stdout


def test_images_in_their_files_train_as_images_in_memory(folder):
    pixels = random.Random(1)
    for part, count in (("train", 12), ("t10k", 4)):  # http://yann.lecun.com/exdb/mnist: big endian
        (folder / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">4i", 0x803, count, 28, 28) + pixels.randbytes(count * 784))
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">2i", 0x801, count) + bytes(k % 10 for k in range(count)))
    train = ["train", "--dataset", "mnist", "--data-root", ".", *MODEL, "--epochs", 1, "--log-every", 1]
    expect(lathe(*train, "--run-dir", "ram"), 0)
    expect(lathe(*train, "--data-cache", "none", "--run-dir", "none"), 0)
    assert losses("ram") == losses("none") and 'data-cache = "ram"' in pathlib.Path("ram/config.toml").read_text()


def test_a_folder_of_another_layout_is_told_the_wanted_one(folder):
    def fails_with(root, *what):
        expect_one_line(lathe("train", "--dataset", "folder", "--data-root", root, "--model", "resnet8", "--dry-run", "--quiet"), 3, *what)
    for name in ("dog", "cat", ".cache"):
        (folder / "pets" / name).mkdir(parents=True)
    fails_with("pets", "pets: has the folders cat, dog; wanted are train and test (or val), each with a folder of images per class: pets/train/cat/1.jpg, ")
    (folder / "half/train").mkdir(parents=True)
    fails_with("half/train", "half/train: has no folders; wanted are train and test")
    fails_with("nowhere", "nowhere: No such file or directory")


def test_an_image_that_cannot_be_resized_is_named_and_skipped(folder):
    broken, _ = make_folder()
    broken.unlink()
    wide = pathlib.Path("images/test/cat/wide.png")
    write_png(wide, 4000, noise(4000, 1, 5))
    data = ["--dataset", "folder", "--data-root", "images", "--image-size", 16]
    why = "resize: an image of 1x4000 would become one of 18x72000; sides must be 1 to 65536"
    train = ["train", *data, *MODEL, "--epochs", 1]
    for run, more in (("b", []), ("ram", ["--data-cache", "ram"])):
        expect(lathe(*train, *more, "--run-dir", f"{run}-without"), 3, f"sample 2: {wide}: {why}; --skip-broken trains without")
        result = expect(lathe(*train, *more, "--skip-broken", "--run-dir", run), 0, f"skipped {wide}")
        assert "1 broken file skipped" in result.stdout, result
    expect_one_line(lathe("data", "verify", "images"), 7, "1 image of images is broken")
    assert f"broken   {wide}: resize: an image of 1x4000 would become one of 256x1024000" in lathe("data", "verify", "images").stdout
    expect(lathe("data", "verify", "images", "--image-size", 8), 0)  # 9 x 36000
    expect(lathe("predict", "--run-dir", "b", wide), 3, f"skipped {wide}: {why}")
    prepare = ["data", "prepare", "p.pack", *data]
    expect(lathe(*prepare), 0)  # 16 x 64000 is just small enough
    prepare[-1] = 17
    expect_one_line(lathe(*prepare), 3, f"{wide}: resize: an image of 1x4000 would become one of 17x68000")
    assert "1 broken file left out" in expect(lathe(*prepare, "--skip-broken"), 0, f"left out: {wide}: resize").stdout
    # The first image decides the size of the others.
    first = pathlib.Path("images/train/cat/.png").with_name("000.png")
    os.rename(wide, first)
    expect_one_line(lathe(*train, "--augment", "none", "--quiet", "--run-dir", "c"), 3, f"{first}: resize: an image of 1x4000")
    expect(lathe(*train, "--skip-broken", "--augment", "none", "--run-dir", "d"), 0, f"skipped {first}")
    assert expect(lathe("data", "verify", "images"), 7).stdout.count("broken   ") == 1
    for file in pathlib.Path("images").glob("*/*/*.png"):
        write_png(file, 4000, noise(4000, 1, 6))
    expect_one_line(lathe(*train, "--skip-broken", "--augment", "none", "--quiet", "--run-dir", "e"), 3, "none of 10 images can be read; the first: images/train/cat/0")


def test_files_that_are_left_out_are_counted_by_their_endings(folder):
    broken, whole = make_folder()
    broken.write_bytes(whole)
    for name in ("train/cat/1.bmp", "train/cat/2.BMP", "train/dog/3.bmp", "train/dog/more/4.gif", "test/cat/README", "test/list.txt", "test/.hidden.bmp", "test/stray.png"):
        path = folder / "images" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"BM")
    data = ["--dataset", "folder", "--data-root", "images", "--image-size", 16]
    left_out = "left out: 3 .bmp, 1 without an ending, 1 .gif, 1 .png outside of the classes, 1 .txt; images are .jpg, .jpeg, .png and .webp files"
    for split, run in (([], "a"), (["--val-split", 0.3], "b")):  # a folder counts once
        expect(lathe("train", *data, *MODEL, "--max-steps", 1, *split, "--run-dir", run), 0, left_out)
        assert left_out in pathlib.Path(f"{run}/log.txt").read_text()
    expect(lathe("data", "prepare", "p.pack", *data), 0, left_out)
    verified = rows(expect(lathe("data", "verify", "images", "--json"), 0))
    assert [(row["part"], row["detail"][:22]) for row in verified if row["event"] == "left_out"] == [("train", "left out: 3 .bmp, 1 .g"), ("test", "left out: 1 without an")]
    assert "train    left out: 3 .bmp, 1 .gif; images are" in lathe("data", "verify", "images").stdout
    for image in pathlib.Path("images/train/cat").glob("*.png"):
        image.unlink()
    expect_one_line(lathe("train", *data, *MODEL, "--quiet"), 3, "images/train/cat: a class without images (.jpg, .jpeg, .png, .webp); left out: 2 .bmp")


def test_another_version_of_cifar_is_named_with_the_way_to_the_wanted_one(folder):
    (folder / "my data/cifar-10-batches-py").mkdir(parents=True)
    (folder / "archive").mkdir()
    (folder / "archive/cifar-100-python.tar.gz").write_bytes(b"")
    found = "my data/cifar-10-batches-py is the version for Python; the binary version is wanted, a folder cifar-10-batches-bin with data_batch_1.bin"
    fetch = "`lathe data fetch cifar10 --data-root 'my data'`"
    call = ["train", "--model", "resnet8", "--quiet", "--data-root"]
    expect_one_line(lathe(*call, "my data", "--dataset", "cifar10"), 3, f"CIFAR-10 not found in my data; {found}; get it with {fetch}")
    expect_one_line(lathe(*call, "my data"), 3, f"no data set found in --data-root my data ({found}): get one with {fetch}")
    expect_one_line(lathe(*call, "my data/cifar-10-batches-py/", "--dataset", "cifar10"), 3, "cifar-10-batches-py/ is the version for Python")
    expect_one_line(lathe(*call, "archive", "--dataset", "cifar100"), 3, "archive/cifar-100-python.tar.gz is the version for Python; the binary version is wanted, a folder cifar-100-binary")
    expect_one_line(lathe("data", "verify", "cifar10", "--data-root", "my data"), 3, found)


def test_a_class_or_part_that_cannot_be_looked_at_is_not_left_out(folder):
    for part in ("train", "test"):
        for name in ("cat", "dog"):
            write_png(folder / "pets" / part / name / "1.png", 20, noise(20, 18, 1))
    train = ["train", "--data-root", "pets", "--dataset", "folder", "--model", "resnet8", "--dry-run", "--quiet"]
    os.symlink("unmounted.txt", "pets/train/notes.txt")  # it cannot be a class
    expect(lathe(*train), 0)
    for link, target, why in (("train/elk", "/unmounted/elk", "is a symbolic link to /unmounted/elk, which is not there"),
                              ("train/elk", "elk", "Too many levels of symbolic links"),
                              ("val", "/unmounted/val", "is a symbolic link to /unmounted/val")):
        os.symlink(target, f"pets/{link}")
        for call in (train, ["data", "verify", "pets"]):
            expect_one_line(lathe(*call), 3, f"pets/{link}", why)
        os.unlink(f"pets/{link}")


def test_missing_and_truncated_data_exit_3(folder):
    expect_one_line(lathe("train", "--dataset", "cifar10", "--model", "resnet8", "--data-root", folder), 3, "CIFAR-10 not found", str(folder), "lathe data fetch cifar10")
    expect(lathe("train", "--data-root", folder), 3, "lathe data fetch cifar10", "--dataset synthetic")
    for number in range(1, 6):
        (folder / f"data_batch_{number}.bin").write_bytes(bytes(3073 * 10))
    (folder / "test_batch.bin").write_bytes(bytes(1000))
    result = lathe("train", "--dataset", "cifar10", "--model", "resnet8", "--data-root", folder, "--quiet")
    expect_one_line(result, 3, "data_batch_1.bin: has 30730 bytes")
    expect_one_line(lathe("data", "verify", "cifar10", "--data-root", folder), 7, "CIFAR-10")
    expect_one_line(lathe("data", "verify", "cifar11"), 2, "did you mean cifar10?")


main(globals())
