// core/loop_nest.h and core/gpu/strided_index.cuh: the arithmetic from a linear index to offsets, against
// plain division and against nested counting.
#include "lathe/core/gpu/strided_index.cuh"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <vector>

using namespace lathe;

namespace {

constexpr int64_t kLimit = int64_t{1} << 31;

LoopNest nest_of(const Shape& shape, const std::vector<Strides>& strides, LoopOrder order) {
  std::vector<StridedOperand> operands;
  for (const Strides& s : strides) operands.push_back({nullptr, 1, s});
  return make_nest(shape, operands.data(), static_cast<int>(operands.size()), order);
}

/// The offset of row-major element i.
int64_t offset_of(int64_t i, const Shape& shape, const Strides& strides) {
  int64_t offset = 0;
  for (int d = shape.size() - 1; d >= 0; --d) {
    offset += i % shape[d] * strides[d];
    i /= shape[d];
  }
  return offset;
}

struct NestCase {
  Shape shape;
  Strides a, b;
  int ndim;  // of the nest in row-major order
};
const NestCase kCases[] = {
    {{}, {}, {}, 1},
    {{7}, {1}, {0}, 1},
    {{2, 3, 4}, {12, 4, 1}, {12, 4, 1}, 1},
    {{2, 3, 4}, {12, 4, 1}, {0, 0, 1}, 2},
    {{2, 3, 4}, {12, 4, 1}, {0, 1, 0}, 3},
    {{5, 1, 4}, {4, 99, 1}, {4, 7, 1}, 1},  // the size-1 dimension is dropped
    {{3, 5}, {5, 1}, {1, 3}, 2},
    {{3, 5}, {1, 3}, {1, 3}, 2},
    {{2, 3, 4, 5}, {60, 1, 15, 3}, {60, 20, 5, 1}, 3},  // NHWC against NCHW
    {{4, 3}, {6, 2}, {-3, -1}, 1},                      // one merged dimension, one backwards
    {{2, 1, 2, 1, 2, 1, 3, 2}, {24, 24, 12, 12, 6, 6, 2, 1}, {0, 1, 1, 1, 0, 1, 0, 5}, 4},
};

/// All offsets that an index makes, in its order.
template <class Index>
std::vector<std::pair<int64_t, int64_t>> walk(const LoopNest& nest) {
  const StridedIndex<2, Index> index(nest);
  std::vector<std::pair<int64_t, int64_t>> all;
  for (int64_t i = 0; i < nest.numel(); ++i) {
    const auto at = index(static_cast<Index>(i));
    all.push_back({at[0], at[1]});
  }
  return all;
}

}  // namespace

TEST_CASE("division by multiplying and shifting equals division") {
  std::vector<int64_t> numbers;
  for (int64_t n = 1; n < 300; ++n) numbers.push_back(n);
  for (int bit = 8; bit < 31; ++bit) {
    for (int64_t d = -1; d <= 1; ++d) numbers.push_back((int64_t{1} << bit) + d);
  }
  for (const int64_t n : {641LL, 65521LL, 1000003LL, 6700417LL, 715827883LL, 1431655765LL}) {
    numbers.push_back(n);
  }
  numbers.push_back(kLimit - 1);
  int64_t wrong = 0;
  for (const int64_t divisor : numbers) {
    const Divider<uint32_t> narrow(divisor);
    const Divider<uint64_t> wide(divisor);
    const auto check = [&](int64_t n) {
      if (n < 0 || n >= kLimit) return;
      if (narrow.quotient(static_cast<uint32_t>(n)) != n / divisor) ++wrong;
      if (wide.quotient(static_cast<uint64_t>(n)) != static_cast<uint64_t>(n / divisor)) ++wrong;
    };
    check(0);
    for (const int64_t n : numbers) check(n);
    for (const int64_t quotient : {1LL, 2LL, 1000LL, 65537LL}) {  // around the steps
      for (int64_t d = -1; d <= 1; ++d) check(quotient * divisor + d);
    }
    for (int64_t d = -1; d <= 1; ++d) check((kLimit - 1) / divisor * divisor + d);
  }
  CHECK(wrong == 0);
}

