"""The figures of chapters 7 to 12."""
import math

from figure import BLUE, Figure, GREEN, GREY, INK, LIGHT, LINE, ORANGE, PALE, RED


def streams():
    """Chapter 7: what the host queues, and when two streams work."""
    f = Figure("Host and two streams: launches, two events, and a block that waits", 740, 250)
    f.timeline(("host", "stream 1", "stream 2"), 40, 60, 95, 720)
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


def segments():
    """Chapter 7: the segments and blocks of the program, after each of its steps."""
    f = Figure("The segments of the made-up device and their blocks, after each of five steps", 890, 416)
    # A MiB has 60 pixels in a small segment and 6 in a large one. Of a segment: left edge, bytes, kind. Of a block: label, begin, width, color.
    segments = {"one": (235, "2 MiB", "small, stream one"), "large": (365, "20 MiB", "large, stream one"), "two": (495, "2 MiB", "small, stream two"),
                "more": (625, "2 MiB", "small, stream one"), "last": (755, "20 MiB", "large, stream one")}
    blocks = {"a": ("", 0, 4, BLUE), "b": ("b", 4, 60, BLUE), "c": ("c", 4, 60, BLUE), "c waits": ("c waits", 4, 60, RED), "g": ("g", 4, 60, BLUE),
              "big": ("", 0, 18, BLUE), "x": ("x", 18, 72, BLUE), "d": ("d", 0, 60, ORANGE), "e": ("e", 0, 60, BLUE), "f": ("f", 60, 60, BLUE), "y": ("y", 0, 54, BLUE)}
    steps = ((("a, b and big come",), {"one": ("a", "b"), "large": ("big",)}, ("a", "b", "big")),
             (("b goes: c gets its place.", "Stream two asks for d"), {"one": ("a", "c"), "two": ("d",)}, ("c", "d")),
             (("c goes, but stream two used it,", "so e and f go elsewhere"), {"one": ("a", "c waits"), "more": ("e", "f")}, ("c waits", "e", "f")),
             (("the event is done:", "g gets the place of c"), {"one": ("a", "g")}, ("g",)),
             (("a training step: x fits behind", "big, y does not"), {"large": ("big", "x"), "last": ("y",)}, ("x", "y")))
    for x, size, kind in segments.values():
        f.text(x, 24, size, bold=True)
        f.text(x, 40, kind, size=11)
    inside = {}  # the blocks of each segment
    for row, (says, changed, new) in enumerate(steps):
        y = 56 + 60 * row
        inside |= changed
        f.text(20, y + 16, row + 1, bold=True)
        f.lines(38, y + 16, says)
        for segment, names in inside.items():
            x = segments[segment][0]
            f.box(x, y, 120, 34, "#ffffff", LINE)
            for name in names:
                label, begin, width, color = blocks[name]
                f.cell(x + begin, y, width, 34, label, *((LIGHT[color], color, 2) if name in new else (PALE, LINE, 1)), size=11, bold=name in new)
    f.lines(20, 370, ("Each row has all segments after its step. In colour: what the step changed. Grey: as it was. White: free.",
                      "Blue: blocks of stream one. Orange: of stream two. Red: given back, but waits for stream two.",
                      "The block at the left of the first segment is a, 1 KiB. That of the second is big, 3 MiB. Small segments are drawn on a scale ten times as large."), 17)
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
    jobs = (7, 6, 5, 4)
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
    for i, job in enumerate(jobs):
        x, y = places[job]
        f.arrow(297, (88 if job == 4 else 77) + 58 * i, x - 35, y, ORANGE)
    x, y = places[2]
    f.arrow(x + 35, y, 676, y, GREEN)
    f.bar(678, 151, 94, "batch 2 next", GREEN, 34)
    f.lines(678, 205, ("then 3, 4, …,", "in order"))
    f.text(20, 318, "Batches 0 and 1 were taken, so places 0 and 1 are free for jobs 8 and 9. Job 10 must wait until batch 2 is taken.", size=11)
    return f


def launches():
    """Chapter 10: a step launched kernel by kernel, and as one graph."""
    f = Figure("A step kernel by kernel: the GPU waits for the host. As a graph: one launch", 760, 260)
    for top, title in ((0, "kernel by kernel: a call takes longer than the kernel that it queues"), (130, "as a graph: one call queues all kernels")):
        f.text(20, top + 24, title, bold=True)
        f.timeline(("host", "GPU"), top + 38, 44, 75, 740)
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


def attention():
    """Chapter 11: scores, weights and results of three places, for all keys and for those that do not come later."""
    f = Figure("Scores, weights and results of three places, with all keys and without those that come later", 800, 330)
    queries, keys, values = ((2, 0), (0, 2), (2, 2)), ((1, 0), (0, 1), (1, 1)), ((4, 0), (0, 4), (8, 8))
    for top, says, hidden in ((40, "every query sees every key", False), (200, "no query sees a later key", True)):
        f.text(20, top - 18, says, bold=True)
        for left, name in ((110, "scores"), (350, "weights"), (590, "result")):
            f.text(left, top, name)
        for i, query in enumerate(queries):
            y = top + 10 + 34 * i
            f.text(96, y + 22, f"query {i + 1}", "end", size=12)
            scores = [sum(a * b for a, b in zip(query, key)) / 2**0.5 for key in keys]
            powers = [0 if hidden and j > i else math.exp(score) for j, score in enumerate(scores)]
            weights = [power / sum(powers) for power in powers]
            for j in range(3):
                later = hidden and j > i
                f.cell(110 + 60 * j, y, 60, 34, "-∞" if later else f"{scores[j]:.2f}", LIGHT[GREY] if later else PALE)
                f.box(350 + 60 * j, y, 60, 34, LIGHT[GREY] if later else "#ffffff", LINE)
                f.box(350 + 60 * j, y + 30, round(60 * weights[j], 1), 4, BLUE, BLUE)
                f.text(380 + 60 * j, y + 20, f"{weights[j]:.2f}", "middle")
            f.arrow(298, y + 17, 342, y + 17, LINE)
            f.arrow(538, y + 17, 582, y + 17, LINE)
            f.text(590, y + 22, "  ".join(f"{sum(w * v[c] for w, v in zip(weights, values)):.2f}" for c in range(2)))
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
            f.lines(left + 282, 130, ("largest score, sum,", "weighted values"))
    f.text(171, 276, "L = 2048: 16 MiB, twice", "middle")
    f.text(521, 276, "tile of 128: 64 KiB, for any L", "middle")
    f.line(20, 296, 810, 296, GREY, "2 3")
    f.text(45, 320, "the correction, for one query with the scores 1 3 | 2 5", bold=True)
    for x, scores, color, largest, total in ((75, (1, 3), GREY, "largest 3", "sum exp(-2) + 1 = 1.135"), (560, (2, 5), ORANGE, "largest 5", "sum 0.154 + exp(-3) + 1 = 1.203")):
        for i, score in enumerate(scores):
            f.cell(x + 40 * i, 336, 40, 28, score, LIGHT[color], color)
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
