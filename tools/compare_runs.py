"""What differs between two folders of trainings that two programs left: the comparison of tools/same_training.py."""
import csv
import difflib
import json
import math
import pathlib
import re
import struct
from typing import NamedTuple


class Change(NamedTuple):
    """What a commit changed on purpose. Its patterns match whole lines, from which plain_lines() has taken the times."""
    commit: str
    why: str
    old: str = "(?!)"  # lines that only the older program says
    new: str = "(?!)"  # lines that only the newer program says
    results: tuple = ()  # settings in which numbers differ, because a defect was mended


class Comparison:
    """Compares two folders. `differences` are the texts of what differs, `explained` the changes that account for the rest,
    `compared` how many things of each kind were looked at."""

    def __init__(self, setting, changes=()):
        self.setting, self.changes = setting, changes
        self.differences, self.explained, self.compared = [], [], {}

    def folders(self, old, new):
        files = [{plain_name(path.relative_to(top).as_posix()): path for path in sorted(top.rglob("*")) if path.is_file()}
                 for top in (old, new)]
        for who, names in (("OLD", files[0].keys() - files[1].keys()), ("NEW", files[1].keys() - files[0].keys())):
            if names:
                self.differences.append(f"only {who} has {', '.join(sorted(names))}")
        for name in sorted(files[0].keys() & files[1].keys()):
            try:
                self.file(name, files[0][name], files[1][name])
            except (ValueError, KeyError, struct.error) as error:
                self.differences.append(f"{name} cannot be compared: {error!r}")
        return self

    def file(self, name, old, new):
        base, suffix = pathlib.PurePath(name).name, pathlib.PurePath(name).suffix
        if suffix == ".safetensors":
            self.checkpoints(name, read_checkpoint(old), read_checkpoint(new))
        elif base.startswith("metrics"):
            read = metrics_of_csv if suffix == ".csv" else metrics_of_json
            self.rows(name, read(old.read_text()), read(new.read_text()))
        elif base.startswith("events.out"):
            self.rows(name, records_of(old.read_bytes()), records_of(new.read_bytes()))
        elif base in ("trace.json", "op_table.txt"):  # consist of times
            self.count("profiles")
        elif suffix in (".stdout", ".stderr", ".code", ".toml", ".txt") or base == "env.json":
            self.lines(name, plain_lines(old.read_text()), plain_lines(new.read_text()))
        else:
            self.count("other files")
            if old.read_bytes() != new.read_bytes():
                self.differences.append(f"{name} has other bytes")

    def checkpoints(self, name, old, new):
        (old_tensors, old_metadata), (new_tensors, new_metadata) = old, new
        self.count("checkpoints")
        self.count("tensors", len(old_tensors))
        names = [*old_tensors, *(n for n in new_tensors if n not in old_tensors)]
        other = [n for n in names if old_tensors.get(n) != new_tensors.get(n)]
        if other:
            pairs = [(old_tensors.get(n), new_tensors.get(n)) for n in other]
            more = f"; so do {len(other) - 1} more of {len(names)} tensors" if len(other) > 1 else ""
            self.differ(f"{name}: {other[0]} {how_tensors_differ(*pairs[0])}{more}", all(a and b and a[:2] == b[:2] for a, b in pairs))
        elif list(old_tensors) != list(new_tensors):
            self.differences.append(f"{name}: the tensors are in another order")
        for key in sorted(old_metadata.keys() | new_metadata.keys()):
            lines = [plain_lines(metadata[key]) if key in metadata else [] for metadata in (old_metadata, new_metadata)]
            self.lines(f"{name}: metadata {key}", *lines)

    def rows(self, name, old, new):
        self.count("rows of metrics", len(old))
        if len(old) != len(new):
            self.differences.append(f"{name}: {len(old)} rows and {len(new)}")
        for number, (a, b) in enumerate(zip(old, new), 1):
            if a != b:
                alike = isinstance(a, dict) and list(a) == list(b)
                if alike:
                    a, b = ({key: row[key] for key in row if a[key] != b[key]} for row in (a, b))
                return self.differ(f"{name}, row {number}:\n      old {a}\n      new {b}", alike)

    def lines(self, name, old, new):
        """Each line that differs must be in a change, or differ in numbers alone where these may differ."""
        self.count("lines", len(old))
        for kind, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
            if kind == "equal":
                continue
            left = [line for line in old[a:b] if not self.explain_line(line, "old")]
            right = [line for line in new[c:d] if not self.explain_line(line, "new")]
            if left or right:
                shown = "".join(f"\n      {who} {line}" for who, lines in (("old", left), ("new", right)) for line in lines[:3])
                self.differ(f"{name}, line {a + 1}:{shown}", [*map(without_numbers, left)] == [*map(without_numbers, right)])

    def count(self, kind, number=1):
        self.compared[kind] = self.compared.get(kind, 0) + number

    def differ(self, text, in_numbers_alone):
        """Notes a difference, unless it is one of numbers that a change explains."""
        change = next((c for c in self.changes if self.setting in c.results), None) if in_numbers_alone else None
        if change:
            self.explain(change)
        else:
            self.differences.append(text)

    def explain_line(self, line, side):
        change = next((c for c in self.changes if re.fullmatch(getattr(c, side), line)), None)
        if change:
            self.explain(change)
        return change is not None

    def explain(self, change):
        if change not in self.explained:
            self.explained.append(change)


