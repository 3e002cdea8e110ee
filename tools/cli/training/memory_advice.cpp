// The advice after an OutOfMemoryError: measured with small batches, as profile::forecast_memory.
#include "lathe/tools/cli/training/memory_advice.h"

#include <algorithm>
#include <bit>
#include <exception>

#include "lathe/core/ceil_div.h"
#include "lathe/core/cuda.h"
#include "lathe/core/text/formatted.h"
#include "lathe/tools/cli/training/idle_flags.h"
#include "lathe/tools/cli/training/random_batch.h"

namespace lathe::cli {
namespace {

/// The most images of a batch that fit `bytes`; 0 if that cannot be measured.
int64_t fitting_batch(const Settings& settings, const ModelShape& shape, Device device,
                      nn::Module& model, optim::Optimizer& optimizer, int64_t bytes) try {
  const int64_t small = std::min<int64_t>(*settings.batch_size / 8, 32);
  if (small < 1) return 0;
  model.train();  // the error may have come in an evaluation
  optimizer.zero_grad();
  return forecast_steps(settings, shape, device, model, optimizer, small).largest_batch(bytes);
} catch (const std::exception&) {  // the error that is advised on must stay the one that is told
  return 0;
}

}  // namespace

std::string memory_advice(const Settings& settings, const ModelShape& shape, Device device,
                          nn::Module& model, optim::Optimizer& optimizer, int64_t had_bytes) {
  const int64_t batch = *settings.batch_size;
  const int64_t fits = fitting_batch(settings, shape, device, model, optimizer, had_bytes);
  const bool is_measured = 0 < fits && fits < batch;
  const int64_t smaller =
      is_measured ? static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(fits))) : batch / 2;
  std::string out;
  if (smaller >= 1) {
    out = formatted("--batch-size {} --accumulate {}", smaller,
                    settings.accumulate * ceil_div(batch, smaller));
    if (is_measured)
      out += formatted(" ({} images should fit, estimated from two small batches)", fits);
  }
  if (!settings.recompute && has_batch_norm(model))
    out += formatted("{}--recompute", out.empty() ? "" : ", ");
  if (settings.amp == "off") out += formatted("{}--amp bf16", out.empty() ? "" : ", ");
  return out.empty() ? "try a smaller --model or --image-size" : "try " + out;
}

}  // namespace lathe::cli
