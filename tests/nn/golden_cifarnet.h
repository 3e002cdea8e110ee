// Losses of CifarNet as PyTorch 2.15.0 computes them. Written by golden_cifarnet.py.
#pragma once

// clang-format off
// 10 training steps, then an evaluation.
inline constexpr double kCifarNetLosses[] = {
    2.394642160420216,
    2.1790677486264762,
    2.555062203056395,
    2.6855384369115205,
    2.320000816449607,
    2.1584426385006816,
    2.644105227312628,
    2.5732320337781664,
    2.610942075361816,
    2.1774318377783235,
    7.779327775063202,
};
// clang-format on
