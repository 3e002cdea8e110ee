#!/usr/bin/env python3
"""Writes golden_schedules.h: learning rates of schedules as PyTorch computes them.

    golden_schedules.py > golden_schedules.h        (needs PyTorch; made with 2.15)
"""
import warnings

import torch
from torch.optim import lr_scheduler

METRICS = [1.0, 0.9, 0.95, 0.9, 0.89995, 0.7, 0.71, 0.72, 0.7, 0.6999, float("nan"), 0.8, 0.6, 0.61, 0.62, 0.63, 0.64, 0.5, 0.5, 0.5, 0.5]
STEPS = 21


def optimizer(lr):
    return torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=lr, momentum=0.9)


def rates(lr, make, step=lambda schedule, _: schedule.step(), count=STEPS):
    opt = optimizer(lr)
    schedule = make(opt)
    out = []
    for index in range(count):
        out.append(opt.param_groups[0]["lr"])
        opt.step()
        step(schedule, index)
    return out


def one_cycle(**options):
    # PyTorch refuses steps beyond the end: it is asked for as many as there are.
    return rates(1, lambda o: lr_scheduler.OneCycleLR(o, max_lr=0.8, total_steps=STEPS, cycle_momentum=False, **options))


def plateau(**options):
    return rates(0.4, lambda o: lr_scheduler.ReduceLROnPlateau(o, **options), lambda s, i: s.step(METRICS[i]))


def chained(opt):
    return lr_scheduler.ChainedScheduler([
        lr_scheduler.LinearLR(opt, start_factor=0.25, total_iters=6),
        lr_scheduler.StepLR(opt, step_size=4, gamma=0.5),
        lr_scheduler.PolynomialLR(opt, total_iters=30, power=1.5)])


def write(name, values):
    words = ["kNaN" if v != v else repr(float(v)) for v in values]
    lines, line = [], "   "
    for word in words:
        if len(line) + len(word) > 96:
            lines.append(line)
            line = "   "
        line += f" {word},"
    print(f"inline const std::vector<double> {name} = {{\n" + "\n".join([*lines, line]) + "\n};")


warnings.simplefilter("ignore")
print("""// Learning rates as PyTorch 2.15 computes them. Written by golden_schedules.py.
#pragma once

#include <limits>
#include <vector>

namespace golden {

// clang-format off
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();""")
write("kMetrics", METRICS)
write("kPolynomial", rates(0.1, lambda o: lr_scheduler.PolynomialLR(o, total_iters=15, power=2)))
write("kExponential", rates(0.1, lambda o: lr_scheduler.ExponentialLR(o, gamma=0.75)))
write("kWarmRestarts", rates(0.1, lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, T_0=3, T_mult=2, eta_min=0.01)))
write("kEqualRestarts", rates(0.1, lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, T_0=4)))
write("kOneCycle", one_cycle())
write("kOneCycleLinear", one_cycle(anneal_strategy="linear", pct_start=0.45, div_factor=10, final_div_factor=100))
write("kOneCycleThreePhase", one_cycle(three_phase=True, pct_start=0.4))
write("kPlateau", plateau(patience=1, factor=0.5))
write("kPlateauCooldown", plateau(patience=0, factor=0.1, cooldown=2, min_lr=1e-3))
write("kPlateauMaximize", plateau(mode="max", patience=2, factor=0.3, threshold=0.05, threshold_mode="abs"))
write("kChained", rates(0.2, chained))
print("// clang-format on\n\n}  // namespace golden")
