"""What the tests of resuming and of checkpoints share: a run of 21 steps, and what it leaves behind."""
import json
import pathlib

from driver import SANITIZED, lathe

# 7 batches of 8 images are an epoch; the last one has 2.
TINY = ["--dataset", "synthetic", "--synthetic-size", 50, "--model", "resnet8", "--batch-size", 8, "--augment", "crop,flip",
        "--image-size", 8 if SANITIZED else 16, "--threads", 1, "--log-every", 4, "--epochs", 3, "--quiet"]


def train(run, *arguments, **options):
    return lathe("train", *TINY, "--run-dir", run, *arguments, **options)


def config_of(flags):
    """The flags as a config file."""
    words, values = list(flags), {}
    while words:
        key = words.pop(0)[2:]
        is_switch = not words or str(words[0]).startswith("--")
        values[key] = True if is_switch else words.pop(0)  # the last one counts
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())


def is_timed(column):
    """Whether it is a matter of time; so is memory, for batches are read and states copied beside the steps."""
    return column in ("images_per_second", "time") or column.startswith("memory_")


def rows_of(run):
    """Metrics without what is a matter of time."""
    rows = [json.loads(line) for line in pathlib.Path(run, "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if not is_timed(key)} for row in rows]


def log_of(run):
    return pathlib.Path(run, "log.txt").read_text()


def last_of(run):
    return pathlib.Path(run, "last.safetensors").read_bytes()


def check_equal(run, reference):
    """The two ended with the same bits."""
    rows, expected = rows_of(run), rows_of(reference)
    assert rows == expected, [pair for pair in zip(rows, expected) if pair[0] != pair[1]][:1] or (len(rows), len(expected))
    for name in ("last.safetensors", "best.safetensors"):
        assert pathlib.Path(run, name).read_bytes() == pathlib.Path(reference, name).read_bytes(), f"{run}/{name}"
    lines = pathlib.Path(run, "metrics.csv").read_text().splitlines()
    assert len(lines) == 1 + len(rows_of(run)) and lines[0].startswith("epoch,")
