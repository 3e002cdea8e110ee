"""The figures of the pages on training. The losses are what tiny/main.cpp computes in the 32 steps of its first epoch, with the changes
that docs/tour/training.md and docs/tour/recipe.md name."""
import math

from figure import BLUE, Figure, GREEN, GREY, INK, LINE, ORANGE, RED

LOSSES = {
    "rate 0.05": (
        2.34, 3.40, 6.78, 7.67, 7.16, 4.88, 3.13, 1.55, 1.03, 0.22, 0.49, 0.49, 0.53, 0.43, 0.47, 0.43, 0.45, 0.25, 0.21, 0.23, 0.13, 0.13, 0.13,
        0.14, 0.04, 0.13, 0.08, 0.10, 0.03, 0.03, 0.05, 0.06),
    "rate 0.005": (
        2.34, 2.45, 2.33, 2.25, 2.20, 2.24, 2.06, 1.82, 1.82, 1.66, 1.49, 1.31, 0.99, 0.94, 0.95, 0.71, 0.59, 0.50, 0.47, 0.38, 0.37, 0.34, 0.26,
        0.22, 0.19, 0.20, 0.18, 0.15, 0.15, 0.12, 0.16, 0.17),
    "rate 0.0005": (
        2.34, 2.49, 2.37, 2.50, 2.35, 2.43, 2.30, 2.27, 2.45, 2.31, 2.28, 2.24, 2.23, 2.27, 2.21, 2.21, 2.27, 2.27, 2.23, 2.05, 2.10, 2.07, 2.02,
        2.03, 1.99, 1.93, 1.95, 1.89, 1.91, 1.87, 1.81, 1.91),
    "clipped": (
        2.34, 2.44, 2.36, 2.18, 2.04, 2.04, 1.72, 1.44, 1.31, 1.02, 0.85, 0.70, 0.44, 0.36, 0.46, 0.28, 0.18, 0.26, 0.15, 0.12, 0.08, 0.06, 0.10,
        0.06, 0.05, 0.05, 0.03, 0.06, 0.01, 0.02, 0.04, 0.01),
    "warm-up": (
        2.34, 2.48, 2.34, 2.30, 2.26, 2.35, 1.97, 1.65, 1.67, 1.03, 0.76, 0.60, 0.35, 0.38, 0.50, 0.12, 0.16, 0.23, 0.25, 0.13, 0.13, 0.04, 0.06,
        0.03, 0.06, 0.12, 0.22, 0.05, 0.01, 0.07, 0.02, 0.16),
    "Adam": (
        2.34, 3.05, 2.95, 2.06, 2.00, 2.19, 2.09, 1.50, 1.74, 1.35, 1.21, 1.06, 0.94, 0.74, 0.75, 0.65, 0.63, 0.50, 0.41, 0.32, 0.28, 0.34, 0.31,
        0.29, 0.21, 0.18, 0.18, 0.15, 0.14, 0.11, 0.19, 0.13),
    "no momentum": (
        2.34, 3.40, 6.34, 7.14, 5.50, 3.25, 1.18, 0.87, 0.73, 0.49, 0.32, 0.32, 0.29, 0.27, 0.30, 0.34, 0.36, 0.31, 0.28, 0.25, 0.20, 0.15, 0.20,
        0.16, 0.17, 0.13, 0.13, 0.13, 0.11, 0.12, 0.14, 0.22),
    "no zero_grad()": (
        2.34, 3.40, 7.57, 8.82, 8.96, 6.18, 1.81, 1.03, 8.78, 20.30, 7.19, 2.53, 2.17, 2.93, 5.81, 5.20, 8.12, 11.02, 4.53, 5.07, 23.10, 25.43,
        49.75, 34.81, 41.42, 6.58, 3.76, 3.77, 3.52, 4.55, 4.65, 5.39),
    "rate 5": (
        2.34, 191.23, 11656.13, 35174.62, 9.64e+05, 4.85e+06, 6.89e+06, 2.02e+08, 9.56e+09, 6.63e+11, 5.36e+12, 7.46e+14, 1.78e+15, 5.16e+15,
        6.06e+16, 5.49e+17, 2.24e+19, 4.77e+20, 4.03e+20, 3.53e+22, 2.70e+24, 1.24e+23, 5.50e+24, 1.23e+27, 5.75e+27, 1.36e+28, 5.92e+28, 1.32e+27,
        5.46e+29, 1.98e+31, 4.04e+32, 9.10e+33),
    "uphill": (
        2.34, 4.08, 18.47, 84.91, 283.75, 962.24, 2838.49, 10135.34, 34232.45, 1.25e+05, 4.87e+05, 1.84e+06, 6.89e+06, 2.41e+07, 8.01e+07, 3.00e+08,
        1.07e+09, 4.08e+09, 1.58e+10, 4.24e+10, 1.64e+11, 5.76e+11, 1.88e+12, 6.97e+12, 2.55e+13, 9.59e+13, 3.55e+14, 1.34e+15, 5.00e+15, 1.83e+16,
        5.99e+16, 2.17e+17),
    "no label": (
        2.34, 2.90, 2.78, 5.10, 9.89, 16.47, 48.05, 148.45, 266.16, 695.98, 1083.14, 2404.63, 5127.15, 8482.56, 16708.56, 29730.78, 42444.34,
        74737.73, 1.20e+05, 1.88e+05, 3.42e+05, 5.93e+05, 1.46e+06, 2.60e+06, 3.80e+06, 7.00e+06, 1.20e+07, 2.44e+07, 3.74e+07, 7.18e+07, 1.42e+08,
        1.41e+08),
}

