#!/usr/bin/env python3
"""Reports and events: what shows a run to people, seen from outside.

    report_test.py LATHE [--sanitized]
"""
import collections
import html.parser
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import time
import zlib

from driver import Skip, expect, expect_one_line, lathe, main, start
from runs import TINY, crc32c, rows_of, train, write_png

HOSTILE = '<img src=x onerror=alert(1)>\'"&\u202e'


class Page(html.parser.HTMLParser):
    """What a page has: its tags, attributes and text. Fails if tags are not closed in order."""
    EMPTY = {"meta", "link", "img", "br"}

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.text, self.open = [], [], "", []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, (tag, self.open)

    def handle_data(self, data):
        self.text += data


def read_png(path):
    """(width, height, channels) and the colours of all pixels of an 8-bit picture that is not interlaced."""
    data, at, packed = pathlib.Path(path).read_bytes(), 8, b""
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        if kind == b"IHDR":
            width, height, depth, colours, *_, interlaced = struct.unpack(">2I5B", data[at + 8:at + 21])
            assert depth == 8 and colours in (2, 6) and not interlaced, (depth, colours, interlaced)
        packed += data[at + 8:at + 8 + size] if kind == b"IDAT" else b""
        at += size + 12
    channels = 3 if colours == 2 else 4
    raw, stride, pixels = zlib.decompress(packed), width * channels, []
    above = bytearray(stride)
    for y in range(height):
        row = bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        undo_filter(raw[y * (stride + 1)], row, above, channels)
        pixels += zip(row[0::channels], row[1::channels], row[2::channels])
        above = row
    return (width, height, channels), pixels


