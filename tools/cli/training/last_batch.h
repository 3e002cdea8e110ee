// Batches of one image, in which a batch norm may have no variance to compute.
#pragma once

#include <cstdint>

#include "lathe/core/device.h"
#include "lathe/tools/cli/settings/settings.h"
#include "lathe/tools/cli/training/compute.h"

namespace lathe::cli {

/// Refuses a training of this many steps in which a batch has one image, as the last of `samples`
/// may, if the model cannot take it. `settings`: what one rank computes.
/// Computes such a step forward with a model of its own, and draws from the default generators:
/// seed them afterwards.
/// throws: UsageError naming the way out; what training throws.
void check_last_batch(const Settings& settings, const ModelShape& shape, Device device,
                      int64_t samples, int64_t steps);

}  // namespace lathe::cli
