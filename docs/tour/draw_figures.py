#!/usr/bin/env python3
"""Draws the tour's figures that no command of ours draws: docs/tour/*.svg, with presentation attributes and no style sheet, so that
every renderer shows them. tests/tour/check_tour.py compares the files with what this script draws.

    draw_figures.py               # writes the SVG files
    draw_figures.py --plain FILE  # turns a chart that `lathe … --svg FILE` has drawn into one without a style sheet; numbers
                                  # and shapes for the dots of chapter 4's
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


# Marks of chapter 4's roofline, by series of the chart: the name that the chapter has, the letter of the legend, and a path that begins at a
# dot's centre. The last one is open, so that a mark below it is seen.
MARKS = {"forward": ("forward pass", "●", "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z"),
         "backward_weight": ("gradient of the filters", "▲", "m0 -5.5l5 9h-10z"),
         "backward_input": ("gradient of the image", "□", "m-5 -5h10v10h-10z")}


def numbered(chart):
    """The chart of ResNet-18's roofline as lathe drew it, with a shape for each pass in place of dots, and with the numbers of its layers,
    from the fewest operations per byte on; other charts as they are. Chapter 4 has a table of the numbers."""
    if "resnet18 on cpu: convolutions and the roofline" not in chart or not re.search(r"M[\d.]+ [\d.]+h0", chart):
        return chart
    left, top = (float(number) + 2 for number in re.search(r'<svg x="([\d.]+)" y="([\d.]+)" [^>]*viewBox="-2 -2 ', chart).groups())
    highest = {}  # of the dots at each x
    for x, y in re.findall(r"M([\d.]+) ([\d.]+)h0", chart):
        highest[float(x)] = min(float(y), highest.get(float(x), float(y)))
    numbers = "".join(f'<text x="{x + left - 9:.1f}" y="{highest[x] + top + 4:.1f}" text-anchor="end" font-size="11">{number}</text>' for number, x in enumerate(sorted(highest), 1))
    for series, (name, letter, shape) in MARKS.items():
        colour = re.search(rf'fill="(#\w+)">━</tspan> {series}\b', chart)[1]
        fill = 'fill="none" stroke-width="1.8"' if letter == "□" else f'fill="{colour}" stroke-width="0"'
        dots = re.search(rf'<path {CHART_CLASSES["line dots"]} stroke="{colour}" d="([^"]*)"/>', chart)
        chart = chart.replace(dots[0], f'<path {fill} stroke="{colour}" d="{dots[1].replace("h0", shape)}"/>')
        chart = re.sub(rf"━(</tspan>) {series}\b", rf"{letter}\1 {name}", chart)
    return re.sub(r"</svg>\s*$", f"{numbers}</svg>\n", chart)


FIGURES = {"places.svg": early.places, "step-size.svg": training.step_size, "loss-curves.svg": training.loss_curves, "broken.svg": training.broken, "tamed.svg": training.tamed, "valley.svg": training.valley, "memorised.svg": training.memorised,
           "notes.svg": early.notes, "strides.svg": early.strides, "op.svg": early.op, "orders.svg": early.image_orders, "window.svg": early.window, "tape.svg": early.tape,
           "views.svg": early.views, "write-view.svg": early.write_view, "filter.svg": early.filter_through_channels, "im2col.svg": early.im2col, "winograd-tiles.svg": early.winograd_tiles,
           "shadows.svg": early.shadows, "float-bits.svg": early.float_bits,
           "streams.svg": late.streams, "segments.svg": late.segments, "search.svg": late.search, "loader.svg": late.loader,
           "launches.svg": late.launches, "buckets.svg": late.buckets, "ring.svg": late.ring, "tiles.svg": late.tiles, "attention.svg": late.attention,
           "fused.svg": late.fused}


def main():
    if sys.argv[1:2] == ["--plain"]:
        picture = pathlib.Path(sys.argv[2])
        picture.write_text(numbered(plain(picture.read_text(encoding="utf-8"))), encoding="utf-8")
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
