// StridedIndex: from a thread's linear index to the offsets of its elements. It is the loop nest of
// core/loop_nest.h on the device. For .cu files.
//
//   const LoopNest nest = make_nest(shape, {…}, LoopOrder::kRowMajor);
//   launch(kernel, …, StridedIndex<2>(nest), …);            // 32 bits: nest must fit
//   kernel:  const auto at = index(i);  y[at[0]] = x[at[1]];
//
// Position i of a row-major nest is element i of the shape. Where the order does not matter
// (pointwise.cuh), LoopOrder::kDensestInside makes neighbouring threads use neighbouring memory.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "lathe/core/config.h"
#include "lathe/core/loop_nest.h"

namespace lathe {

/// Division by a number that is known on the host.
template <class Index>
class Divider;

/// Below 2^31, by multiplication and shift: 3 instructions instead of about 20.
/// ref: Granlund & Montgomery 1994, "Division by invariant integers using multiplication".
template <>
class Divider<uint32_t> {
 public:
  Divider() = default;
  /// 1 <= divisor < 2^31.
  explicit Divider(int64_t divisor)
      : divisor_(static_cast<uint32_t>(divisor)), shift_(std::bit_width(divisor_ - 1)) {
    const uint64_t excess = (uint64_t{1} << shift_) - divisor_;
    multiplier_ = static_cast<uint32_t>((excess << 32) / divisor_ + 1);
  }
  /// n / divisor; n < 2^31.
  LATHE_HD uint32_t quotient(uint32_t n) const {
    const uint32_t high = static_cast<uint32_t>((uint64_t{n} * multiplier_) >> 32);
    return (high + n) >> shift_;
  }
  LATHE_HD uint32_t divisor() const { return divisor_; }

 private:
  uint32_t divisor_ = 1, multiplier_ = 1;
  int shift_ = 0;
};

/// Any size, by the processor's own division.
template <>
class Divider<uint64_t> {
 public:
  Divider() = default;
  explicit Divider(int64_t divisor) : divisor_(static_cast<uint64_t>(divisor)) {}
  LATHE_HD uint64_t quotient(uint64_t n) const { return n / divisor_; }
  LATHE_HD uint64_t divisor() const { return divisor_; }

 private:
  uint64_t divisor_ = 1;
};

/// The offsets of N operands, in the nest's units. Index is uint32_t if fits_32_bits(nest), else
/// uint64_t.
template <int N, class Index = uint32_t>
class StridedIndex {
 public:
  using Offset = std::make_signed_t<Index>;
  struct Offsets {
    Offset at[N];
    LATHE_HD Offset operator[](int k) const { return at[k]; }
  };

  StridedIndex() = default;
  /// Takes the nest's first N operands.
  explicit StridedIndex(const LoopNest& nest) : ndim_(nest.ndim) {
    static_assert(N <= kMaxOperands);
    for (int d = 0; d < ndim_; ++d) {
      size_[d] = Divider<Index>(nest.dims[d].size);
      for (int k = 0; k < N; ++k) step_[d][k] = static_cast<Offset>(nest.dims[d].step[k]);
    }
  }

  /// i < the nest's numel().
  LATHE_HD Offsets operator()(Index i) const {
    Offsets offsets = {};
    const int outermost = ndim_ - 1;
    for (int d = 0; d < outermost; ++d) {
      const Index rest = size_[d].quotient(i);
      add(offsets, d, i - rest * size_[d].divisor());
      i = rest;
    }
    add(offsets, outermost, i);
    return offsets;
  }

 private:
  LATHE_HD void add(Offsets& offsets, int d, Index coordinate) const {
    for (int k = 0; k < N; ++k) offsets.at[k] += static_cast<Offset>(coordinate) * step_[d][k];
  }

  int ndim_ = 1;
  Divider<Index> size_[kMaxDims];
  Offset step_[kMaxDims][N] = {};
};

}  // namespace lathe
