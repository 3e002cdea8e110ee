#!/usr/bin/env python3
"""Writes golden_special.h: special functions to far more digits than f64 has, rounded to f64.

    make_special_golden.py        (needs mpmath)
"""
import pathlib

import mpmath

mpmath.mp.dps = 500  # polygamma below 0 cancels
POSITIVE = [1e-3, 0.1, 0.5, 0.999, 1.0, 1.4616321449683623, 2.0, 3.25, 9.999, 10.0, 33.3, 1e3, 1e6]
NEGATIVE = [-0.1, -0.5, -1.75, -9.3, -50.5, -1e-3, -1e-8, -1e-12]
HIGH = [0.5, 12.0, 31.25, 99.0, 1e4, -0.5, -0.25, -1.75, -50.5]  # for polygamma of high order
INSIDE = [1e-8, 0.1, -0.5, 0.7, -0.71, 0.9, 0.999, -0.999999, 1 - 2.0**-30, -(1 - 2.0**-53)]


def rows():
    for x in POSITIVE + NEGATIVE:
        yield "lgamma", 0, x, mpmath.log(abs(mpmath.gamma(mpmath.mpf(x))))
        for n in (0, 1, 2, 5):
            yield "polygamma", n, x, mpmath.polygamma(n, mpmath.mpf(x))
    for x in HIGH:
        for n in (12, 30, 99):
            yield "polygamma", n, x, mpmath.polygamma(n, mpmath.mpf(x))
    yield "polygamma", 200, 100.0, mpmath.polygamma(200, mpmath.mpf(100))
    for x in INSIDE:
        yield "erfinv", 0, x, mpmath.erfinv(mpmath.mpf(x))


def main():
    lines = ["// Special functions at points. Written by make_special_golden.py.", "#pragma once", "",
             "struct GoldenSpecial {", "  const char* op;", "  int n;  // of polygamma", "  double x, y;", "};", "// clang-format off",
             "inline constexpr GoldenSpecial kGoldenSpecial[] = {"]
    lines += [f'    {{"{op}", {n}, {x!r}, {float(y)!r}}},' for op, n, x, y in rows()]
    lines += ["};", "// clang-format on", ""]
    pathlib.Path(__file__).with_name("golden_special.h").write_text("\n".join(lines))


if __name__ == "__main__":
    main()