# (training images, test images) after each epoch of the runs of docs/tour/generalisation.md: the program prints them.
AS_THEY_ARE = (
    (1.36, 1.40), (1.26, 1.36), (1.17, 1.29), (1.07, 1.25), (1.00, 1.26), (0.90, 1.16), (0.75, 1.08), (0.69, 1.06), (0.59, 1.00), (0.55, 1.05),
    (0.55, 1.11), (0.56, 1.18), (0.42, 1.10), (0.40, 1.08), (0.33, 1.09), (0.27, 1.05), (0.26, 1.08), (0.25, 1.14), (0.23, 1.12), (0.21, 1.17),
    (0.17, 1.11), (0.18, 1.13), (0.16, 1.17), (0.14, 1.16), (0.13, 1.16), (0.13, 1.17), (0.13, 1.18), (0.12, 1.19), (0.11, 1.20), (0.11, 1.21),
    (0.10, 1.20), (0.10, 1.22), (0.10, 1.22), (0.10, 1.22), (0.09, 1.22), (0.09, 1.22), (0.09, 1.23), (0.09, 1.23), (0.09, 1.22), (0.09, 1.23))
SHIFTED = (
    (1.39, 1.40), (1.35, 1.37), (1.38, 1.35), (1.25, 1.22), (1.24, 1.21), (1.15, 1.09), (1.10, 1.05), (1.03, 0.93), (1.02, 0.89), (0.94, 0.77),
    (0.93, 0.71), (0.88, 0.66), (0.84, 0.62), (0.82, 0.60), (0.80, 0.57), (0.81, 0.56), (0.78, 0.51), (0.77, 0.49), (0.79, 0.50), (0.75, 0.48),
    (0.80, 0.54), (0.75, 0.48), (0.73, 0.48), (0.72, 0.48), (0.71, 0.47), (0.72, 0.48), (0.70, 0.48), (0.71, 0.48), (0.72, 0.49), (0.69, 0.47),
    (0.69, 0.48), (0.67, 0.46), (0.68, 0.47), (0.69, 0.47), (0.68, 0.47), (0.67, 0.46), (0.67, 0.46), (0.67, 0.45), (0.66, 0.45), (0.67, 0.45))


def axes(f, x, y, width, height, marks):
    """The axes of a panel, with an axis of 32 steps. `marks`: (what to write, its place in pixels above the axis)."""
    f.text(x, y - 8, "loss", "end", size=11)
    f.line(x, y, x, y + height)
    f.line(x, y + height, x + width, y + height)
    for name, up in marks:
        f.line(x, y + height - up, x + width, y + height - up, GREY, "2 3", 0.8)
        f.text(x - 6, y + height - up + 4, name, "end", size=11)
    for step in (1, 8, 16, 24, 32):
        f.text(x + width * (step - 1) / 31, y + height + 16, step, "middle", size=11)
    f.text(x + width / 2, y + height + 33, "step of the first epoch", "middle", size=11)


def curve(f, x, y, width, height, name, color, up, dash=None):
    """The losses of LOSSES[name]; `up`: pixels above the axis for a loss. It ends where it leaves the panel."""
    points = []
    for step, loss in enumerate(LOSSES[name]):
        points.append((x + width * step / 31, y + height - min(up(loss), height)))
        if up(loss) > height:
            break
    for (x1, y1), (x2, y2) in zip(points, points[1:]):
        f.line(round(x1, 1), round(y1, 1), round(x2, 1), round(y2, 1), color, dash, 2)


