#!/usr/bin/env python3
"""Draws docs/first-run.svg, README's picture: the curves of what `lathe train` does by itself on a CPU.

    draw_first_run.py LATHE

It trains as tools/train.sh does, and takes the picture from the run's report.
"""
import pathlib
import subprocess
import sys
import tempfile


def main():
    lathe = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([lathe, "train", "--device", "cpu", "--download", "--run-dir", "run"], cwd=folder, check=True)
        subprocess.run([lathe, "report", "run", "--no-evaluate"], cwd=folder, check=True)
        page = (pathlib.Path(folder) / "run/report.html").read_text(encoding="utf-8")
    begin = "<svg xmlns="  # of a chart; a chart has an <svg> inside
    charts = [begin + part[: part.rindex("</svg>")] + "</svg>\n" for part in page.split(begin)[1:]]
    chart = next(chart for chart in charts if "<title>Accuracy, %</title>" in chart)
    pathlib.Path(__file__).with_name("first-run.svg").write_text(chart, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
