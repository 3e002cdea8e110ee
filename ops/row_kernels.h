// The CPU's elementwise kernels as values (core/row_kernel.h), by op and dtype. A row's operands:
// the result, then those of the op.
#pragma once

#include "lathe/core/row_kernel.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/unary.h"

namespace lathe::cpu {

/// Result, x.
/// throws: DTypeError if the op does not take `x`.
RowKernel unary_kernel(UnaryOp op, DType x, UnaryParams params);

/// Result, a, b; the latter have one dtype.
/// throws: DTypeError if the op does not take it.
RowKernel binary_kernel(BinaryOp op, DType operands);

/// Result, cond (bool), a, b; all but cond have one dtype.
RowKernel where_kernel(DType values);

// The sum of all elements of dense memory, piece by piece, with the bits of reduce(): each chunk of
// kSumChunk elements has a partial sum, to which its blocks of kSumBlock are added in turn.
inline constexpr int64_t kSumBlock = 1024, kSumChunk = 64 * kSumBlock;

/// The dtypes that the following take: those whose sums are of their own type.
constexpr bool has_sum_kernel(DType dtype) { return dtype == kF32 || dtype == kF64; }
/// *partial += the sum of a block of n numbers. All of `dtype`; a partial begins as 0.
void add_block_sum(DType dtype, void* partial, const void* block, int64_t n);
/// *out = the sum of the chunks' partials, which are used up, divided by `divisor`.
void join_sums(DType dtype, void* out, void* partials, int64_t chunks, int64_t divisor);

}  // namespace lathe::cpu