def undo_filter(kind, row, above, channels):
    """https://www.w3.org/TR/png/#9Filters"""
    for i in range(len(row) if kind else 0):
        left, up, corner = (row[i - channels], above[i], above[i - channels]) if i >= channels else (0, above[i], 0)
        near = min((left, up, corner), key=lambda value: abs(left + up - corner - value))
        row[i] = (row[i] + (left, up, (left + up) // 2, near)[kind - 1]) & 255


def page_of(path):
    text = pathlib.Path(path).read_text()
    page = Page(text)
    assert "script" not in page.tags and not [name for name, _ in page.attributes if name.startswith("on")]
    elsewhere = [value for name, value in page.attributes if name in ("src", "href") and not value.startswith("data:")]
    assert not elsewhere and "url(" not in text and "@import" not in text, elsewhere
    return page


def test_a_run_has_a_page(folder):
    expect(train("--epochs", 2, "--log-every", 2, "--run-dir", "a", "--profile", "--profile-steps", "4:8"), 0)
    result = expect(lathe("report", "a", "--quiet"), 0)
    assert result.stdout.startswith("a/report.html: "), result.stdout
    page = page_of("a/report.html")
    best = max(row["accuracy"] for row in rows_of("a", "val"))
    assert f"{100 * best:.2f} %" in page.text and "resnet8 on synthetic" in page.text
    paths = [value for name, value in page.attributes if name == "d" and value.startswith("M")]
    assert page.tags.count("title") >= 5 and max(map(len, paths)) > 50, "charts that are not empty"
    assert "learning rate" in page.text.lower() and "batch-size" in page.text and "usable_cpus" in page.text
    memory = max(row["memory_peak_bytes"] for row in rows_of("a")) / 2**20
    assert f"memory at the peak {round(memory, 2):g} MiB" in " ".join(page.text.split()) and "Memory, MiB" in page.text, memory
    legend = page.text[page.text.rindex("Memory, MiB"):]
    assert legend.index("\u2501 all") < legend.index("\u2501 activations"), legend
    assert "Time of the ops" in page.text and "conv2d" in page.text and "Self CPU" in page.text
    counts = [int(text) for text in re.findall(r'padding:0 \.3em">(\d+)<', pathlib.Path("a/report.html").read_text())]
    assert sum(counts) == 120, "the confusion matrix has every test image once"
    wrong = 120 - round(120 * best)
    images = [value for name, value in page.attributes if name == "src"]
    assert len(images) == min(wrong, 24) and all(image.startswith("data:image/png;base64,") for image in images), len(images)
    expect(lathe("report", "a", "--no-evaluate", "--output", "b.html", "--json"), 0)
    assert "padding:0 .3em" not in pathlib.Path("b.html").read_text()
    expect(lathe("report", "a", "--no-evaluate", "--output", "b.html"), 0)  # its own page is replaced
    pathlib.Path("c.html").write_text("<!DOCTYPE html>\nmine")
    expect_one_line(lathe("report", "a", "--output", "c.html"), 2, "--output c.html: this file does not begin with")


def test_runs_side_by_side(folder):
    for run, lr in (("a", 0.05), ("b", 0.01)):
        expect(train("--epochs", 1, "--lr", lr, "--run-dir", run, "--quiet"), 0)
    expect(lathe("report", "a", "b"), 0)
    page = page_of("report.html")
    assert "2 runs compared" in page.text and "0.05" in page.text and "0.01" in page.text
    assert "momentum" not in page.text, "settings that are the same are left out"
    for run in ("a", "b"):
        assert f"{100 * rows_of(run, 'val')[0]['accuracy']:.2f} %" in page.text


def test_what_is_missing_or_cut_off_is_said(folder):
    expect(train("--epochs", 1, "--run-dir", "a", "--quiet"), 0)
    metrics = pathlib.Path("a/metrics.jsonl").read_text()
    pathlib.Path("a/metrics.jsonl").write_text("no row\n" + metrics[:-20])
    pathlib.Path("a/env.json").unlink()
    pathlib.Path("a/config.toml").write_text("[section]\n")
    (pathlib.Path("a") / "best.safetensors").write_bytes(b"short")
    expect(lathe("report", "a"), 0)
    text = page_of("a/report.html").text
    for remark in ("2 of ", "the first of them line 1", "still being written, or was cut off", "env.json is missing",
                   "config.toml:1: sections are not used here", "could not be evaluated"):
        assert remark in text, (remark, text[:2000])
    shown = expect(lathe("watch", "a", "--once"), 0).stdout  # the same, on the terminal
    assert "2 of " in shown and "env.json is missing." in shown, shown
    for name in ("metrics.jsonl", "log.txt"):
        pathlib.Path("a", name).unlink()
    pathlib.Path("a/metrics.jsonl").mkdir()
    os.symlink("log.txt", "a/log.txt")
    assert "metrics.jsonl cannot be read: a/metrics.jsonl: is no regular file" in expect(lathe("watch", "a", "--once"), 0).stdout
    remarks = json.loads(expect(lathe("watch", "a", "--once", "--json"), 0).stdout)["remarks"]
    assert "metrics.jsonl cannot be read" in remarks and "log.txt cannot be read: a/log.txt: cannot look at: " in remarks, remarks
    os.symlink("loop", "loop")
    for command in ("watch", "report"):
        expect_one_line(lathe(command, "loop"), 3, "loop: cannot look at: Too many levels of symbolic links")
    pathlib.Path("begun").mkdir()
    pathlib.Path("begun/log.txt").write_text("")
    pathlib.Path("begun/metrics.jsonl").mkdir()
    expect(lathe("report", "begun"), 0)
    assert "There are no metrics to draw" in page_of("begun/report.html").text
    pathlib.Path("empty").mkdir()
    (folder / "other/b").mkdir(parents=True)
    expect_one_line(lathe("report", "empty"), 3, "lathe: empty: is an empty folder, and no run")
    expect_one_line(lathe("report", "other"), 3, "lathe: other: holds no run")
    expect_one_line(lathe("report", "nowhere"), 3, "lathe: nowhere: there is no such folder")
    expect_one_line(lathe("report", "a", "--output", "no/where.html"), 1, "no/where.html")


def test_a_run_that_was_ended_before_its_end_is_called_unfinished(folder):
    """Also where its last row is that of an evaluation. A time limit, or patience, may have ended it there."""
    expect(train("--epochs", 1, "--run-dir", "a", "--quiet"), 0)
    whole = pathlib.Path("a/config.toml").read_text()
    said = "This run stopped before its end, at step 12 in epoch 1 of 3. No process on this machine is training it."
    for change, ended in (("epochs = 1", True), ("epochs = 3", False), ("epochs = 3\ntime-limit = 60", True), ("epochs = 3\nearly-stopping = 2", True)):
        lines = [line for line in whole.splitlines() if line.split(" = ")[0] not in [new.split(" = ")[0] for new in change.splitlines()]]
        pathlib.Path("a/config.toml").write_text("\n".join([*lines, change, ""]))
        expect(lathe("report", "a", "--no-evaluate"), 0)
        assert (said not in page_of("a/report.html").text) == ended, change


def test_hostile_names_are_text(folder):
    for part, count in (("train", 6), ("test", 3)):
        for name in (HOSTILE.replace("/", ""), "b\n[31m"):
            kind = pathlib.Path("pets", part, name)
            kind.mkdir(parents=True)
            for i in range(count):
                write_png(kind / f"{i}.png", 8, [bytes(24)] * 8)
    run = f"run{HOSTILE.replace('/', '')}"
    flags = ["--dataset", "folder", "--data-root", "pets", "--image-size", 16, "--model", "resnet8", "--batch-size", 4, "--quiet"]
    expect(lathe("train", *flags, "--epochs", 1, "--run-dir", run), 0)
    expect(lathe("report", run), 0)
    page = page_of(pathlib.Path(run, "report.html"))
    raw = pathlib.Path(run, "report.html").read_text()
    assert "<img src=x" not in raw and "\u202e" not in raw and "<img src=x onerror=alert(1)>'\"&\\u202e" in page.text, page.text[:500]


def test_a_browser_shows_it(folder):
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if not browser:
        raise Skip("there is no Chromium")
    expect(train("--epochs", 2, "--run-dir", "a", "--quiet"), 0)
    expect(lathe("report", "a"), 0)
    for width, dark in ((1280, 0), (390, 1)):
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--window-size={width},900",
                   "--user-data-dir=profile", "--log-net-log=net.json", "--enable-logging=stderr", "--dump-dom",
                   "--hide-scrollbars", f"--blink-settings=preferredColorScheme={1 - dark}", "--screenshot=page.png",
                   pathlib.Path("a/report.html").resolve().as_uri()]
        result = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert result.returncode == 0 and "</html>" in result.stdout, result.stderr
        assert "CONSOLE" not in result.stderr, result.stderr
        asked = re.findall(r'"url":"((?:https?|wss?)://[^"]*)"', pathlib.Path("net.json").read_text())
        assert not [url for url in asked if "report" in url], asked
        (shown, *_), pixels = read_png("page.png")
        assert shown == width, shown
        counts = collections.Counter(pixels)
        (page, most), = counts.most_common(1)
        assert page == ((0x18,) * 3 if dark else (255,) * 3) and most > len(pixels) / 2, (page, most)
        blue = sum(n for (r, g, b), n in counts.items() if b > r + 50)  # lines of the training, thin ones blend with the page
        orange = sum(n for (r, g, b), n in counts.items() if r > b + 50)  # and of its evaluations
        assert blue > 200 and orange > 100, (width, blue, orange)


def events_of(path):
    """(step, tag, value) of the scalars, and the tags of the other events; every checksum must be right."""
    def masked(data):
        crc = crc32c(data)
        return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF

    def fields(data):
        at, out = 0, []
        def varint():
            nonlocal at
            value = shift = 0
            while True:
                byte = data[at]
                at += 1
                value |= (byte & 0x7F) << shift
                shift += 7
                if byte < 0x80:
                    return value
        while at < len(data):
            tag = varint()
            if tag % 8 == 0:
                out.append((tag >> 3, varint()))
                continue
            size = {1: 8, 5: 4}.get(tag % 8) or varint()
            out.append((tag >> 3, data[at:at + size]))
            at += size
        return dict(out)

    data, scalars, others = path.read_bytes(), [], set()
    while data:
        (size,) = struct.unpack("<Q", data[:8])
        assert struct.unpack("<I", data[8:12])[0] == masked(data[:8])
        event, data = data[12:12 + size], data[12 + size:]
        assert struct.unpack("<I", data[:4])[0] == masked(event)
        data = data[4:]
        event = fields(event)
        if 5 not in event:
            others.add("start" if 7 in event else event[3].decode())
            continue
        value = fields(fields(event[5])[1])
        if 2 in value:
            scalars.append((event.get(2, 0), value[1].decode(), struct.unpack("<f", value[2])[0]))
        else:
            others.add(value[1].decode())
    return scalars, others


def test_tensorboard_gets_the_metrics(folder):
    expect(train("--epochs", 1, "--run-dir", "a", "--tensorboard", "--log-every", 4, "--quiet"), 0)
    (first,) = pathlib.Path("a").glob("events.out.tfevents.*")
    scalars, others = events_of(first)
    assert others >= {"brain.Event:2", "conv1.weight", "fc.bias", "gradients/conv1.weight", "gradients/fc.bias"}, others
    assert {f"gradients/{tag}" for tag in others if tag.endswith((".weight", ".bias")) and "/" not in tag} == {tag for tag in others if "gradients/" in tag}
    expected = [(row["step"], f"{name}/{row['split']}", row[name]) for row in rows_of("a") for name in ("loss", "accuracy", "memory_peak_bytes")]
    written = [it for it in scalars if "/" in it[1]]
    assert [it[:2] for it in written] == [it[:2] for it in expected], (written, expected)
    assert all(abs(a[2] - b[2]) <= 1e-6 * abs(b[2]) for a, b in zip(written, expected))
    assert {it[1] for it in scalars} >= {"lr", "images_per_second"}
    expect(train("--epochs", 2, "--run-dir", "a", "--resume", "auto", "--tensorboard", "--log-every", 4, "--quiet"), 0)
    (second,) = set(pathlib.Path("a").glob("events.out.tfevents.*")) - {first}
    more, others = events_of(second)
    assert "start" in others and min(it[0] for it in more) > max(it[0] for it in scalars)


def test_watch_shows_a_run_and_ends_with_it(folder):
    process = start("train", *TINY, "--epochs", 1000, "--log-every", 1, "--run-dir", "a", "--quiet")
    metrics = pathlib.Path("a/metrics.jsonl")
    while not metrics.exists() or metrics.read_text().count('"val"') < 2:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    row = json.loads(expect(lathe("watch", "a", "--once", "--json"), 0).stdout)
    assert row["training"] and row["step"] > 0 and 0 < row["part_done"] < 0.5 and row["seconds_since_row"] < 60, row
    text = expect(lathe("watch", "a", "--once"), 0).stdout
    assert "a  resnet8 on synthetic: training, last row " in text and "/1000  step " in text and " ETA " in text and "; best " in text, text
    assert re.search(r"\n  memory at the peak [\d.]+ MiB, \w+ [\d.]+ [KM]iB, ", text), text
    watch = start("watch", "a", "--interval", 0.1)
    expect(lathe("report", "a", "--no-evaluate"), 0)
    assert "This run is still training; the page shows its state at step " in page_of("a/report.html").text
    process.terminate()
    assert process.wait(60) == 143
    expect(lathe("report", "a", "--no-evaluate"), 0)
    remark = re.search(r"This run stopped before its end, at step \d+ in epoch \d+ of 1000\.", page_of("a/report.html").text)
    assert remark, page_of("a/report.html").text[:500]
    assert watch.wait(60) == 0 and "no process on this machine is training it" in watch.stdout.read()
    pathlib.Path("empty").mkdir()
    expect_one_line(lathe("watch", "empty"), 3, "empty: is an empty folder, and no run")


main(globals())
