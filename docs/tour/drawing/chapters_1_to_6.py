"""The figures of the first page and of chapters 1 to 6."""
from figure import BLUE, Figure, GREEN, GREY, INK, LIGHT, LINE, ORANGE, PALE, RED


def notes():
    """Chapter 2: what the library made for the step of the first page: tensors, Metas, nodes and edges."""
    f = Figure("From loss to w: tensors, their Metas, and the nodes of five ops with their edges", 800, 300)

    def tensor(x, name, numbers, width):
        f.bar(x, 40, 70, name, GREEN)
        f.bar(x + 100, 40, 90, "TensorImpl", GREY)
        f.bar(x + 220, 40, width, numbers, GREY)
        f.arrow(x + 70, 53, x + 99, 53)
        f.arrow(x + 190, 53, x + 219, 53)
        f.text(x + 220 + width / 2, 34, "Storage", "middle", size=11)

    tensor(20, "loss", "1", 40)
    tensor(490, "w", "1 0 -1 2", 70)
    f.bar(20, 114, 170, "Meta: grad_fn", ORANGE)
    f.arrow(140, 66, 140, 113)
    f.text(148, 94, "meta", size=11)
    f.arrow(60, 140, 60, 199)
    f.text(68, 174, "grad_fn", size=11)
    f.bar(480, 114, 170, "Meta: requires_grad, grad", ORANGE)
    f.arrow(610, 66, 610, 113)
    f.text(602, 94, "meta", "end", size=11)
    f.bar(370, 114, 70, "dw", GREEN)
    f.arrow(479, 127, 441, 127)
    f.text(460, 120, "grad", "middle", size=11)
    for i, name in enumerate(("mul 5", "sum 4", "mul 3", "sub 2", "conv2d 1")):
        x = 20 + 150 * i
        f.bar(x, 200, 90, name, BLUE, 34)
        if i == 2:
            f.arrow(x + 90, 210, x + 149, 210)
            f.arrow(x + 90, 225, x + 149, 225)
        elif i < 4:
            f.arrow(x + 90, 217, x + 149, 217)
        if i < 4:
            f.text(x + 120, 204, "Edge", "middle", size=11)
    f.arrow(670, 199, 670, 67)
    f.text(678, 174, "Edge, to a leaf", size=11)
    f.lines(20, 262, ("Blue: a Node for each op, with its number. mul 3 multiplies the error by itself, so both its edges lead to sub 2.",
                      "x and the target want no gradient: their edges lead nowhere. The 0.5 of mul 5 is a number and has no edge."), 18)
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
        f.cell(left + 48, 210, 48, 30, result[p][q], LIGHT[GREEN], GREEN, bold=True)
        f.text(left + 104, 230, f"y[{p}][{q}]", size=11)
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
                f.cell(left + 44 * j, 56 + 30 * i, 44, 30, offset + i * down + j * right, LIGHT[color], color)
        bottom = 56 + 30 * rows
        f.arrow(left, bottom + 10, left + 44, bottom + 10, RED)
        f.text(left + 50, bottom + 14, f"+{right}", fill=RED, size=11)
        f.arrow(left + 44 * columns + 10, 56, left + 44 * columns + 10, 86, RED)
        f.text(left + 44 * columns + 17, 76, f"+{down}", fill=RED, size=11)
    f.text(20, 236, "the memory of all three", bold=True)
    for at in range(12):
        taken = at % 4 in (1, 3)
        f.cell(20 + 54 * at, 250, 54, 30, at, LIGHT[GREEN] if taken else PALE, GREEN if taken else LINE)
    f.text(20, 306, "Each cell above says where its number lies. Red: how far the next column and the next row are. Green: what the slice has.", size=11)
    return f


