"""The report of gpu_check.py: what every step said, on disk after each, so that a run that ends at any moment has lost nothing.

A folder of four files: report.md for people, report.json with the numbers, running.txt with the output of the step under way as it
comes, rest.tar.gz with the output of all others. Files are replaced whole: a reader finds the old one or the new one.
"""
import json
import os
import pathlib
import shutil
import tarfile
import tempfile
import time


class Report:
    def __init__(self, out, header):
        self.out = pathlib.Path(out)
        self.out.mkdir(parents=True, exist_ok=True)
        self.rest = pathlib.Path(tempfile.mkdtemp(prefix="gpu-check-"))  # what goes into the archive
        self.running = self.out / "running.txt"
        self.data = {**header, "date": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()), "steps": [], "tests": {}, "rows": [],
                     "texts": {}, "left": []}
        self.write()

    def begin(self, name, budget):
        """A step is under way. Returns its entry, in which its end and its commands are noted."""
        entry = {"step": name, "budget": round(budget), "seconds": None, "result": "under way", "commands": []}
        self.data["steps"].append(entry)
        self.running.write_text("")
        self.write()
        return entry

    def end(self, entry, seconds, result):
        entry.update(seconds=round(seconds, 1), result=result)
        self.write()  # first: it is what must not be lost
        if self.running.exists():
            shutil.copy(self.running, self.rest / f"{entry['step']}.txt")
        self.pack()

    def add(self, rows):
        """Keeps these rows. If report.md cannot show them, because a key is missing, that is an error, and none is kept: the report
        must be written after every later step."""
        markdown({**self.data, "rows": rows})
        self.data["rows"] += rows
        self.write()

    def write(self):
        replace(self.out / "report.json", json.dumps(self.data, indent=1) + "\n")
        replace(self.out / "report.md", "\n".join(markdown(self.data)) + "\n")

    def pack(self):
        part = self.out / "rest.tar.gz.part"
        with tarfile.open(part, "w:gz", compresslevel=3) as archive:
            archive.add(self.rest, "gpu-check")
        os.replace(part, self.out / "rest.tar.gz")

    def close(self):
        shutil.rmtree(self.rest, ignore_errors=True)


def replace(path, text):
    part = path.with_name(path.name + ".part")
    part.write_text(text)
    os.replace(part, path)


def table(head, rows):
    if not rows:
        return []
    return ["", f"| {' | '.join(head)} |", "|" + "---|" * len(head)] + [f"| {' | '.join(map(str, row))} |" for row in rows]


def number(value, digits=1, factor=1.0):
    return "" if value is None else f"{factor * value:.{digits}f}"


def test_lines(tests):
    if not tests:
        return []
    sums = [sum(t["counts"][i] for t in tests.values()) for i in range(3)]
    failed = sorted((name, t) for name, t in tests.items() if t["exit_code"] != 0)
    return ["", f"Test programs: {sums[0]} passed, {sums[1]} failed, {sums[2]} skipped, in {len(tests)} source files."] + [
        f"- {name}: exit code {t['exit_code']}, {t['counts'][1]} failed" for name, t in failed]


def kernel_lines(row):
    """One side's kernels of a step: {"kernels_of", "batch", "kernels": [{kernel, calls, us, registers}], "step_us", "busy_us"}."""
    gap = f", {row['step_us']:.0f} us from step to step" if row.get("step_us") else ""
    lines = ["", f"Kernels of {row['kernels_of']}, batch {row['batch']}: {row['busy_us']:.0f} us of kernels per step{gap}."]
    return lines + table(["us per step", "calls", "registers", "kernel"],
                         [[number(k["us"]), number(k["calls"]), k.get("registers", ""), f"`{k['kernel'][:90]}`"]
                          for k in row["kernels"][:25]])


def rate(row, name):
    return row["images_per_second"].get(name)


def markdown(data):
    """The report's lines: steps first, then what they found, in the order of the steps."""
    lines = [f"# GPU check, {data['date']}", "",
             f"Commit {data.get('commit') or '?'}; {data.get('gpu') or 'GPU unknown'}; command: `{data['command']}`"]
    lines += table(["step", "seconds", "of", "result"],
                   [[s["step"], number(s["seconds"], 0), s["budget"], s["result"]] for s in data["steps"]])
    if data["left"]:
        left = " ".join(data["left"])
        lines += ["", f"Not done: {left}. To go on: `{data['command']} {left}`"]
    rows = data["rows"]
    of = {kind: [row for row in rows if row.get("bench") == kind] for kind in ("step", "conv", "kernels")}
    lines += table(["model", "batch", "amp", "one graph", "images/s", "ms per step"],
                   [[r["model"], r["batch_size"], r["amp"], r["capture"], number(r["images_per_second"], 0),
                     number(1e3 * r["batch_size"] / r["images_per_second"], 2)] for r in of["step"]])
    lines += table(["model", "batch", "amp", "ours, images/s", "best PyTorch", "ratio", "all of PyTorch"],
                   [[r["model"], r["batch"], r["amp"], number(rate(r, "ours"), 0),
                     f"{r['best_of_torch']} {rate(r, r['best_of_torch']):.0f}", number(r["ratio"], 2),
                     ", ".join(f"{name} {value:.0f}" for name, value in r["images_per_second"].items() if name != "ours")]
                    for r in rows if "best_of_torch" in r])
    lines += table(["convolution", "pass", "us", "of the roofline", "engine"],
                   [[r["layer"], r.get("pass", ""), number(r.get("seconds"), 1, 1e6), number(r.get("of_roofline"), 2), r.get("engine", "")]
                    for r in of["conv"]])
    lines += table(["kernel", "dtype", "GB/s", "of a copy"],
                   [[r["kernel"], r["dtype"], number(r["bytes_per_second"], 0, 1e-9), number(r["of_copy"], 2)] for r in of["kernels"]])
    for row in rows:
        if "kernels_of" in row:
            lines += kernel_lines(row)
        for variant, found in row.get("torch_kernels", {}).items():
            kernels = [{"kernel": k["name"], "calls": k["calls"], "us": 1e3 * k["ms"]} for k in found["slowest"]]
            busy = 1e3 * sum(found["by_kind_ms"].values())
            lines += kernel_lines({"kernels_of": f"PyTorch {variant}", "batch": row["batch"], "busy_us": busy, "kernels": kernels})
    lines += test_lines(data["tests"])
    for row in rows:
        if "losses_agree" in row:
            lines += ["", f"Losses of {row['steps']} steps, {row['model']}, batch {row['batch']}, amp {row['amp']}: ours differ from "
                      f"PyTorch's in f32 by {row['ours_differ']:.2e} on average, PyTorch's own under amp by {row['torch_differ']:.2e}: "
                      f"{'agree' if row['losses_agree'] else 'DIFFER'}."]
    for name, text in data["texts"].items():
        lines += ["", f"{name}:", "```", text.rstrip()[-4000:], "```"]
    return lines
