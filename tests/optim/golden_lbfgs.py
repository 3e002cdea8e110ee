#!/usr/bin/env python3
"""Writes golden_lbfgs.h: the steps of PyTorch's LBFGS on Rosenbrock's function of four variables, in f64.

    golden_lbfgs.py > golden_lbfgs.h        (needs PyTorch; made with 1.13.0a0)
"""
import math

import torch
from torch.optim.lbfgs import _strong_wolfe

START = [-1.2, 1.0, -0.5, 0.8]
# name, options, steps; the options' names are those of LBFGSOptions, except for line_search_fn.
CASES = [
    ("fixed steps", dict(lr=0.002, max_iter=5), 4),
    ("line searches", dict(line_search_fn="strong_wolfe"), 3),
    ("a short history", dict(line_search_fn="strong_wolfe", history_size=2, max_iter=7), 5),
    ("few evaluations", dict(line_search_fn="strong_wolfe", max_eval=4), 5),
    ("a long first step", dict(line_search_fn="strong_wolfe", lr=50, max_iter=4), 3),
    ("a loose tolerance", dict(line_search_fn="strong_wolfe", tolerance_grad=0.5, tolerance_change=1e-3), 4),
]


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def run(options, steps):
    # Two parameters, so that the flat vector has a seam.
    a, b = (torch.tensor(part, dtype=torch.float64, requires_grad=True) for part in (START[:1], START[1:]))
    optimizer = torch.optim.LBFGS([a, b], **options)

    def closure():
        optimizer.zero_grad()
        loss = rosenbrock(torch.cat([a, b]))
        loss.backward()
        return loss

    for _ in range(steps):
        loss = float(optimizer.step(closure))
        state = optimizer.state[a]
        yield [loss, *a.tolist(), *b.tolist(), state["func_evals"], state["n_iter"]]


CURVES = {  # name: (loss, slope) at t
    "exp": lambda t: (math.exp(8 * (t - 1)) - 2 * t, 8 * math.exp(8 * (t - 1)) - 2),  # one steep side
    "wave": lambda t: (0.06 * math.sin(5 * t) + 0.05 * (t - 3) ** 2 - 0.2 * t,
                       0.3 * math.cos(5 * t) + 0.1 * (t - 3) - 0.2),  # several minima
    "line": lambda t: (-2 * t, -2.0),  # none
}


def searches():
    """Line searches: curve, first step, c2, length, evaluations."""
    one = torch.ones(1, dtype=torch.float64)
    for name, curve in CURVES.items():
        def at(_, t, __):
            loss, slope = curve(float(t))
            return loss, torch.tensor([slope], dtype=torch.float64)

        loss, gradient = at(None, 0, None)
        for first in (0.01, 0.5, 1.5, 3.0, 10.0):
            for c2 in (0.9, 0.1):
                _, _, t, evaluations = _strong_wolfe(at, None, first, one, loss, gradient, gradient.dot(one), c2=c2)
                yield name, first, c2, float(t), evaluations


def cpp_options(options):
    own = {name: value for name, value in options.items() if name != "line_search_fn"}
    texts = [f".{name} = {own[name]}" for name in
             ("lr", "max_iter", "max_eval", "tolerance_grad", "tolerance_change", "history_size") if name in own]
    return "{" + ", ".join(texts + [".strong_wolfe = true"] * ("line_search_fn" in options)) + "}"


def main():
    print(f"// Steps of PyTorch {torch.__version__}'s LBFGS. Written by golden_lbfgs.py.\n#pragma once\n")
    print('#include <vector>\n\n#include "lathe/optim/lbfgs.h"\n\nnamespace golden {\n')
    print("// clang-format off")
    print("inline const std::vector<double> kStart = {" + ", ".join(map(str, START)) + "};\n")
    print("struct LbfgsStep { double loss; std::vector<double> x; int64_t evaluations, iterations; };")
    print("struct LbfgsCase { const char* name; lathe::optim::LBFGSOptions options; std::vector<LbfgsStep> steps; };")
    print("inline const std::vector<LbfgsCase> kLbfgs = {")
    for name, options, steps in CASES:
        print(f'    {{"{name}", {cpp_options(options)}, {{')
        for loss, *x, evaluations, iterations in run(options, steps):
            print(f"        {{{loss!r}, {{{', '.join(map(repr, x))}}}, {evaluations}, {iterations}}},")
        print("    }},")
    print("};\n\nstruct LineCase { const char* curve; double first, curvature, t; int64_t evaluations; };")
    print("inline const std::vector<LineCase> kLineSearches = {")
    for name, first, c2, t, evaluations in searches():
        print(f'    {{"{name}", {first}, {c2}, {t!r}, {evaluations}}},')
    print("};\n// clang-format on\n\n}  // namespace golden")


if __name__ == "__main__":
    main()
