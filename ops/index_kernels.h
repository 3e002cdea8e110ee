// What only the CPU can do, for the ops of index.h and pad.h; index_kernels/index_cpu.cpp and
// pad_cpu.cpp.
#pragma once

#include "lathe/ops/pad.h"

namespace lathe::cpu {

/// True if `index` (i64) is dense and all its values are in [0, size). False says nothing.
bool all_inside(const Tensor& index, int64_t size);

// Sums added to a tensor. x, index and y are those of the functions in ops/index.h.

/// y[:,r,:] = base[:,r,:] + the sum, from 0 on, of all x[:,k,:] with index[k] = r. base is dense
/// and has y's shape and dtype; where it is undefined, it counts as 0.
void index_sum(const Tensor& y, const Tensor& x, const Tensor& index, const Tensor& base);

/// True if the lines of index along dim are all those of y, and dense there.
bool has_whole_lines(const Tensor& y, int dim, const Tensor& index);
/// The same along dim. A base needs has_whole_lines().
void scatter_sum(const Tensor& y, const Tensor& x, int dim, const Tensor& index,
                 const Tensor& base);

/// y = base, but y[…,index,…] = x along dim, as scatter_write() of ops/index.h. Needs
/// has_whole_lines(); base is dense and has y's shape and dtype.
void scatter_write(const Tensor& y, const Tensor& x, int dim, const Tensor& index,
                   const Tensor& base);

/// True if pad_rows() can copy x to `part`: both are dense along their last dimension.
bool has_dense_rows(const Tensor& part, const Tensor& x);
/// part = x, which has its shape and dtype. The `before` elements in front of each row of part and
/// the `after` ones behind it become the row's border.
void pad_rows(const Tensor& part, const Tensor& x, int64_t before, int64_t after, PadMode mode);

}  // namespace lathe::cpu
