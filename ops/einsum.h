// Sums of products in Einstein's notation (einsum.cpp, made of products and sums).
#pragma once

#include <string>

#include "lathe/core/tensor.h"

namespace lathe {

/// Sums products of the operands as `equation` says. For instance, "ij,jk->ik" has a letter for
/// each dimension of each operand, then the letters of the result. Letters missing in the result
/// are summed over.
///   - A letter has the same size in all operands; a size of 1 broadcasts.
///   - "..." stands for the dimensions that have no letter; they broadcast, aligned right.
///   - A letter that occurs twice in one operand takes its diagonal: "ii->i".
///   - Without "->" the result has the "..." first, then the letters that occur once, in
///     alphabetical order, capitals first.
///   einsum("bhqd,bhkd->bhqk", {q, k})    einsum("...ii", {x})    einsum("i,j,k->ijk", {a, b, c})
/// einsum multiplies the operands from left to right, each time by matmul. Their order therefore
/// decides the cost.
/// dtypes: numbers, all the same; sums over a single integer operand are i64.
/// grad: every operand, twice differentiable.   amp: half.
/// throws: ValueError for an equation that cannot be read; ShapeError if it does not fit the
/// operands; DTypeError, DeviceError.
LATHE_API Tensor einsum(const std::string& equation, const Tensors& operands);

}  // namespace lathe
