// The values that golden_logits.py and golden_models.py give a model, made here from the names of
// its entries alone. An entry under another name, or of another shape, changes every result.
#pragma once

#include <cmath>
#include <string>

#include "golden_numbers.h"
#include "lathe/core/files/crc32.h"
#include "lathe/nn/module.h"
#include "lathe/ops/inplace.h"

namespace lathe::test {

/// Convolutions: variance 2 / fan_out, of depthwise ones 2 / fan_in; matrices: u / sqrt(fan_in);
/// scales and variances: 1 + u / 10; counts: 7; the rest: u / 10.
inline Tensor golden_value(const std::string& name, const Tensor& entry) {
  if (name.ends_with("num_batches_tracked")) return tensor(int64_t{7});
  const Tensor u = uniforms(crc32(name.data(), name.size()), entry.shape());
  if (u.ndim() == 4) {
    const int64_t channels = u.dim(1) == 1 ? 1 : u.dim(0);
    return u.mul_(std::sqrt(6.0 / static_cast<double>(channels * u.dim(2) * u.dim(3))));
  }
  if (u.ndim() == 2) return u.div_(std::sqrt(static_cast<double>(u.dim(1))));
  u.div_(10.0);
  return name.ends_with("weight") || name.ends_with("running_var") ? u.add_(1.0) : u;
}

/// Of a part of a model, whose names in the model begin with `prefix`.
inline StateDict golden_weights(const nn::Module& net, const std::string& prefix = "") {
  StateDict out;
  for (const auto& [name, entry] : net.state_dict()) {
    out.add(name, golden_value(prefix + name, entry));
  }
  return out;
}

}  // namespace lathe::test
