"""The report of gpu_check.py: report.md for people and report.json with the numbers, made from the log (log.py).

They are replaced whole, soon after each row: a reader finds the old one or the new one. `gpu_check.py --render FOLDER` makes them
again from the log that a kill left behind, with every row in it.
"""
import json
import os
import statistics
import time

from gpu import log

LOG, BESIDE = "log.txt", "beside.txt"


def data_of(folder):
    """All that the logs in a folder say."""
    data = {"commit": None, "command": "", "date": "", "gpu": None, "steps": [], "tests": {}, "rows": [], "texts": {}, "left": [],
            "unreadable": []}
    for name in (LOG, BESIDE):
        for kind, fields in log.read(folder / name):
            take(data, kind, fields)
    return data


def take(data, kind, fields):
    steps = data["steps"]
    if kind == "row":
        error = unreadable(fields)
        if error:
            data["unreadable"].append(f"{error} in {json.dumps(fields)[:300]}")
        else:
            data["rows"].append(fields)
    elif kind == "run":
        data.update(fields)
    elif kind == "step":
        steps.append({**fields, "seconds": None, "result": "under way", "commands": []})
    elif kind == "ended" and steps:
        steps[-1]["commands"].append(fields)
    elif kind == "result" and steps:
        steps[-1].update(fields)
    elif kind == "test":
        data["tests"][fields.pop("name")] = fields
    elif kind == "text":
        data["texts"][fields["name"]] = fields["text"]
    elif kind == "left":
        data["left"].append(fields["step"])


def unreadable(row):
    """Why report.md cannot show a row, or None."""
    try:
        row_lines([row])
    except (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def render(folder):
    data = data_of(folder)
    replace(folder / "report.json", json.dumps(data, indent=1) + "\n")
    replace(folder / "report.md", "\n".join(markdown(data)) + "\n")
    return data


class Report:
    """The report of a run under way."""

    def __init__(self, folder, **header):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        for old in (LOG, BESIDE):
            (folder / old).unlink(missing_ok=True)
        self.log = log.Log(folder / LOG)
        self.seen, self.commands = 0, []
        self.event("run", date=time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()), **header)

    def event(self, kind, **fields):
        if kind == "step":
            self.commands = []
        elif kind == "ended":
            self.commands.append(fields)
        self.log.event(kind, **fields)
        self.refresh()

    def say(self, text):
        self.log.say(text)

    def broken_commands(self):
        """The commands of the step under way that failed, for people."""
        return [f"{c['name']} {'out of time' if c['exit_code'] == 124 else c['exit_code']}" for c in self.commands if c["exit_code"]]

    def refresh(self):
        """Makes the report again if the logs have grown."""
        beside = self.folder / BESIDE
        size = self.log.size() + (beside.stat().st_size if beside.exists() else 0)
        if size != self.seen:
            self.seen = size
            render(self.folder)


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


def round_lines(rows):
    """Windows in turns: the median of each side over the rounds so far, and of the rounds' ratios of ours to it."""
    groups = {}
    for row in rows:
        sides = row["images_per_second"]
        groups.setdefault((row["model"], row["batch"], row["amp"], tuple(sides)), []).append(sides)
    lines = []
    for (model, batch, amp, sides), rounds in groups.items():
        for side in sides:
            rates = sorted(r[side] for r in rounds)
            lines.append([model, batch, amp, side, len(rounds), number(statistics.median(rates), 0),
                          f"{rates[0]:.0f} to {rates[-1]:.0f}", number(statistics.median(r["ours"] / r[side] for r in rounds), 2)])
    return table(["model", "batch", "amp", "in turns", "rounds", "images/s", "lowest to highest", "ours / it"], lines)


def search_limit(row):
    return {None: "default", 0: "none"}.get(row.get("search_limit"), row.get("search_limit"))


def settings_text(row):
    """How many settings a search timed, and of how many."""
    return f"{row['settings_timed']} of {row['settings']}" if "settings" in row else ""


def conv_lines(rows):
    return table(["convolution", "pass", "fused with", "search limit", "us", "split, us", "of the roofline", "timed of", "search, s", "engine"],
                 [[r["layer"], r.get("pass", ""), r.get("fusion", ""), search_limit(r), number(r.get("seconds"), 1, 1e6),
                   number(r.get("split_seconds"), 1, 1e6), number(r.get("of_roofline"), 2), settings_text(r),
                   number(r.get("search_seconds"), 2), r.get("engine", "")] for r in rows])


def losses_line(row):
    how = {"on": f", {row.get('fused')} fused convolutions", "off": ", fusion off"}.get(row.get("fusion"), "")
    return (f"Losses of {row['steps']} steps, {row['model']}, batch {row['batch']}, amp {row['amp']}{how}: ours differ from PyTorch's in "
            f"f32 by {row['ours_differ']:.2e} on average, PyTorch's own under amp by {row['torch_differ']:.2e}: "
            f"{'agree' if row['losses_agree'] else 'DIFFER'}.")


def row_lines(rows):
    """Everything that rows say. Raises if one lacks what is shown of it."""
    of = {kind: [row for row in rows if row.get("bench") == kind] for kind in ("step", "round", "conv", "kernels", "batch_norm")}
    lines = table(["model", "batch", "amp", "one graph", "fusion", "unmeasured parts", "images/s", "ms per step"],
                  [[r["model"], r["batch_size"], r["amp"], r["capture"], r.get("conv_fusion", ""), r.get("unmeasured", ""),
                    number(r["images_per_second"], 0), number(1e3 * r["batch_size"] / r["images_per_second"], 2)] for r in of["step"]])
    lines += round_lines(of["round"]) + conv_lines(of["conv"])
    lines += table(["kernel", "dtype", "GB/s", "of a copy"],
                   [[r["kernel"], r["dtype"], number(r["bytes_per_second"], 0, 1e-9), number(r["of_copy"], 2)] for r in of["kernels"]])
    lines += table(["batch norm + relu of", "threads", "forward, us", "backward, us"],
                   [[r["shape"], r["threads"], number(r["forward_us"]), number(r["backward_us"])] for r in of["batch_norm"]])
    for row in rows:
        if "kernels_of" in row:
            lines += kernel_lines(row)
        for variant, found in row.get("torch_kernels", {}).items():
            kernels = [{"kernel": k["name"], "calls": k["calls"], "us": 1e3 * k["ms"]} for k in found["slowest"]]
            busy = 1e3 * sum(found["by_kind_ms"].values())
            lines += kernel_lines({"kernels_of": f"PyTorch {variant}", "batch": row["batch"], "busy_us": busy, "kernels": kernels})
        if "losses_agree" in row:
            lines += ["", losses_line(row)]
    return lines


def markdown(data):
    """The report's lines: steps first, then what they found."""
    lines = [f"# GPU check, {data['date']}", "",
             f"Commit {data.get('commit') or '?'}; {data.get('gpu') or 'GPU unknown'}; command: `{data['command']}`"]
    lines += table(["step", "seconds", "of", "result"],
                   [[s["step"], number(s["seconds"], 0), s["budget"], s["result"]] for s in data["steps"]])
    if data["left"]:
        left = " ".join(data["left"])
        lines += ["", f"Not done: {left}. To go on: `{data['command']} {left}`"]
    lines += row_lines(data["rows"]) + test_lines(data["tests"])
    for text in data["unreadable"]:
        lines += ["", f"A row that this report cannot show: {text}"]
    for name, text in data["texts"].items():
        lines += ["", f"{name}:", "```", text.rstrip()[-4000:], "```"]
    return lines
