// The weights, images and labels that golden_resnet.py and golden_cifarnet.py train with, made alike.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "golden_numbers.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/nn/module.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/inplace.h"

namespace lathe::test {

inline constexpr uint32_t kImages = 1000, kLabels = 2000;  // streams of numbers

inline void fill(nn::Module& net) {
  const NoGrad off;
  uint32_t k = 0;
  for (const auto& [name, p] : net.named_parameters()) {
    Tensor u = uniforms(k++, p.shape());
    if (p.ndim() == 2) {
      u.div_(std::sqrt(static_cast<double>(p.dim(1))));
    } else if (p.ndim() == 4) {
      u.mul_(std::sqrt(6.0 / static_cast<double>(p.dim(0) * p.dim(2) * p.dim(3))));
    } else {
      u.div_(10.0);
      if (name.ends_with("weight")) u.add_(1.0);
    }
    p.copy_(u);
  }
}

struct Batch {
  Tensor x, y;
};
inline Batch batch_of(uint32_t step, int64_t n, int64_t size, DType dtype) {
  std::vector<int64_t> labels;
  for (uint32_t i = 0; i < n; ++i) {
    labels.push_back(static_cast<int64_t>(std::floor((uniform(kLabels + step, i) + 1) * 5)));
  }
  return {(uniforms(kImages + step, {n, 3, size, size}) * 1.7).to(dtype), tensor(labels)};
}

}  // namespace lathe::test