def image_orders():
    """Chapter 1: an image of three channels in NCHW and in NHWC order."""
    f = Figure("An image of three channels and 2 x 2 pixels, in NCHW and in NHWC order", 790, 250)
    colors = (RED, GREEN, BLUE)
    f.text(20, 24, "one image: 3 channels of 2 x 2 pixels", bold=True)
    for c, color in enumerate(colors):
        for i in range(4):
            f.cell(20 + 110 * c + 40 * (i % 2), 36 + 26 * (i // 2), 40, 26, f"{'RGB'[c]}{i}", LIGHT[color], color, size=12)
    orders = (("NCHW: plane after plane", 120, [(c, i) for c in range(3) for i in range(4)], 4), ("NHWC: pixel after pixel", 190, [(c, i) for i in range(4) for c in range(3)], 1))
    for name, y, cells, step in orders:
        f.text(20, y + 10, name, bold=True)
        for at, (c, i) in enumerate(cells):
            f.cell(20 + 46 * at, y + 18, 46, 26, f"{'RGB'[c]}{i}", LIGHT[colors[c]], colors[c], 2.5 if i == 0 else 1, 12, i == 0)
        f.text(585, y + 36, f"channels of a pixel: {'side by side' if step == 1 else '4 apart'}", size=11)
    return f


def tape():
    """Chapter 2: the nodes, and the gradients that arrive at them."""
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


def op():
    """Chapter 3: the four acts of the program's cube, and its node in the backward pass."""
    f = Figure("The four acts of cube, and its node in the backward pass, with the numbers of the program", 790, 330)
    f.text(20, 24, "forward, from left to right", bold=True)
    f.bar(20, 70, 70, "1 2 -3", GREEN, 34)
    f.text(55, 62, "x", "middle")
    acts = (("1 cast", "under Autocast: to f32", 120), ("2 check", "floating? on a CPU?", 280), ("3 dispatch", "cpu::cube(x): the numbers", 440), ("4 record", "a node", 640))
    for name, says, x in acts:
        f.bar(x, 70, 90, name, BLUE, 34)
        f.text(x + 45, 62, says, "middle", size=11)
    for x, to in ((90, 120), (210, 280), (370, 440), (530, 640)):
        f.arrow(x, 87, to - 1, 87)
    f.text(585, 81, "y: 1 8 -27", "middle", size=11)
    f.arrow(325, 104, 325, 136, RED)
    f.text(325, 152, "throws: no node, nothing changed", "middle", RED, size=11)
    f.arrow(730, 87, 779, 87)
    f.text(755, 81, "y", "middle", size=11)
    f.arrow(685, 104, 685, 206, LINE, "4 3")
    f.text(677, 150, "makes", "end", size=11)
    f.line(20, 174, 770, 174, GREY, "2 3")
    f.text(20, 198, "backward, from right to left", bold=True)
    f.box(560, 208, 170, 74, LIGHT[ORANGE], ORANGE)
    for y, says in ((225, "Node \"cube\""), (241, "Saved: x, version 0"), (256, "dx = dy · 3 · x · x"), (271, "one edge: to the leaf x")):
        f.text(645, y, says, "middle", size=12 if y == 225 else 11)
    f.arrow(779, 245, 731, 245)
    f.text(755, 237, "dy", "middle", size=11)
    f.text(755, 262, "1 1 1", "middle", size=11)
    f.arrow(559, 245, 251, 245)
    f.text(405, 237, "dx = 1 · 3 · 1 · 1,  1 · 3 · 2 · 2,  1 · 3 · (-3) · (-3)", "middle", size=11)
    f.bar(180, 228, 70, "3 12 27", GREEN, 34)
    f.text(215, 220, "x.grad()", "middle")
    f.text(20, 318, "The program calls y.sum().backward(), and the gradient of a sum is 1 for each number: so dy is 1 1 1.", size=11)
    return f


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
            f.cell(110 + 49 * i, top + 42, 49, 30, value, LIGHT[RED] if changed else PALE, bold=changed)
        for y, name, cells, color in ((84, "x", range(12), GREY), (106, "row", range(4, 8), BLUE), (128, "corner", (5, 6, 9, 10), GREEN)):
            f.text(20, top + y + 12, name, fill=INK)
            for i in cells:
                f.box(112 + 49 * i, top + y, 45, 16, LIGHT[color], color)
    return f


def write_view():
    """Chapter 3b: the history of g before and after a write through a view, and the gradients that go back."""
    f = Figure("The history of g before and after tail.mul_(10), and the gradients that go back along it", 780, 330)
    f.text(20, 24, "before: g = w * 2, and tail is a view of its last two numbers", bold=True)
    f.bar(20, 44, 70, "w: 1 2 3", GREEN, 34)
    f.bar(150, 44, 80, "mul", BLUE, 34)
    f.bar(290, 44, 90, "g: 2 4 6", GREEN, 34)
    f.arrow(90, 61, 149, 61)
    f.arrow(230, 61, 289, 61)
    f.bar(440, 44, 90, "tail: 4 6", GREEN, 34)
    f.arrow(380, 61, 439, 61, LINE, "4 3")
    f.text(410, 54, "view", "middle", size=11)
    f.line(20, 98, 760, 98, GREY, "2 3")
    f.text(20, 122, "after tail.mul_(10): g has a new op, with two inputs", bold=True)
    f.bar(20, 150, 70, "w: 1 2 3", GREEN, 34)
    f.bar(150, 150, 80, "mul", BLUE, 34)
    f.bar(310, 220, 110, "mul by 10", BLUE, 34)
    f.bar(500, 150, 110, "write_view", ORANGE, 34)
    f.bar(670, 150, 90, "g: 2 40 60", GREEN, 34)
    f.arrow(90, 167, 149, 167)
    f.arrow(230, 167, 499, 167)
    f.text(365, 160, "the old values: 2 4 6", "middle", size=11)
    f.arrow(215, 184, 309, 237)
    f.text(258, 226, "slice: 4 6", "end", size=11)
    f.arrow(420, 237, 540, 185)
    f.text(492, 226, "the new part: 40 60", "start", size=11)
    f.arrow(610, 167, 669, 167)
    f.text(20, 282, "Back, from dg = 1 1 1:", size=12, bold=True, fill=RED)
    f.lines(180, 282, ("write_view hands 1 0 0 to the old values, and 1 1 to the new part.", "mul by 10 makes 10 10 of the 1 1, and the slice puts them into their places: 0 10 10.",
                       "They meet at the first mul: 1 10 10. Times 2 that is dw = 2 20 20."))
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
    f.lines(474, 224, ("27 products,", "one number"))
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


def im2col():
    """Chapter 4: a window of the image becomes a column."""
    f = Figure("A window of the image becomes a column, and filters times columns is the result", 760, 350)
    f.text(20, 24, "image, 4x4; window, 3x3", bold=True)
    windows = [[(p + r) * 4 + q + s for r in range(3) for s in range(3)] for p in range(2) for q in range(2)]
    for i in range(16):
        inside = i in windows[1]
        f.cell(20 + 36 * (i % 4), 40 + 36 * (i // 4), 36, 36, i, LIGHT[ORANGE] if inside else PALE, ORANGE if inside else LINE)
    f.arrow(172, 94, 416, 94, ORANGE)
    f.lines(182, 70, ("window 0,1 becomes column 1,", "row by row"))
    f.text(440, 24, "columns, 9x4: one for each window", bold=True)
    for column, window in enumerate(windows):
        for row, pixel in enumerate(window):
            f.cell(420 + 38 * column, 40 + 26 * row, 38, 26, pixel, LIGHT[ORANGE] if column == 1 else PALE, ORANGE if column == 1 else LINE)
    f.text(20, 232, "filter, as a row of 9", bold=True)
    for tap in range(9):
        f.cell(20 + 36 * tap, 246, 36, 28, f"w{tap}", LIGHT[BLUE], BLUE, size=11)
    f.text(385, 265, "·", "middle", bold=True, size=20)
    f.text(410, 314, "= result, 2x2", "end", bold=True)
    for column in range(4):
        f.cell(420 + 38 * column, 294, 38, 30, f"{column // 2},{column % 2}", LIGHT[GREEN], GREEN, size=11)
    f.lines(590, 80, ("pixel 5 lies in", "all four windows,", "so it is in all", "four columns"), 16)
    return f


def winograd_tiles():
    """Chapter 4b: tiles of 4x4 pixels that begin 2 apart, and their 2x2 outputs."""
    f = Figure("Four tiles of 4x4 pixels, 2 apart, and the 2x2 outputs of each", 790, 305)
    cell = 34
    f.text(20, 24, "6x6 pixels, four tiles of 4x4", bold=True)
    for i in range(36):
        p, q = divmod(i, 6)
        a, b = p < 4 and q < 4, p < 4 and q >= 2
        f.box(20 + cell * q, 46 + cell * p, cell, cell, LIGHT[GREEN] if a and b else LIGHT[BLUE] if a else LIGHT[ORANGE] if b else PALE, LINE)
    f.box(20, 46, 4 * cell, 4 * cell, "none", BLUE, 3)
    f.box(20 + 2 * cell, 46, 4 * cell, 4 * cell, "none", ORANGE, 3)
    f.text(280, 24, "each tile: 16 products for 4 outputs", bold=True)
    steps = (("V = Bᵀ d B", "4x4 from 4x4 pixels"), ("M = U * V", "16 products"), ("y = Aᵀ M A", "2x2 from 4x4"))
    for i, (name, says) in enumerate(steps):
        f.bar(330, 46 + 72 * i, 130, name, GREY, 34)
        f.text(395, 46 + 72 * i + 49, says, "middle", size=11)
        if i < 2:
            f.arrow(395, 46 + 72 * i + 53, 395, 46 + 72 * (i + 1) - 1, LINE)
    f.arrow(20 + 6 * cell + 6, 63, 328, 63, LINE)
    f.arrow(462, 207, 576, 130, LINE)
    f.text(580, 24, "4x4 outputs", bold=True)
    for i in range(16):
        p, q = divmod(i, 4)
        color = BLUE if p < 2 and q < 2 else ORANGE if p < 2 else None
        f.box(580 + cell * q, 46 + cell * p, cell, cell, LIGHT[color] if color else PALE, LINE)
    f.box(580, 46, 2 * cell, 2 * cell, "none", BLUE, 3)
    f.box(580 + 2 * cell, 46, 2 * cell, 2 * cell, "none", ORANGE, 3)
    f.lines(580, 204, ("Outputs lie side by side,", "pixels overlap: an output", "needs 3x3 pixels, so 2x2", "outputs need 4x4."))
    f.text(20, 276, "Blue frame: tile 0,0. Orange frame: tile 0,1. Green: pixels that both read. Tiles 1,0 and 1,1 begin two rows further down.", size=11)
    f.text(20, 292, "U = G g Gᵀ is made of the filter, once for all tiles.", size=11)
    return f


def shadows():
    """Chapter 5: what batch norm's gradient takes from g."""
    f = Figure("From g to dx: take away the mean, and what points along h", 790, 250)
    deviations, g = (-3, -2, 0, 0, 5), (-1, 0, 0, 1, 2)
    mean = sum(g) / 5
    along = sum(a * b for a, b in zip(g, deviations)) / sum(b * b for b in deviations)  # mean(g h) h = along (x - mean), eps aside
    panels = (("g", g, BLUE), ("mean(g)", [mean] * 5, ORANGE), ("h · mean(g · h)", [along * b for b in deviations], ORANGE),
              ("what is left", [a - mean - along * b for a, b in zip(g, deviations)], GREEN))
    for panel, (name, values, color) in enumerate(panels):
        left = 20 + 200 * panel
        f.text(left + 75, 24, name, "middle", bold=True)
        f.line(left, 150, left + 150, 150, LINE)
        for i, value in enumerate(values):
            height = round(abs(value) * 45, 1)
            if height:
                f.box(left + 4 + 30 * i, round(150 - height, 1) if value > 0 else 150, 22, height, LIGHT[color], color)
            label = f"{value:.2f}".rstrip("0").rstrip(".")
            f.text(left + 15 + 30 * i, round(144 - height, 1) if value >= 0 else round(162 + height, 1), label, "middle", size=10)
        if panel < 3:
            f.text(left + 175, 156, "--="[panel], "middle", bold=True, size=18)
    f.text(20, 238, "What is left adds up to 0, and so do its products with h. Multiply it by s = 0.36274: that is dx.", size=11)
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
            f.cell(70 + 20 * at, y, 20, 28, "s" if at == 0 else "e" if at <= exponent else "m", LIGHT[color], color, size=12)
        f.text(80 + 20 * (1 + exponent + fraction), y + 19, says, size=12)
    f.text(70, 24, "bias 127; at 1 steps of 2^-23", size=12)
    f.text(20, 180, "s: sign. e: exponent. m: fraction, the bits after the point", size=12)
    return f


# Chapter 6: the gradients of the second convolution's output in step 40 of tiny/main.cpp with a rate of 0.005, by their exponents from -41 to -9.
GRADIENTS = (1, 0, 0, 0, 1, 4, 2, 8, 14, 36, 70, 116, 283, 473, 975, 1934, 3903, 8462, 29438, 31942, 43610, 31763,
             16454, 5946, 4461, 5466, 6189, 4940, 2724, 1081, 266, 131, 11)


def window():
    """Chapter 6: gradients below the numbers of f16, and the same times 65536."""
    f = Figure("Gradients of a small network by size, without a scale and times 65536, and the numbers of f16", 800, 400)

    def place(exponent):
        return 50 + 11 * (exponent + 46)

    for top, shift, says in ((40, 0, "without a scale: 4 in 100 are too small for f16, 92 in 100 are subnormal"),
                             (228, 16, "times 65536 = 2¹⁶: 1 of 200,704 is too small, 135 are subnormal, all others normal")):
        f.text(20, top - 14, says, bold=True)
        f.box(place(-24), top, place(16) - place(-24), 120, LIGHT[GREEN], GREEN)
        f.text(place(16) - 6, top + 16, "f16: 2⁻²⁴ to 65504", "end", GREEN, size=11)
        f.line(place(-14), top, place(-14), top + 120, GREEN, "4 3")
        f.text(place(-14) - 5, top + 16, "subnormal", "end", GREEN, size=11)
        f.text(place(-14) + 5, top + 16, "normal", fill=GREEN, size=11)
        for i, count in enumerate(GRADIENTS):
            if not count:
                continue
            exponent = i - 41 + shift
            height = max(1, round(count / 500))
            color = RED if exponent < -24 else ORANGE if exponent < -14 else BLUE
            f.box(place(exponent), top + 120 - height, 10, height, color, color)
        f.line(40, top + 120, 760, top + 120)
        for exponent, name in ((-40, "2⁻⁴⁰"), (-24, "2⁻²⁴"), (-14, "2⁻¹⁴"), (0, "1"), (15, "2¹⁵")):
            f.text(place(exponent) + 5, top + 135, name, "middle", size=11)
    f.text(20, 392, "A bar for each power of two. Red: becomes 0, or at best the smallest number. Orange: loses bits. Blue: keeps all of them.", size=11)
    return f
