// Batches of one image, in which a batch norm may have no variance to compute.
#pragma once

#include <cstdint>

#include "lathe/core/device.h"
#include "lathe/tools/cli/settings/settings.h"
#include "lathe/tools/cli/training/compute.h"

namespace lathe::cli {

/// Refuses a training if one of its first `steps` steps has a batch of one image and the model
/// cannot train on such a batch. (The last batch of an epoch of `samples` images may have one
/// image.) `settings` are those of one rank. To find out, check_last_batch() runs a forward pass of
/// a model of its own. It draws from the default generators, so seed them afterwards.
/// throws: UsageError saying what helps; what training throws.
void check_last_batch(const Settings& settings, const ModelShape& shape, Device device,
                      int64_t samples, int64_t steps);

}  // namespace lathe::cli
