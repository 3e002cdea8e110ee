#!/usr/bin/env python3
"""Writes what tools/gpu_check.sh found: report.md and report.json in the folder OUT.

    gpu_report.py --out OUT --build BUILD "step|seconds|status"...
"""
import argparse
import json
import pathlib
import re
import subprocess
import time

COUNTS = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped\s*$", re.MULTILINE)


def output_of(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""


def rows_of(path):
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(errors="replace").splitlines() if line.startswith("{")]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--build", required=True)
    parser.add_argument("steps", nargs="*")
    options = parser.parse_args()

    report = {
        "date": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
        "commit": output_of("git", "rev-parse", "--short", "HEAD"),
        "info": output_of(f"{options.build}/bin/lathe", "info"),
        "steps": [],
        "kernels": rows_of(options.out / "bench-kernels.log"),
        "convolutions": rows_of(options.out / "bench-conv.log"),
        "compared": [row for log in sorted(options.out.glob("compare-*.log")) for row in rows_of(log)],
    }
    for text in options.steps:
        name, seconds, status = text.split("|")
        log = options.out / f"{name}.log"
        counts = COUNTS.findall(log.read_text(errors="replace")) if log.exists() else []
        report["steps"].append({"step": name, "seconds": int(seconds), "status": int(status),
                                "counts": [list(map(int, c)) for c in counts]})
    (options.out / "report.json").write_text(json.dumps(report, indent=1) + "\n")

    lines = [f"# GPU check, {report['date']}, commit {report['commit'] or 'unknown'}", "", "```", report["info"], "```", "",
             "| step | seconds | result |", "|---|---|---|"]
    for step in report["steps"]:
        lines.append(f"| {step['step']} | {step['seconds']} | {'ok' if step['status'] == 0 else 'FAILED, exit code %d' % step['status']} |")
    if report["kernels"]:
        lines += ["", "| kernel | dtype | GB/s | of a copy |", "|---|---|---|---|"]
        for row in report["kernels"]:
            lines.append(f"| {row['kernel']} | {row['dtype']} | {row['bytes_per_second'] / 1e9:.0f} | {100 * row['of_copy']:.0f} % |")
    if report["compared"]:
        lines += ["", "| model | image | batch | amp | ours, images/s | best PyTorch | ratio | to eager |", "|---|---|---|---|---|---|---|---|"]
        for row in report["compared"]:
            rates, best = row["images_per_second"], row["best_of_torch"]
            eager = "" if row["ratio_to_eager"] is None else f"{row['ratio_to_eager']:.2f}"
            lines.append(f"| {row['model']} | {row['image_size']} | {row['batch']} | {row['amp']} | {rates['ours']:.0f} "
                         f"| {best} {rates[best]:.0f} | {row['ratio']:.2f} | {eager} |")
    (options.out / "report.md").write_text("\n".join(lines) + "\n")
    print(f"report: {options.out / 'report.md'}")


if __name__ == "__main__":
    main()