TEST_CASE("a row-major nest: position i is element i of the shape, for 32 and 64 bits") {
  for (const NestCase& c : kCases) {
    const LoopNest nest = nest_of(c.shape, {c.a, c.b}, LoopOrder::kRowMajor);
    CHECK(nest.ndim == c.ndim);
    CHECK(nest.numel() == numel_of(c.shape));
    std::vector<std::pair<int64_t, int64_t>> want;
    for (int64_t i = 0; i < numel_of(c.shape); ++i) {
      want.push_back({offset_of(i, c.shape, c.a), offset_of(i, c.shape, c.b)});
    }
    CHECK(walk<uint32_t>(nest) == want);
    CHECK(walk<uint64_t>(nest) == want);
  }
}

TEST_CASE("a nest in the densest order: the same pairs of elements, the first operand in order") {
  for (const NestCase& c : kCases) {
    const LoopNest nest = nest_of(c.shape, {c.a, c.b}, LoopOrder::kDensestInside);
    auto want = walk<uint32_t>(nest_of(c.shape, {c.a, c.b}, LoopOrder::kRowMajor));
    std::sort(want.begin(), want.end());
    CHECK(walk<uint32_t>(nest) == want);
  }
  // Two operands in one dense order, whichever: one dimension.
  const Strides nhwc = {60, 1, 15, 3};
  CHECK(nest_of({2, 3, 4, 5}, {nhwc, nhwc}, LoopOrder::kDensestInside).ndim == 1);
}

TEST_CASE("a nest beyond 32 bits is cut into parts that fit and make up the whole") {
  const struct {
    Shape shape;
    Strides a, b;
  } cases[] = {
      {{kLimit + 5}, {1}, {1}},
      {{3, kLimit / 2}, {kLimit / 2, 1}, {0, 1}},
      {{4096, 3}, {1 << 20, 1}, {3, 1}},                          // a column of a wide matrix
      {{70000, 70000}, {70000, 1}, {1, 70000}},                   // a transposed one
      {{2, 3, 2}, {kLimit, kLimit * 4, kLimit * 32}, {1, 2, 6}},  // each element is a part
  };
  for (const auto& c : cases) {
    const LoopNest nest = nest_of(c.shape, {c.a, c.b}, LoopOrder::kDensestInside);
    CHECK(!fits_32_bits(nest));
    int64_t elements = 0, parts = 0, largest_a = 0, largest_b = 0;
    std::set<int64_t> starts;
    each_32_bit_part(nest, [&](const LoopNest& part, const int64_t* start) {
      CHECK(fits_32_bits(part));
      elements += part.numel();
      ++parts;
      starts.insert(start[0]);
      int64_t last_a = start[0], last_b = start[1];
      for (int d = 0; d < part.ndim; ++d) {
        last_a += (part.dims[d].size - 1) * part.dims[d].step[0];
        last_b += (part.dims[d].size - 1) * part.dims[d].step[1];
      }
      largest_a = std::max(largest_a, last_a);
      largest_b = std::max(largest_b, last_b);
    });
    const int64_t n = numel_of(c.shape);
    CHECK(elements == n);
    CHECK(static_cast<int64_t>(starts.size()) == parts);
    CHECK(parts <= 16);
    CHECK(largest_a == offset_of(n - 1, c.shape, c.a));
    CHECK(largest_b == offset_of(n - 1, c.shape, c.b));
  }
  int parts = 0;
  const LoopNest small = nest_of({3, 5}, {{5, 1}, {1, 3}}, LoopOrder::kDensestInside);
  each_32_bit_part(small, [&](const LoopNest& part, const int64_t* start) {
    ++parts;
    CHECK(part.numel() == 15);
    CHECK(start[0] == 0);
    CHECK(start[1] == 0);
  });
  CHECK(parts == 1);
}
