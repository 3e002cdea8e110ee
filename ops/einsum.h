// Sums of products in Einstein's notation (einsum.cpp, made of products and sums).
#pragma once

#include <string>

#include "lathe/core/tensor.h"

namespace lathe {

/// "ij,jk->ik": a letter for each dimension of each operand, and the letters of the result. What
/// the result does not name is summed over.
///   - A letter has one size everywhere, or 1, which broadcasts.
///   - "..." stands for the dimensions that have no letter; they broadcast, aligned right.
///   - A letter that one operand has twice is its diagonal: "ii->i".
///   - Without "->" the result has the "..." first, then the letters that occur once, in
///     alphabetical order, capitals first.
///   einsum("bhqd,bhkd->bhqk", {q, k})    einsum("...ii", {x})    einsum("i,j,k->ijk", {a, b, c})
/// Operands are contracted from left to right, each step by matmul, so their order decides the
/// cost.
/// dtypes: floats, all the same; numbers where no letter is summed over two operands.
/// grad: every operand (twice).   amp: half.
/// throws: ValueError for an equation that cannot be read; ShapeError where it does not fit the
/// operands; DTypeError, DeviceError.
LATHE_API Tensor einsum(const std::string& equation, const Tensors& operands);

}  // namespace lathe
