// Leaves and their numbers, for tests of the engine.
#pragma once

#include <initializer_list>
#include <vector>

#include "lathe/core/tensor.h"
#include "lathe/ops/creation.h"

namespace lathe::test {

using Floats = std::vector<float>;

inline Tensor leaf(std::initializer_list<float> values) { return tensor(values).requires_grad_(); }

/// None of an undefined tensor.
inline Floats values(const Tensor& t) { return t.defined() ? t.to_vector<float>() : Floats(); }

}  // namespace lathe::test
