#!/usr/bin/env python3
"""Draws the tour's figures that no command of ours draws: docs/tour/*.svg, with presentation attributes and no style sheet, so that
every renderer shows them. tests/tour/check_tour.py compares the files with what this script draws.

    draw_figures.py               # writes the SVG files
    draw_figures.py --plain FILE  # turns a chart that `lathe … --svg FILE` has drawn into one without a style sheet; names dots of
                                  # chapter 4's
    draw_figures.py --pdf DIR     # all figures of the tour as PDF, for slides and LaTeX; needs rsvg-convert (librsvg2-bin)
"""
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "drawing"))

import chapters_1_to_6 as early  # noqa: E402
import chapters_7_to_12 as late  # noqa: E402
import training  # noqa: E402
from figure import INK  # noqa: E402

# What the style sheet of a chart says of each class (train/report/line_chart.cpp), for light pages.
CHART_CLASSES = {
    "grid": f'stroke="{INK}" stroke-opacity="0.15"',
    "axis": f'stroke="{INK}"',
    "line": 'fill="none" stroke-width="2" stroke-linejoin="round"',
    "line dots": 'fill="none" stroke-width="8" stroke-linecap="round" stroke-opacity="0.7"',
    "line faint": 'fill="none" stroke-width="1" stroke-linejoin="round" stroke-opacity="0.35"',
    "mark": f'stroke="{INK}" stroke-dasharray="5 4"',
}


def plain(chart):
    """A chart with attributes in place of its style sheet; the same if it has none."""
    if "<style>" not in chart:
        return chart
    chart = re.sub(r"<style>.*?</style>", '<rect width="100%" height="100%" fill="#ffffff"/>', chart)
    chart = chart.replace(' class="chart"', "").replace(' role="img"', f' font-family="DejaVu Sans, Helvetica, Arial, sans-serif" font-size="13" fill="{INK}" role="img"', 1)
    chart = chart.replace('y="24" font-weight="bold"', 'y="12" font-weight="bold"', 1)  # above the legend: fonts differ in width
    chart = chart.replace('y="24" text-anchor="end"', 'y="31" text-anchor="end"', 1)
    return re.sub(r' class="([^"]+)"', lambda match: " " + CHART_CLASSES[match[1]], chart)


# Chapter 4: the names of layers in roofline.svg: the number of the dot in its series "forward", the place beside it, and the name.
DOTS = ((5, 10, 5, "start", "512 channels, 4x4"), (8, -9, -4, "end", "64 channels"), (9, 9, 14, "start", "256 channels"), (10, 9, 3, "start", "128 channels"))


def named(chart):
    """The chart of ResNet-18's roofline with names at some dots; other charts, and a chart with names, as they are."""
    if "resnet18 on cpu: convolutions and the roofline" not in chart or DOTS[0][-1] in chart:
        return chart
    left, top = (float(number) + 2 for number in re.search(r'<svg x="([\d.]+)" y="([\d.]+)" [^>]*viewBox="-2 -2 ', chart).groups())
    dots = re.findall(r"M([\d.]+) ([\d.]+)h0", re.search(r'stroke="#d55e00" d="([^"]*h0)"', chart)[1])
    names = "".join(f'<text x="{float(dots[i][0]) + left + dx:.1f}" y="{float(dots[i][1]) + top + dy:.1f}" text-anchor="{anchor}" font-size="11">{name}</text>'
                    for i, dx, dy, anchor, name in DOTS)
    return re.sub(r"</svg>\s*$", f"{names}</svg>\n", chart)


FIGURES = {"places.svg": early.places, "loss-curves.svg": training.loss_curves, "broken.svg": training.broken, "tamed.svg": training.tamed, "valley.svg": training.valley,
           "notes.svg": early.notes, "strides.svg": early.strides, "op.svg": early.op, "orders.svg": early.image_orders, "window.svg": early.window, "tape.svg": early.tape,
           "views.svg": early.views, "filter.svg": early.filter_through_channels, "im2col.svg": early.im2col, "winograd-tiles.svg": early.winograd_tiles,
           "shadows.svg": early.shadows, "float-bits.svg": early.float_bits,
           "streams.svg": late.streams, "segments.svg": late.segments, "search.svg": late.search, "loader.svg": late.loader,
           "launches.svg": late.launches, "buckets.svg": late.buckets, "ring.svg": late.ring, "tiles.svg": late.tiles, "attention.svg": late.attention,
           "fused.svg": late.fused}


def main():
    if sys.argv[1:2] == ["--plain"]:
        picture = pathlib.Path(sys.argv[2])
        picture.write_text(named(plain(picture.read_text(encoding="utf-8"))), encoding="utf-8")
        return
    if sys.argv[1:2] == ["--pdf"]:
        folder = pathlib.Path(sys.argv[2])
        folder.mkdir(parents=True, exist_ok=True)
        for picture in sorted(HERE.glob("*.svg")):
            subprocess.run(["rsvg-convert", "-f", "pdf", "-o", folder / f"{picture.stem}.pdf", picture], check=True)
        return
    for name, draw in FIGURES.items():
        (HERE / name).write_text(draw().svg(), encoding="utf-8")


if __name__ == "__main__":
    main()
