"""What the tests of resuming and of checkpoints share: a run of 21 steps, and what it leaves behind."""
import json
import pathlib

from driver import lathe

# 7 batches of 8 images are an epoch; the last one has 2.
TINY = ["--dataset", "synthetic", "--synthetic-size", 50, "--model", "resnet8", "--batch-size", 8, "--augment", "crop,flip",
        "--image-size", 16, "--threads", 1, "--log-every", 4, "--epochs", 3, "--quiet"]


def train(run, *arguments, **options):
    return lathe("train", *TINY, "--run-dir", run, *arguments, **options)


def rows_of(run):
    """Metrics without what is a matter of time."""
    rows = [json.loads(line) for line in pathlib.Path(run, "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if key != "images_per_second"} for row in rows]


def log_of(run):
    return pathlib.Path(run, "log.txt").read_text()


def last_of(run):
    return pathlib.Path(run, "last.safetensors").read_bytes()
