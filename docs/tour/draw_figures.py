#!/usr/bin/env python3
"""Draws the tour's figures that no command of ours draws: docs/tour/*.svg, with presentation attributes and no style sheet, so that
every renderer shows them. tests/tour/check_tour.py compares the files with what this script draws.

    draw_figures.py               # writes the SVG files
    draw_figures.py --plain FILE  # turns a chart that `lathe … --svg FILE` has drawn into one without a style sheet; names dots of
                                  # chapter 4's
    draw_figures.py --pdf DIR     # all figures of the tour as PDF, for slides and LaTeX; needs rsvg-convert (librsvg2-bin)
"""
import math
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
INK, PALE, LINE = "#222222", "#f2f2f2", "#888888"
BLUE, ORANGE, GREEN, RED, GREY = "#4477aa", "#e69f00", "#228833", "#bb3344", "#bbbbbb"
LIGHT = {BLUE: "#d6e2ee", ORANGE: "#fbe7bd", GREEN: "#d2e9d6", RED: "#f3d3d8", GREY: "#eeeeee"}


class Figure:
    def __init__(self, title, width, height):
        self.head = (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
                     f'font-family="DejaVu Sans, Helvetica, Arial, sans-serif" font-size="13">')
        self.parts = [f"<title>{title}</title>", f'<rect width="{width}" height="{height}" fill="#ffffff"/>']

    def box(self, x, y, width, height, fill=PALE, stroke=LINE, stroke_width=1):
        self.parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{fill}" stroke="{stroke}" stroke-width="{stroke_width}"/>')

    def text(self, x, y, text, anchor="start", fill=INK, bold=False, size=13):
        weight = ' font-weight="bold"' if bold else ""
        self.parts.append(f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="{fill}" font-size="{size}"{weight}>{text}</text>')

    def line(self, x1, y1, x2, y2, stroke=INK, dash=None, width=1.2):
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{stroke}" stroke-width="{width}"{dashes}/>')

    def arrow(self, x1, y1, x2, y2, stroke=INK, dash=None):
        """With a head, on a straight line; heads are polygons, because not every renderer draws markers."""
        length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5
        ux, uy = (x2 - x1) / length, (y2 - y1) / length
        self.line(x1, y1, round(x2 - 6 * ux, 1), round(y2 - 6 * uy, 1), stroke, dash)
        points = [(x2, y2), (x2 - 8 * ux - 4 * uy, y2 - 8 * uy + 4 * ux), (x2 - 8 * ux + 4 * uy, y2 - 8 * uy - 4 * ux)]
        self.parts.append(f'<polygon points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}" fill="{stroke}"/>')

    def bar(self, x, y, width, label, color, height=26):
        """A piece of work on a timeline."""
        self.box(x, y, width, height, LIGHT[color], color)
        self.text(x + width / 2, y + height / 2 + 4.5, label, "middle", size=12)

    def svg(self):
        return self.head + "\n" + "\n".join(self.parts) + "\n</svg>\n"


def views():
    """Chapter 3b: one storage, three tensors, before and after a write."""
    f = Figure("Three tensors over one storage, before and after row.mul_(10)", 720, 330)
    for top, title, values, version in ((0, "before", list(range(12)), 0),
                                        (165, "after row.mul_(10)", [0, 1, 2, 3, 40, 50, 60, 70, 8, 9, 10, 11], 1)):
        f.text(20, top + 24, title, bold=True)
        f.text(700, top + 24, f"version {version}", "end", RED if version else INK, bold=bool(version))
        f.text(20, top + 62, "storage")
        for i, value in enumerate(values):
            changed = top > 0 and 4 <= i < 8
            f.box(110 + 49 * i, top + 42, 49, 30, LIGHT[RED] if changed else PALE)
            f.text(134.5 + 49 * i, top + 62, value, "middle", bold=changed)
        for y, name, cells, color in ((84, "x", range(12), GREY), (106, "row", range(4, 8), BLUE), (128, "corner", (5, 6, 9, 10), GREEN)):
            f.text(20, top + y + 12, name, fill=INK)
            for i in cells:
                f.box(112 + 49 * i, top + y, 45, 16, LIGHT[color], color)
    return f


def streams():
    """Chapter 7: what the host queues, and when two streams work."""
    f = Figure("Host and two streams: launches, two events, and a block that waits", 740, 250)
    for y, name in ((40, "host"), (100, "stream 1"), (160, "stream 2")):
        f.text(20, y + 18, name)
        f.line(95, y + 13, 720, y + 13, GREY)
    x = 100
    for label, width in (("A", 26), ("event 1", 56), ("B", 26), ("wait", 36), ("C", 26), ("record_stream", 98), ("free x", 46)):
        f.bar(x, 40, width, label, GREY)
        given_back = x + width / 2
        x += width + 4
    f.bar(130, 100, 320, "A writes x", BLUE)
    f.bar(455, 100, 120, "B", BLUE)
    f.bar(455, 160, 140, "C reads x", ORANGE)
    f.line(452, 92, 452, 134, RED, width=2.5)
    f.text(456, 88, "event 1", "start", RED)
    f.arrow(452, 134, 455, 158, RED)
    f.line(598, 152, 598, 194, RED, width=2.5)
    f.text(598, 148, "event 2", "middle", RED)
    f.line(given_back, 66, given_back, 210, LINE, "4 3")
    f.line(598, 194, 598, 210, LINE, "4 3")
    f.arrow(given_back, 210, 596, 210, RED)
    f.text((given_back + 598) / 2, 228, "the block of x waits", "middle", RED)
    f.text(606, 214, "free for stream 1")
    f.text(given_back - 8, 214, "given back on the host", "end")
    f.arrow(580, 20, 720, 20)
    f.text(572, 24, "time", "end")
    return f


def buckets():
    """Chapter 10b: buckets travel beside the backward pass."""
    f = Figure("Buckets of gradients travel beside the backward pass", 735, 215)
    for y, name in ((30, "backward"), (80, "network"), (150, "in turn")):
        f.text(20, y + 18, name)
    layers = (("layer 4", 70), ("layer 3", 80), ("layer 2", 90), ("layer 1", 100))
    x, ends = 100, []
    for name, width in layers:
        f.bar(x, 30, width, name, BLUE)
        x += width
        ends.append(x)
    for number, (begin, width, of) in enumerate(((ends[0], 60, "layer 4"), (ends[1], 95, "layer 3"), (ends[3], 70, "layers 2, 1")), 1):
        f.bar(begin, 80, width, f"bucket {number}", ORANGE)
        f.text(begin + width / 2, 120, of, "middle", size=11)
        f.arrow(begin, 57, begin, 79, LINE)
        free = begin + width
    f.bar(free, 30, 50, "step", GREEN)
    f.line(100, 128, 700, 128, GREY, "2 3")
    x = 100
    for name, width in layers:
        f.bar(x, 150, width, name, BLUE)
        x += width
    for number, width in ((1, 60), (2, 95), (3, 70)):
        f.bar(x, 150, width, f"bucket {number}", ORANGE)
        x += width
    f.bar(x, 150, 50, "step", GREEN)
    f.text(700, 203, "time", "end")
    f.arrow(560, 198, 660, 198)
    return f


def tiles():
    """Chapter 11: the scores, as a whole and tile by tile, and the correction of what was added up."""
    f = Figure("Scores in memory, all of them or one tile at a time, and the correction of the sum so far", 830, 470)
    for left, title in ((75, "naive: L x S scores, and as many weights"), (425, "tiled: one tile, three things for each query")):
        f.text(left - 30, 24, title, bold=True)
        f.text(left + 96, 52, "keys, S", "middle")
        f.text(left - 8, 158, "L", "end")
        f.text(left - 8, 142, "queries,", "end")
        if left == 75:
            f.box(left, 60, 192, 192, LIGHT[BLUE], BLUE)
            f.text(left + 96, 152, "all are in memory", "middle")
            f.text(left + 96, 169, "at the same time", "middle")
        else:
            for row in range(4):
                for column in range(4):
                    done = row < 1 or (row == 1 and column < 2)
                    now = (row, column) == (1, 2)
                    f.box(left + 48 * column, 60 + 48 * row, 48, 48, LIGHT[ORANGE] if now else PALE if done else "#ffffff", ORANGE if now else GREY, 2 if now else 1)
            f.text(left + 120, 137, "now", "middle")
            f.arrow(left + 4, 132, left + 92, 132, LINE)
            f.box(left + 200, 108, 14, 48, LIGHT[GREEN], GREEN)
            f.box(left + 217, 108, 14, 48, LIGHT[GREEN], GREEN)
            f.box(left + 234, 108, 40, 48, LIGHT[GREEN], GREEN)
            for at, word in ((134, "largest score, sum,"), (149, "weighted values")):
                f.text(left + 282, at - 4, word, size=11)
    f.text(171, 276, "L = 2048: 16 MiB, twice", "middle")
    f.text(521, 276, "tile of 128: 64 KiB, for any L", "middle")
    f.line(20, 296, 810, 296, GREY, "2 3")
    f.text(45, 320, "the correction, for one query with the scores 1 3 | 2 5", bold=True)
    for x, scores, color, largest, total in ((75, (1, 3), GREY, "largest 3", "sum exp(-2) + 1 = 1.135"), (560, (2, 5), ORANGE, "largest 5", "sum 0.154 + exp(-3) + 1 = 1.203")):
        for i, score in enumerate(scores):
            f.box(x + 40 * i, 336, 40, 28, LIGHT[color], color)
            f.text(x + 40 * i + 20, 355, score, "middle")
        f.arrow(x + 40, 366, x + 40, 384, LINE)
        f.box(x - 30, 386, 210 if x < 300 else 255, 44, LIGHT[GREEN], GREEN)
        f.text(x - 20, 404, largest)
        f.text(x - 20, 421, total)
    f.arrow(257, 408, 528, 408, RED)
    f.text(392, 400, "times exp(3 - 5) = 0.135", "middle", RED, bold=True)
    f.text(392, 426, "1.135 becomes 0.154,", "middle", RED, size=11)
    f.text(392, 441, "and the weighted values shrink alike", "middle", RED, size=11)
    f.text(45, 462, "The sum so far was measured from 3. One factor per query measures it from 5.", size=11)
    return f


def segments():
    """Chapter 7: the segments and blocks of the program, step by step."""
    f = Figure("The segments of the made-up device, and the blocks in them", 840, 410)
    small, large = 200, 250  # pixels of a segment of 2 MiB and of one of 20 MiB
    f.text(20, 24, "stream one: 2 MiB, small requests", bold=True)
    f.text(300, 24, "stream one: 20 MiB, large requests", bold=True)
    f.text(590, 24, "later segments of 2 MiB", bold=True)

    def segment(x, y, width, blocks, note=""):
        """`blocks`: (begin, width, label, color), in pixels from x."""
        f.box(x, y, width, 34, "#ffffff", LINE)
        for begin, wide, label, color in blocks:
            f.box(x + begin, y, wide, 34, LIGHT[color], color)
            if label:
                f.text(x + begin + wide / 2, y + 22, label, "middle", size=12)
        if note:
            f.text(x, y + 49, note, size=11)

    rows = ((40, "a, b and big", "b", BLUE), (118, "b is given back: c gets its place", "c", BLUE))
    for y, says, name, color in rows:
        segment(20, y, small, ((0, 6, "", GREEN), (6, 100, name, color)), "a: 1000 bytes, rounded up to 1 KiB" if y == 40 else says)
        segment(300, y, large, ((0, 38, "big", BLUE),), "big: 3 MiB" if y == 40 else "")
    segment(590, 118, small, ((0, 100, "d", ORANGE),), "d: stream two has a segment of its own")
    segment(20, 206, small, ((0, 6, "", GREEN), (6, 100, "c, waits", RED)), "c is given back, but stream two used it")
    segment(590, 206, small, ((0, 100, "e", BLUE), (100, 100, "f", BLUE)), "so e and f get a new one")
    segment(20, 284, small, ((0, 6, "", GREEN), (6, 100, "g", BLUE)), "the event is done: g gets the place of c")
    segment(300, 284, large, ((0, 38, "big", BLUE), (38, 150, "x, 12 MiB", GREEN)), "a step: x fits behind big,")
    segment(300, 346, large, ((0, 112, "y, 9 MiB", GREEN),), "y does not, and gets 20 MiB more")
    f.text(20, 360, "Blue and green: blocks of stream one.", size=11)
    f.text(20, 376, "Orange: stream two. White: free.", size=11)
    f.text(20, 392, "A segment serves one stream.", size=11)
    return f


def loader():
    """Chapter 9: workers, the ring of places, and the batches in order."""
    f = Figure("Jobs in order, four workers, a ring of places, and batches in order", 790, 330)
    f.text(20, 24, "jobs, in order", bold=True)
    f.text(205, 24, "workers", bold=True)
    f.text(370, 24, "ring: batch b in place b mod 8", bold=True)
    f.text(680, 24, "next()", bold=True)
    f.box(20, 140, 110, 40, PALE, LINE)
    f.text(75, 157, "next job: 8", "middle", size=12)
    f.text(75, 172, "8 &lt; 2 + 8", "middle", size=11)
    jobs = (4, 5, 6, 7)
    for i, job in enumerate(jobs):
        y = 60 + 58 * i
        f.bar(205, y, 90, f"reads job {job}", ORANGE, 34)
        f.arrow(131, 160, 203, y + 17, LINE)
    states = {2: ("ready", GREEN), 3: ("ready", GREEN), 4: ("busy", ORANGE), 5: ("busy", ORANGE), 6: ("busy", ORANGE), 7: ("busy", ORANGE)}
    places = []
    for place in range(8):
        angle = (-90 + 45 * place) * 3.141592653589793 / 180
        x, y = round(490 + 118 * math.cos(angle), 1), round(168 + 112 * math.sin(angle), 1)
        places.append((x, y))
        state, color = states.get(place, ("free", GREY))
        f.box(round(x - 33, 1), round(y - 19, 1), 66, 38, LIGHT[color], color, 2 if place == 2 else 1)
        f.text(x, round(y - 3, 1), f"place {place}", "middle", size=11)
        f.text(x, round(y + 12, 1), state, "middle", size=11)
    f.text(490, 162, "taken: 2", "middle", bold=True)
    f.text(490, 180, "b &lt; taken + 8", "middle", size=11)
    f.arrow(297, 168, 337, 168, ORANGE)
    x, y = places[2]
    f.arrow(x + 35, y, 676, y, GREEN)
    f.bar(678, 151, 94, "batch 2 next", GREEN, 34)
    f.text(678, 205, "then 3, 4, …,", size=11)
    f.text(678, 220, "in order", size=11)
    f.text(20, 318, "Batches 0 and 1 were taken, so places 0 and 1 are free for jobs 8 and 9. Job 10 must wait until batch 2 is taken.", size=11)
    return f


def launches():
    """Chapter 10: a step launched kernel by kernel, and as one graph."""
    f = Figure("A step kernel by kernel: the GPU waits for the host. As a graph: one launch", 760, 260)
    for top, title in ((0, "kernel by kernel: a call takes longer than the kernel that it queues"), (130, "as a graph: one call queues all kernels")):
        f.text(20, top + 24, title, bold=True)
        for y, name in ((38, "host"), (82, "GPU")):
            f.text(20, top + y + 18, name)
            f.line(75, top + y + 13, 740, top + y + 13, GREY)
    for i in range(8):
        x = 80 + 72 * i
        f.bar(x, 38, 66, f"launch {i + 1}", GREY)
        f.bar(x + 66, 82, 30, i + 1, BLUE)
        f.arrow(x + 66, 65, x + 66, 81, LINE)
    f.text(80 + 66 + 30 + 21, 124, "idle", "middle", RED, size=11)
    f.arrow(80 + 66 + 30 + 2, 112, 80 + 66 + 71, 112, RED)
    f.bar(80, 168, 96, "launch graph", GREY)
    f.arrow(176, 195, 176, 211, LINE)
    for i in range(8):
        f.bar(176 + 32 * i, 212, 30, i + 1, BLUE)
    f.text(186, 175, "free for other work", size=12)
    f.line(432, 206, 432, 246, RED, width=2.5)
    f.text(440, 250, "the step is done", fill=RED, size=11)
    f.arrow(620, 252, 740, 252)
    f.text(612, 256, "time", "end")
    return f


def fused():
    """Chapter 12: where values go between the ops."""
    f = Figure("Five ops one by one, and as one kernel", 720, 250)
    ops = (("mul", 2), ("add", 2), ("relu", 1), ("mul", 1), ("sub", 2))  # and how many tensors each reads
    f.text(20, 24, "one by one: each arrow is a tensor through memory", bold=True)
    f.box(100, 100, 600, 16, LIGHT[GREY], GREY)
    f.text(20, 112, "memory")
    for i, (op, reads) in enumerate(ops):
        x = 110 + 120 * i
        f.bar(x, 40, 90, op, BLUE)
        for k in range(reads):
            f.arrow(x + 15 + 20 * k, 99, x + 15 + 20 * k, 68, INK)
        f.arrow(x + 75, 67, x + 75, 99, RED)
    f.text(20, 154, "as one kernel: values between the ops stay in registers", bold=True)
    f.bar(110, 170, 570, "mul, add, relu, mul, sub", GREEN)
    f.box(100, 222, 600, 16, LIGHT[GREY], GREY)
    f.text(20, 234, "memory")
    f.arrow(130, 221, 130, 198)
    f.arrow(160, 221, 160, 198)
    f.text(168, 213, "x, y")
    f.text(642, 213, "the result", "end")
    f.arrow(650, 197, 650, 221, RED)
    return f


def strides():
    """Chapter 1: three tensors over one strip of memory."""
    f = Figure("x, x.t() and a slice over one strip of memory", 720, 330)
    grids = (("x", "strides {4, 1}, offset 0", 20, 3, 4, 4, 1, 0, GREY), ("x.t()", "strides {1, 4}, offset 0", 290, 4, 3, 1, 4, 0, BLUE),
             ("x.slice(1, 1, 4, 2)", "strides {4, 2}, offset 1", 520, 3, 2, 4, 2, 1, GREEN))
    for name, strides, left, rows, columns, down, right, offset, color in grids:
        f.text(left, 24, name, bold=True)
        f.text(left, 42, strides, size=11)
        for i in range(rows):
            for j in range(columns):
                f.box(left + 44 * j, 56 + 30 * i, 44, 30, LIGHT[color], color)
                f.text(left + 44 * j + 22, 56 + 30 * i + 20, offset + i * down + j * right, "middle")
        bottom = 56 + 30 * rows
        f.arrow(left, bottom + 10, left + 44, bottom + 10, RED)
        f.text(left + 50, bottom + 14, f"+{right}", fill=RED, size=11)
        f.arrow(left + 44 * columns + 10, 56, left + 44 * columns + 10, 86, RED)
        f.text(left + 44 * columns + 17, 76, f"+{down}", fill=RED, size=11)
    f.text(20, 236, "the memory of all three", bold=True)
    for at in range(12):
        taken = at % 4 in (1, 3)
        f.box(20 + 54 * at, 250, 54, 30, LIGHT[GREEN] if taken else PALE, GREEN if taken else LINE)
        f.text(47 + 54 * at, 270, at, "middle")
    f.text(20, 306, "Each cell above says where its number lies. Red: how far the next column and the next row are. Green: what the slice has.", size=11)
    return f


def filter_through_channels():
    """Chapter 4: one filter reaches through all channels and makes one channel of y."""
    f = Figure("One filter reaches through the three channels of an image and makes one channel of y", 760, 400)
    cell, tap = 14, 20
    f.text(20, 24, "x: one image, C = 3", bold=True)
    f.text(280, 24, "filter k: 3 · 3 · 3 taps", bold=True)
    f.text(540, 24, "y: a channel for each filter", bold=True)

    def plane(x, y, marked, color):
        for i in range(25):
            p, q = divmod(i, 5)
            inside = (p, q) in marked
            f.box(x + cell * q, y + cell * p, cell, cell, LIGHT[color] if inside else PALE, LINE)

    window = {(p, q) for p in (1, 2, 3) for q in (2, 3, 4)}
    for c in range(3):
        top = 54 + 110 * c
        middle = top + 35
        f.box(100 - cell, top - cell, 7 * cell, 7 * cell, "#ffffff", GREY)
        plane(100, top, window, ORANGE)
        f.box(100 + 2 * cell, top + cell, 3 * cell, 3 * cell, "none", ORANGE, 2)
        f.text(20, middle + 4, f"channel {c}", size=11)
        f.arrow(100 + 5 * cell + 18, middle, 300, middle, ORANGE)
        f.text(244, middle - 6, "9 products", "middle", size=11)
        for i in range(9):
            f.box(304 + tap * (i % 3), middle - 30 + tap * (i // 3), tap, tap, LIGHT[BLUE], BLUE)
        if c == 1:
            f.line(368, middle, 444, middle)
        else:
            f.arrow(368, middle, 446, 199 + (c - 1) * 9)
    f.box(444, 187, 24, 24, LIGHT[GREEN], GREEN)
    f.text(456, 204, "+", "middle", bold=True, size=16)
    f.text(474, 224, "27 products,", size=11)
    f.text(474, 239, "one number", size=11)
    plane(580, 54, (), GREEN)
    f.text(660, 93, "channel k - 1", size=11)
    plane(580, 164, {(p, q) for p in range(5) for q in range(5)}, GREEN)
    f.box(580 + 3 * cell, 164 + 2 * cell, cell, cell, GREEN, GREEN)
    f.text(660, 203, "channel k", size=11, bold=True)
    plane(580, 274, (), GREEN)
    f.text(660, 313, "channel k + 1", size=11)
    f.arrow(470, 199, 580 + 3 * cell - 1, 199, GREEN)
    f.text(20, 388, "The white border is the padding: pixels that count as 0. The filter goes over all places of the image and fills channel k.", size=11)
    return f


def places():
    """The first page: the filter on its four places of the image."""
    f = Figure("The filter on its four places of the image, and the number that each place gives", 760, 250)
    image, taps, result = ((1, 2, 0), (0, 1, 3), (2, 1, 1)), ((1, 0), (-1, 2)), ((3, 7), (0, 2))
    for place in range(4):
        p, q = divmod(place, 2)
        left = 20 + 188 * place
        f.text(left, 24, f"place {p},{q}", bold=True)
        for i in range(9):
            row, column = divmod(i, 3)
            inside = 0 <= row - p < 2 and 0 <= column - q < 2
            x, y = left + 48 * column, 40 + 48 * row
            f.box(x, y, 48, 48, LIGHT[ORANGE] if inside else PALE, LINE)
            f.text(x + 24, y + 22, image[row][column], "middle", bold=inside)
            if inside:
                f.text(x + 24, y + 40, f"· {taps[row - p][column - q]}", "middle", BLUE, size=12)
        f.box(left + 48 * q, 40 + 48 * p, 96, 96, "none", ORANGE, 3)
        f.arrow(left + 72, 188, left + 72, 208, LINE)
        f.box(left + 48, 210, 48, 30, LIGHT[GREEN], GREEN)
        f.text(left + 72, 230, result[p][q], "middle", bold=True)
        f.text(left + 104, 230, f"y[{p}][{q}]", size=11)
    return f


def im2col():
    """Chapter 4: a window of the image becomes a column."""
    f = Figure("A window of the image becomes a column, and filters times columns is the result", 760, 350)
    f.text(20, 24, "image, 4x4; window, 3x3", bold=True)
    windows = [[(p + r) * 4 + q + s for r in range(3) for s in range(3)] for p in range(2) for q in range(2)]
    for i in range(16):
        inside = i in windows[1]
        f.box(20 + 36 * (i % 4), 40 + 36 * (i // 4), 36, 36, LIGHT[ORANGE] if inside else PALE, ORANGE if inside else LINE)
        f.text(38 + 36 * (i % 4), 63 + 36 * (i // 4), i, "middle")
    f.arrow(172, 94, 416, 94, ORANGE)
    f.text(182, 70, "window 0,1 becomes column 1,", size=11)
    f.text(182, 85, "row by row", size=11)
    f.text(440, 24, "columns, 9x4: one for each window", bold=True)
    for column, window in enumerate(windows):
        for row, pixel in enumerate(window):
            color = ORANGE if column == 1 else LINE
            f.box(420 + 38 * column, 40 + 26 * row, 38, 26, LIGHT[ORANGE] if column == 1 else PALE, color)
            f.text(439 + 38 * column, 58 + 26 * row, pixel, "middle")
    f.text(20, 232, "filter, as a row of 9", bold=True)
    for tap in range(9):
        f.box(20 + 36 * tap, 246, 36, 28, LIGHT[BLUE], BLUE)
        f.text(38 + 36 * tap, 265, f"w{tap}", "middle", size=11)
    f.text(385, 265, "·", "middle", bold=True, size=20)
    f.text(410, 314, "= result, 2x2", "end", bold=True)
    for column in range(4):
        f.box(420 + 38 * column, 294, 38, 30, LIGHT[GREEN], GREEN)
        f.text(439 + 38 * column, 314, f"{column // 2},{column % 2}", "middle", size=11)
    for y, word in ((80, "pixel 5 lies in"), (96, "all four windows,"), (112, "so it is in all"), (128, "four columns")):
        f.text(590, y, word, size=11)
    return f


def ring():
    """Chapter 10b: three rounds around the ring."""
    f = Figure("Four ranks in a ring: what each sends in the three rounds of the first trip", 780, 310)
    place = ((0, -80), (95, 0), (0, 80), (-95, 0))
    sent = (("1", "20", "300", "4000"), ("4004", "11", "220", "3300"), ("3303", "4044", "111", "2220"))
    for step, values in enumerate(sent):
        x0, y0 = 135 + 255 * step, 160
        f.text(x0, 28, f"round {step + 1}", "middle", bold=True)
        for rank, (x, y) in enumerate(place):
            nx, ny = place[(rank + 1) % 4]
            length = ((nx - x) ** 2 + (ny - y) ** 2) ** 0.5
            ux, uy = (nx - x) / length, (ny - y) / length
            f.arrow(x0 + x + 30 * ux, y0 + y + 30 * uy, x0 + nx - 30 * ux, y0 + ny - 30 * uy, ORANGE)
            side = 1 if x + nx > 0 else -1
            anchor = "start" if side > 0 else "end"
            for line, text in enumerate((f"chunk {(rank - step) % 4}", values[rank])):
                f.text(x0 + (x + nx) / 2 + 13 * side, y0 + (y + ny) / 2 + (-8 if y + ny < 0 else 8) + 13 * line, text, anchor, size=11)
        for rank, (x, y) in enumerate(place):
            f.box(x0 + x - 24, y0 + y - 15, 48, 30, LIGHT[BLUE], BLUE)
            f.text(x0 + x, y0 + y + 4.5, f"rank {rank}", "middle", size=12)
    f.text(20, 296, "Each number is what has been added up so far: the receiver adds its own chunk and sends the sum in the next round.", size=11)
    return f


def tape():
    """Chapter 3: the nodes, and the gradients that arrive at them."""
    f = Figure("The four nodes of loss = h · h + h with h = w · x + b, and the gradients that arrive", 760, 250)
    nodes = (("add#4", 60, "dy 1"), ("mul#3", 230, "dy 1"), ("add#2", 400, "dy 1 + 7 + 7 = 15"), ("mul#1", 570, "dy 15"))
    f.text(20, 24, "the backward pass runs from left to right: the largest number first", bold=True)
    for name, x, _ in nodes:
        f.bar(x, 100, 80, name, BLUE, 34)
    for name, x, arrived in nodes:
        f.text(x + 80, 152, arrived, "end", RED, size=12)
    f.text(20, 121, "loss", size=12)
    f.arrow(46, 117, 59, 117, LINE)
    f.arrow(140, 117, 229, 117)
    f.text(184, 111, "1", "middle")
    f.arrow(310, 110, 399, 110)
    f.arrow(310, 125, 399, 125)
    f.text(354, 104, "7", "middle")
    f.text(354, 140, "7", "middle")
    f.arrow(480, 117, 569, 117)
    f.text(524, 111, "15", "middle")
    f.line(100, 100, 100, 66)
    f.line(100, 66, 440, 66)
    f.arrow(440, 66, 440, 99)
    f.text(270, 60, "1", "middle")
    f.bar(410, 196, 60, "b", GREEN)
    f.line(490, 117, 490, 209)
    f.arrow(490, 209, 471, 209)
    f.text(498, 190, "15")
    f.bar(690, 104, 50, "w", GREEN)
    f.arrow(650, 117, 689, 117)
    f.text(668, 111, "30", "middle")
    f.text(640, 209, "x wants no gradient", size=11)
    f.line(610, 164, 610, 205, LINE, "4 3")
    f.line(610, 205, 634, 205, LINE, "4 3")
    return f


def float_bits():
    """Chapter 6: the bits of three types."""
    f = Figure("The bits of f32, bf16 and f16: sign, exponent, fraction", 720, 190)
    for row, (name, exponent, fraction, says) in enumerate((("f32", 8, 23, ""), ("bf16", 8, 7, "bias 127, as f32; at 1 steps of 2^-7"),
                                                            ("f16", 5, 10, "bias 15; at 1 steps of 2^-10"))):
        y = 36 + 44 * row
        f.text(20, y + 19, name, bold=True)
        for at in range(1 + exponent + fraction):
            color = RED if at == 0 else ORANGE if at <= exponent else BLUE
            f.box(70 + 20 * at, y, 20, 28, LIGHT[color], color)
            f.text(80 + 20 * at, y + 19, "s" if at == 0 else "e" if at <= exponent else "m", "middle", size=12)
        f.text(80 + 20 * (1 + exponent + fraction), y + 19, says, size=12)
    f.text(70, 24, "bias 127; at 1 steps of 2^-23", size=12)
    f.text(20, 180, "s: sign. e: exponent. m: fraction, the bits after the point", size=12)
    return f


def search():
    """Chapter 8: the 34 runs of a search, to scale."""
    f = Figure("The 34 runs of the search: engines 9, 7, 15 and 0, one after the other", 830, 215)
    left, scale, now = 95, 11, 0.0
    for row, (engine, ms, measurements) in enumerate(((9, 1.0, 3), (7, 2.0, 2), (15, 0.5, 3), (0, 3.0, 2))):
        y = 30 + 34 * row
        f.text(20, y + 16, f"engine {engine}")
        for run in range(1 + 3 * measurements):
            color = GREY if run == 0 else ORANGE if (run - 1) // 3 % 2 else BLUE
            f.box(left + scale * now, y, scale * ms, 22, LIGHT[color], color)
            now += ms
        f.text(left + scale * now + 8, y + 16, f"{1 + 3 * measurements} runs{'' if measurements == 3 else ': too slow, stops'}", size=12)
    f.arrow(left, 176, left + scale * 54, 176)
    for ms in (0, 10, 20, 30, 40, 50):
        f.line(left + scale * ms, 172, left + scale * ms, 180)
        f.text(left + scale * ms, 194, f"{ms} ms" if ms else 0, "middle", size=11)
    f.text(20, 210, "Grey: the run that warms up. Blue, orange, blue: the measurements.", size=11)
    return f


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


FIGURES = {"views.svg": views, "streams.svg": streams, "buckets.svg": buckets, "tiles.svg": tiles, "fused.svg": fused, "strides.svg": strides,
           "filter.svg": filter_through_channels, "im2col.svg": im2col, "ring.svg": ring, "tape.svg": tape,
           "float-bits.svg": float_bits, "search.svg": search, "segments.svg": segments, "loader.svg": loader,
           "launches.svg": launches, "places.svg": places}


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
