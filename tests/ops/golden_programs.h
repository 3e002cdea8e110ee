// The ops of golden_programs_test.cpp; their PyTorch twins are in
// golden_program_ops.py and golden_program_layers.py.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lathe/core/tensor.h"

namespace lathe::test {

using Ints = std::vector<int64_t>;

/// Op `name` of operands and integers; where a number is not whole the integer is a multiple of
/// 1/8. throws: Error for an unknown name.
Tensor run_golden_op(const std::string& name, const Tensors& t, const Ints& a);

}  // namespace lathe::test
