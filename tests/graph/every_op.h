// A program that calls every op of graph/op_table.cpp: op_table_test.cpp.
#pragma once

#include <string>

#include "lathe/core/tensor.h"

namespace lathe::testing {

/// Its text. The output is the last value, or with `all` every value.
std::string every_op_text(bool all);
/// Random inputs for it.
Tensors every_op_inputs();

}  // namespace lathe::testing