# ---- files without what differs from run to run -------------------------------------------------------------------------

def plain_name(name):
    """TensorBoard's events.out.tfevents.TIME.HOST.PROCESS.N without the three."""
    return re.sub(r"(events\.out\.tfevents)\.\d+\..*\.\d+\.(\d+)$", r"\1.\2", name)


# Times, rates, and memory, which depends on what threads read and save meanwhile.
IS_TIMED = re.compile(r"seconds|time|memory_.*|.*_per_second|.*_wait")


def without_times(row):
    return {key: "…" if key and IS_TIMED.fullmatch(key) else value for key, value in row.items()}


def metrics_of_json(text):
    return [without_times(json.loads(line)) for line in text.splitlines()]


def metrics_of_csv(text):
    return [without_times(row) for row in csv.DictReader(text.splitlines())]


def records_of(data):
    """The events of TensorBoard's file, without rates and memory. A record is the length, u64, a CRC, the event and a CRC. An
    event's first field is its time, a double (tag 9)."""
    events, at = [], 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        event = data[at + 12:at + 12 + length]
        at += 16 + length
        if not re.search(rb"_per_second|memory", event):
            events.append(event[9:] if event[:1] == b"\x09" else event)
    return events


PLAIN = [(re.compile(pattern), to) for pattern, to in (
    (r"^(\[\d+\] )?\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ", r"\1"),  # of a line in log.txt
    (r"\b\d+:\d\d(:\d\d)?\b", "TIME"),
    (r"\b[\d.]+ % of training waited for data", "… % of training waited for data"),
    (r"\b[\d.,]+ (img/s|images/s|ms|s)\b", r"… \1"),
    (r'("revision": )"[^"]*"', r'\1"…"'),
)]


def plain_lines(text):
    """Lines without times and rates, and without those that say every few seconds how far an epoch is. Those of one rank stand after
    those of another, because ranks write when they can."""
    lines = []
    for line in text.splitlines():
        if re.match(r"(\[\d+\] )?epoch .*  ETA ", line):
            continue
        if line.startswith('{"') and line.endswith("}"):
            line = json.dumps(without_times(json.loads(line)))
        for pattern, to in PLAIN:
            line = pattern.sub(to, line)
        lines.append(line)
    rank = re.compile(r"\[\d+\] ")
    return sorted(lines, key=lambda line: (rank.match(line) or [""])[0])


def without_numbers(line):
    return re.sub(r"\d[\d.]*(e[+-]?\d+)?", "#", line)


# ---- checkpoints --------------------------------------------------------------------------------------------------------

def read_checkpoint(path):
    """→ {name: (dtype, shape, bytes)} in the file's order, and the metadata without the checksum of everything."""
    data = path.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + length])
    metadata = header.pop("__metadata__", {})
    metadata.pop("lathe.crc32c", None)
    values = memoryview(data)[8 + length:]
    return {name: (entry["dtype"], entry["shape"], values[slice(*entry["data_offsets"])]) for name, entry in header.items()}, metadata


def how_tensors_differ(old, new):
    if old is None or new is None:
        return f"is missing in {'OLD' if old is None else 'NEW'}"
    if old[:2] != new[:2]:
        return f"is {old[0]}{old[1]} and {new[0]}{new[1]}"
    size = len(old[2]) // max(1, math.prod(old[1]))
    begins = [i for i in range(0, len(old[2]), size) if old[2][i:i + size] != new[2][i:i + size]]
    letter = {"F64": "d", "F32": "f", "F16": "e", "I64": "q", "I32": "i", "U8": "B", "BOOL": "?"}.get(old[0])
    a, b = (struct.unpack_from(f"<{letter}", t[2], begins[0])[0] if letter else t[2][begins[0]:begins[0] + size].hex() for t in (old, new))
    return f"{old[0]}{old[1]} differs in {len(begins)} elements, first in number {begins[0] // size}: {a} and {b}"
