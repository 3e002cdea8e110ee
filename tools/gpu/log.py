"""The log of gpu_check.py: one file to which programs and gpu_check append, and from which every report is made.

Programs write to it themselves, without a pipe between: what one has printed is in the file, whoever is killed next. gpu_check
adds its own events, a line each: "#! " and a JSON object, whose "event" is

    run       commit, date, command               the first line
    step      step, budget                        a step begins
    command   name, row                           a program begins; each row that it prints gets the keys of `row`
    ended     name, seconds, exit_code            it has ended
    test      name, exit_code, counts             one source file of a test program
    text      name, text                          what the report quotes
    result    result, seconds                     the step has ended
    left      step, why                           a step that was not begun

A row is a line with a JSON object that has "bench" or "losses_agree". A line that a kill cut short is no row.
"""
import json
import os

MARK = "#! "


class Log:
    def __init__(self, path):
        self.path = path
        self.file = open(path, "ab", buffering=0)  # O_APPEND: a write goes behind what programs wrote meanwhile

    def event(self, kind, **fields):
        # One write, so that a kill cuts it nowhere; the first newline ends what a killed program left of a line.
        self.say(f"\n{MARK}{json.dumps({'event': kind, **fields})}")

    def say(self, text):
        self.file.write((text.rstrip("\n") + "\n").encode(errors="replace"))

    def size(self):
        return os.path.getsize(self.path)

    def since(self, begin):
        with open(self.path, "rb") as file:
            file.seek(begin)
            return file.read().decode(errors="replace")


def parse(line):
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def row_of(line):
    """The row that a line holds, or None."""
    found = parse(line) if line.startswith("{") and line.endswith("}") else None
    return found if found and ("bench" in found or "losses_agree" in found) else None


def read(path):
    """Yields (kind, fields) for each event and, with the kind "row", each row, in their order."""
    if not path.exists():
        return
    more = {}
    with open(path, errors="replace") as file:
        for line in file:
            line = line.rstrip("\n")
            if line.startswith(MARK):
                fields = parse(line[len(MARK):])
                if fields is None:
                    continue
                kind = fields.pop("event")
                more = fields.pop("row") if kind == "command" else more
                yield kind, fields
            elif (row := row_of(line)) is not None:
                yield "row", row | more
