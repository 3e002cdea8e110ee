// What a training that ran out of memory could do, with the batch that would have fitted.
#pragma once

#include <cstdint>
#include <string>

#include "lathe/core/device.h"
#include "lathe/nn/module.h"
#include "lathe/optim/optimizer.h"
#include "lathe/tools/cli/settings/settings.h"
#include "lathe/tools/cli/training/compute.h"

namespace lathe::cli {

/// Advice for a training that ran out of memory: "try --batch-size 24 --accumulate 2 (24 images
/// should fit, estimated from two small batches), --amp bf16". memory_advice() measures training
/// steps with at most 64 images. These steps change the model, so call it when the run is over. If
/// the memory does not suffice for these steps, it advises half the batch.
///   had_bytes  the peak of tensors on `device` before the failure; it counts as the limit
/// throws: std::bad_alloc.
std::string memory_advice(const Settings& settings, const ModelShape& shape, Device device,
                          nn::Module& model, optim::Optimizer& optimizer, int64_t had_bytes);

}  // namespace lathe::cli
