// Runs as a test writes them down, without a training.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "lathe/train/report/run_files.h"

namespace lathe::test {

inline constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

/// A row of metrics. What is not given is missing.
inline report::MetricsPoint row_of(int64_t epoch, int64_t step, std::string split, double loss,
                                   double accuracy) {
  report::MetricsPoint row{.epoch = epoch,
                           .step = step,
                           .split = std::move(split),
                           .loss = loss,
                           .accuracy = accuracy,
                           .lr = 0.1,
                           .images_per_second = kNoNumber,
                           .loss_scale = kNoNumber,
                           .skipped_steps = kNoNumber,
                           .memory = kNoNumber,
                           .memory_of_tag = {},
                           .time = {}};
  row.memory_of_tag.fill(kNoNumber);
  return row;
}

/// Two epochs of ten steps.
inline report::RunFiles made_run() {
  report::RunFiles run;
  run.folder = "/nowhere/runs/a";
  run.config = {{"epochs", "4"}, {"model", "net"}, {"dataset", "pets"}};
  run.metrics = {row_of(1, 5, "train", 2, 0.25), row_of(1, 10, "val", 1.5, 0.5),
                 row_of(2, 15, "train", 1, 0.75), row_of(2, 20, "val", 1.25, 0.4)};
  return run;
}

}  // namespace lathe::test