def loss_panel(title, curves, names):
    """Curves of a loss up to 8. `names`: (x, y, name, colour)."""
    f = Figure(title, 640, 330)
    axes(f, 50, 24, 480, 256, [(loss, 32 * loss) for loss in (0, 2, 4, 6, 8)])
    for name, color in curves:
        curve(f, 50, 24, 480, 256, name, color, lambda loss: 32 * loss)
    for x, y, name, color in names:
        f.text(x, y, name, fill=color)
    return f


def loss_curves():
    """Too large a rate, one that fits, and one that is too small."""
    return loss_panel("The loss of each step, with three rates", (("rate 0.05", RED), ("rate 0.005", BLUE), ("rate 0.0005", LINE)),
                      ((142, 56, "rate 0.05: triples before it falls", RED), (350, 198, "rate 0.0005: hardly moves", LINE),
                       (258, 244, "rate 0.005: falls nearly steadily", BLUE)))


def tamed():
    """Three cures for a rate that is too large."""
    return loss_panel("The loss of each step: a rate of 0.05, and three cures", (("rate 0.05", RED), ("clipped", GREEN), ("warm-up", BLUE), ("Adam", ORANGE)),
                      ((142, 56, "rate 0.05, nothing done", RED), (300, 102, "Adam, rate 0.003", ORANGE), (300, 122, "warm-up to 0.05", BLUE),
                       (300, 142, "rate 0.05, clipped at a norm of 1", GREEN)))


def broken():
    """Five of the six breakages, and the training as it should be, on a logarithmic axis."""
    f = Figure("The loss of each step, on a logarithmic axis, of the right training and of five broken ones", 800, 350)
    x, y, width, height = 60, 20, 560, 280

    def up(loss):
        return 40 * (math.log10(loss) + 2)

    axes(f, x, y, width, height, [(name, up(loss)) for name, loss in (("0.01", 0.01), ("0.1", 0.1), ("1", 1), ("10", 10), ("100", 100), ("1000", 1000), ("10⁴", 1e4), ("10⁵", 1e5))])
    for name, color, dash in (("rate 5", RED, None), ("uphill", ORANGE, None), ("no label", BLUE, None), ("no zero_grad()", GREEN, None),
                              ("no momentum", LINE, "5 3"), ("rate 0.05", INK, None)):
        curve(f, x, y, width, height, name, color, up, dash)
    for at, name, color in ((30, "5.0 for 0.05", RED), (50, "+= for -=, uphill", ORANGE), (70, "without the label", BLUE), (208, "without zero_grad()", GREEN),
                            (249, "without momentum", LINE), (274, "as it should be", INK)):
        f.text(632, at, name, fill=color, size=12)
    return f


def step_size():
    """The loss of docs/tour/one-step.md along its gradient, 1 - 2r + 15r², and what the slope promises."""
    f = Figure("The loss along the gradient, for each learning rate", 640, 320)
    at = lambda rate, loss: (round(60 + 3000 * rate, 1), round(30 + 600 * (1.1 - loss), 1))
    parabola = lambda rate: 1 - 2 * rate + 15 * rate * rate
    f.line(*at(0, 1.1), *at(0, 0.7))
    f.line(*at(0, 0.7), *at(0.16, 0.7))
    for loss in (0.7, 0.8, 0.9, 1, 1.1):
        f.line(*at(0, loss), *at(0.16, loss), INK if loss == 1 else GREY, "2 3", 0.8)
        f.text(54, at(0, loss)[1] + 4, loss, "end", size=11)
    for rate, name in ((0, "0"), (0.01, "0.01"), (1 / 15, "1/15"), (0.125, "1/8"), (2 / 15, "2/15")):
        x, y = at(rate, parabola(rate))
        f.line(x, y, x, at(0, 0.7)[1], GREY, "2 3", 0.8)
        f.text(x + (-4 if name == "1/8" else 4 if name == "2/15" else 0), 286, name, "end" if name == "1/8" else "start" if name == "2/15" else "middle", size=11)
    f.text(300, 304, "learning rate r", "middle", size=11)
    f.text(12, 18, "loss after the step", size=11)
    f.line(*at(0, 1), *at(0.15, 0.7), ORANGE, "5 3", 2)
    rates = [0.004 * i for i in range(41)]
    for begin, end in zip(rates, rates[1:]):
        f.line(*at(begin, parabola(begin)), *at(end, parabola(end)), BLUE, None, 2)
    for rate in (0, 0.01, 1 / 15, 0.125, 2 / 15):
        x, y = at(rate, parabola(rate))
        f.box(round(x - 3, 1), round(y - 3, 1), 6, 6, BLUE, BLUE)
    f.text(72, 236, "1 - 2r: what the gradient promises", fill=ORANGE)
    f.text(120, 80, "1 - 2r + 15r²: the loss", fill=BLUE)
    f.text(*(at(1 / 15, 0.933)[0], at(1 / 15, 0.933)[1] + 20), "the best rate", "middle", size=12)
    f.text(548, 76, "too far", size=12)
    return f


