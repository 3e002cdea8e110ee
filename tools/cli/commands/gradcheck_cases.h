// The cases of `lathe gradcheck`: a small function around each op.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "lathe/core/tensor.h"

namespace lathe::cli {

struct GradcheckCase {
  std::string_view op;
  Tensors inputs;                           // f64
  std::function<Tensor(const Tensors&)> f;  // not linear in its inputs
};

/// All cases. The inputs are drawn from the default generator, away from kinks and poles.
std::vector<GradcheckCase> gradcheck_cases();

}  // namespace lathe::cli
