// Sums of rows of a table, a bag of rows for each result: embedding_bag on the CPU. bag_sums.cpp:
// gradients; index_kernels/bag_sums_cpu.cpp: loops.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

/// Which rows of a table [rows,E] are in which bag. Bag b has the entries from begins[b] to
/// begins[b + 1] - 1. All tensors are i64, dense, on the CPU.
struct Bags {
  Tensor begins;    // [B + 1], from 0
  Tensor row;       // [J] or longer: the entry's row of the table, in range
  Tensor number;    // [J] or longer: the number of the entry's factor; undefined: j for entry j
  int64_t rows;     // of the table
  int64_t factors;  // the number of factors

  int64_t count() const { return begins.numel() - 1; }
};

/// y[b] = the sum of factors[number[j]] * x[row[j]] over the entries j of bag b, in their order;
/// with `means` divided by their number. An empty bag gives 0.
///   x        [rows,E], floats
///   factors  [factors], of the compute type of x's dtype; undefined: 1
///   →        [B,E] of the compute type
/// The bits do not depend on the number of threads.
/// grad: x, factors (without means), twice differentiable.
Tensor bag_sums(const Tensor& x, const Tensor& factors, const Bags& bags, bool means = false);

/// y[b] = the largest of the rows of bag b in each column. NaN is the largest. An empty bag gives
/// 0.
///   x  [rows,E], floats; fewer than 2^31 entries   →  [B,E] of x's dtype
/// grad: x, twice differentiable; the first of equal rows gets the gradient.
Tensor bag_maxima(const Tensor& x, const Bags& bags);

namespace cpu {
/// All tensors are dense here. y and factors have the compute type of x's dtype.
void bag_sums(const Tensor& y, const Tensor& x, const Tensor& factors, const Bags& bags,
              bool means);
/// y[number[j]] = the scalar product of x[row[j]] and z[b], for the entries j of each bag b; 0 for
/// a number that no entry has. y [factors] and z [B,E] have the compute type of x's dtype.
void bag_dots(const Tensor& y, const Tensor& x, const Tensor& z, const Bags& bags);
/// y [B,E] has x's dtype. at (i64 [B,E] or undefined) = the rows of the maxima; 0 for an empty bag.
void bag_maxima(const Tensor& y, const Tensor& at, const Tensor& x, const Bags& bags);
/// The table's rows as bags of the rows of y that take them, in the order of the entries: the bags
/// with which bag_sums() computes the gradient of its x.
Bags transposed(const Bags& bags);
}  // namespace cpu

}  // namespace lathe