def descent(rate, steps, momentum=0.0, adam=False):
    """The places of a descent of (a² + 25 b²) / 2 from a = 10, b = 1. Adam's means are those of the page, with 0.9 and 0.999."""
    place, v, square = [10.0, 1.0], [0.0, 0.0], [0.0, 0.0]
    places = [tuple(place)]
    for t in range(1, steps + 1):
        for i, gradient in enumerate((place[0], 25 * place[1])):
            if adam:
                v[i], square[i] = 0.9 * v[i] + 0.1 * gradient, 0.999 * square[i] + 0.001 * gradient**2
                place[i] -= rate * v[i] / (1 - 0.9**t) / math.sqrt(square[i] / (1 - 0.999**t))
            else:
                v[i] = momentum * v[i] + gradient
                place[i] -= rate * v[i]
        places.append(tuple(place))
    return places


def valley():
    """Ten steps through a valley that is 25 times as steep across as along."""
    f = Figure("Ten steps in a narrow valley: SGD, SGD with momentum, and Adam", 640, 668)
    rows = ((20, 132, "SGD, rate 0.07: zigzags and creeps. Rate 0.1 (red): leaves the valley", ((descent(0.07, 10), BLUE), (descent(0.1, 2), RED))),
            (246, 350, "SGD with momentum 1/2, rate 0.1", ((descent(0.1, 10, momentum=0.5), GREEN),)),
            (462, 566, "Adam, rate 1", ((descent(1, 10, adam=True), ORANGE),)))
    for title_y, y, title, paths in rows:
        at = lambda place: (round(70 + 46 * place[0], 1), round(y - 46 * place[1], 1))
        f.text(12, title_y, title, bold=True)
        for loss in (2, 8, 18, 32, 50):  # on the ellipse a² + 25 b² is twice the loss
            f.ellipse(70, y, 46 * (2 * loss) ** 0.5, 46 * (2 * loss / 25) ** 0.5, GREY)
        f.box(67, y - 3, 6, 6, INK, INK)
        f.text(60, y + 4, "loss 0", "end", size=12)
        for path, color in paths:
            points = [at(place) for place in path]
            for begin, end in zip(points, points[1:]):
                f.line(*begin, *end, color, None, 2)
            for px, py in points:
                f.box(round(px - 2.5, 1), round(py - 2.5, 1), 5, 5, color, color)
        f.text(*at((10.2, 0.9)), "a = 10, b = 1", size=12)
    return f


def memorised():
    """The loss of the training images and of the test images, epoch by epoch: the images as they are, and shifted ones."""
    f = Figure("Loss of 200 training images and of 1000 test images, epoch by epoch", 700, 330)
    for x, title, epochs in ((50, "the images as they are", AS_THEY_ARE), (400, "shifted anew in each epoch", SHIFTED)):
        f.text(x, 20, title, bold=True)
        f.line(x, 40, x, 280)
        f.text(x - 6, 34, "loss", "end", size=11)
        for loss in (0, 0.5, 1, 1.5):
            y = 280 - 160 * loss
            f.line(x, y, x + 270, y, GREY if loss else INK, "2 3" if loss else None, 0.8 if loss else 1.2)
            f.text(x - 6, y + 4, loss, "end", size=11)
        place = lambda epoch, loss: (round(x + 270 * (epoch - 1) / 39, 1), round(280 - 160 * loss, 1))
        for epoch in (1, 10, 20, 30, 40):
            f.text(place(epoch, 0)[0], 296, epoch, "middle", size=11)
        f.text(x + 135, 314, "epoch", "middle", size=11)
        for which, color in ((0, BLUE), (1, RED)):
            points = [place(number + 1, losses[which]) for number, losses in enumerate(epochs)]
            for begin, end in zip(points, points[1:]):
                f.line(*begin, *end, color, None, 2)
    for x, y, name, color in ((210, 76, "test images", RED), (178, 222, "training images", BLUE), (560, 160, "training images", BLUE), (560, 234, "test images", RED)):
        f.text(x, y, name, fill=color)
    x = round(50 + 270 * 8 / 39, 1)
    f.line(x, 52, x, 280, INK, "4 3", 1)
    f.text(x + 4, 58, "epoch 9: stop here", size=12)
    return f
