// nn::functional: the ops under the name that PyTorch gives them.
//   namespace F = lathe::nn::functional;
//   y = F::softmax(F::relu(x), 1);
#pragma once

#include "lathe/core/tensor.h"

namespace lathe::nn::functional {
using namespace lathe;
}  // namespace lathe::nn::functional
