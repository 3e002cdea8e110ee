// CPU kernels of ops/bag_sums.h. Threads divide the bags, and each bag is added up in its order, so
// the bits do not depend on the number of threads. A block of columns stays in registers while the
// loop goes through the bag's rows. Those lie anywhere in the table, so each is fetched some rows
// before its turn.
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "lathe/core/thread_pool.h"
#include "lathe/core/visit.h"
#include "lathe/ops/bag_sums.h"
#include "lathe/ops/creation.h"

namespace lathe::cpu {

namespace {

constexpr int64_t kTask = 1 << 15;  // the least number of additions for one thread
constexpr int64_t kAhead = 8;       // entries from fetching a row to adding it
constexpr int64_t kLine = 64;       // bytes

template <class T>
struct Entries {
  const T* x;
  const int64_t *begins, *row, *number;
  int64_t width, count;  // of the table's rows; of all entries

  Entries(const Tensor& table, const Bags& bags)
      : x(table.data<T>()),
        begins(bags.begins.data<int64_t>()),
        row(bags.row.data<int64_t>()),
        number(bags.number.defined() ? bags.number.data<int64_t>() : nullptr),
        width(table.dim(1)),
        count(begins[bags.count()]) {}

  [[gnu::always_inline]] const T* at(int64_t j, int64_t column) const {
    return x + row[j] * width + column;
  }
  [[gnu::always_inline]] void fetch_after(int64_t j, int64_t column, int64_t columns) const {
    if (j + kAhead >= count) return;
    const auto* const from = reinterpret_cast<const char*>(at(j + kAhead, column));
    const int64_t bytes = columns * int64_t{sizeof(T)};
    for (int64_t byte = 0; byte < bytes; byte += kLine) __builtin_prefetch(from + byte);
  }
};

/// The block's numbers of one row in the compute type; `room` is for those of a half type.
template <int64_t kBlock, class T>
[[gnu::always_inline]] inline const ComputeType<T>* widened(const T* from, ComputeType<T>* room) {
  if constexpr (std::is_same_v<T, ComputeType<T>>) {
    return from;
  } else {
    convert(room, from, kBlock);
    return room;
  }
}

template <int64_t kBlock, bool kWeighted, class T, class C>
[[gnu::always_inline]] inline void sum_block(C* y, const Entries<T>& in, const C* factors,
                                             int64_t begin, int64_t end, int64_t column,
                                             C divisor) {
  C sums[kBlock] = {}, room[kBlock];
  for (int64_t j = begin; j < end; ++j) {
    const C* const from = widened<kBlock>(in.at(j, column), room);
    in.fetch_after(j, column, kBlock);
    if constexpr (kWeighted) {
      const C factor = factors[in.number != nullptr ? in.number[j] : j];
      for (int64_t c = 0; c < kBlock; ++c) sums[c] += factor * from[c];
    } else {
      for (int64_t c = 0; c < kBlock; ++c) sums[c] += from[c];
    }
  }
  if (divisor != C(1)) {
    for (int64_t c = 0; c < kBlock; ++c) sums[c] /= divisor;
  }
  for (int64_t c = 0; c < kBlock; ++c) y[column + c] = sums[c];
}

template <bool kWeighted, class T, class C>
LATHE_CLONES void sum_bags(C* y, const Entries<T>& in, const C* factors, bool means, int64_t first,
                           int64_t last) {
  for (int64_t bag = first; bag < last; ++bag) {
    C* const to = y + bag * in.width;
    const int64_t begin = in.begins[bag], end = in.begins[bag + 1];
    const C divisor = means && end > begin ? C(end - begin) : C(1);
    int64_t column = 0;
    for (; column + 64 <= in.width; column += 64) {
      sum_block<64, kWeighted>(to, in, factors, begin, end, column, divisor);
    }
    for (; column + 16 <= in.width; column += 16) {
      sum_block<16, kWeighted>(to, in, factors, begin, end, column, divisor);
    }
    for (; column + 4 <= in.width; column += 4) {
      sum_block<4, kWeighted>(to, in, factors, begin, end, column, divisor);
    }
    for (; column < in.width; ++column) {
      sum_block<1, kWeighted>(to, in, factors, begin, end, column, divisor);
    }
  }
}

/// The sums of 16 lanes, added up in pairs.
template <class T, class C>
LATHE_CLONES void dots_of_bags(C* y, const Entries<T>& in, const C* z, int64_t first,
                               int64_t last) {
  constexpr int64_t kLanes = 16;
  for (int64_t bag = first; bag < last; ++bag) {
    const C* const other = z + bag * in.width;
    for (int64_t j = in.begins[bag]; j < in.begins[bag + 1]; ++j) {
      C lanes[kLanes] = {}, room[kLanes];
      in.fetch_after(j, 0, in.width);
      int64_t column = 0;
      for (; column + kLanes <= in.width; column += kLanes) {
        const C* const from = widened<kLanes>(in.at(j, column), room);
        for (int64_t c = 0; c < kLanes; ++c) lanes[c] += from[c] * other[column + c];
      }
      for (int64_t c = 0; column + c < in.width; ++c) {
        lanes[c] += C(*in.at(j, column + c)) * other[column + c];
      }
      for (int64_t half = kLanes / 2; half > 0; half /= 2) {
        for (int64_t c = 0; c < half; ++c) lanes[c] += lanes[c + half];
      }
      y[in.number != nullptr ? in.number[j] : j] = lanes[0];
    }
  }
}

/// The comparison is false for a NaN among `largest`, which stays, and true for the first in `x`.
template <int64_t kBlock, class T>
[[gnu::always_inline]] inline void largest_block(T* y, int64_t* at, const Entries<T>& in,
                                                 int64_t begin, int64_t end, int64_t column) {
  using C = ComputeType<T>;
  using Number = std::conditional_t<sizeof(C) == 4, int32_t, int64_t>;  // as wide, for vector code
  C largest[kBlock], room[kBlock];
  Number winner[kBlock] = {};
  const C* const x = widened<kBlock>(in.at(begin, column), room);
  for (int64_t c = 0; c < kBlock; ++c) largest[c] = x[c];
  for (int64_t j = begin + 1; j < end; ++j) {
    const C* const from = widened<kBlock>(in.at(j, column), room);
    in.fetch_after(j, column, kBlock);
    const auto number = static_cast<Number>(j - begin);
    for (int64_t c = 0; c < kBlock; ++c) {
      const bool wins = !(from[c] <= largest[c]) & (largest[c] == largest[c]);
      largest[c] = wins ? from[c] : largest[c];
      winner[c] = wins ? number : winner[c];
    }
  }
  for (int64_t c = 0; c < kBlock; ++c) y[column + c] = T(largest[c]);
  if (at == nullptr) return;
  for (int64_t c = 0; c < kBlock; ++c) at[column + c] = in.row[begin + winner[c]];
}

template <class T>
LATHE_CLONES void largest_of_bags(T* y, int64_t* at, const Entries<T>& in, int64_t first,
                                  int64_t last) {
  for (int64_t bag = first; bag < last; ++bag) {
    T* const to = y + bag * in.width;
    int64_t* const rows = at != nullptr ? at + bag * in.width : nullptr;
    const int64_t begin = in.begins[bag], end = in.begins[bag + 1];
    if (begin == end) {
      std::fill_n(to, in.width, T(0.f));
      if (rows != nullptr) std::fill_n(rows, in.width, 0);
      continue;
    }
    int64_t column = 0;
    for (; column + 32 <= in.width; column += 32) {
      largest_block<32>(to, rows, in, begin, end, column);
    }
    for (; column + 8 <= in.width; column += 8) {
      largest_block<8>(to, rows, in, begin, end, column);
    }
    for (; column < in.width; ++column) largest_block<1>(to, rows, in, begin, end, column);
  }
}

/// Calls body(first, last) for ranges of bags, with enough of them for one thread.
template <class T, class Body>
void each_bag(const Bags& bags, const Entries<T>& in, Body body) {
  const int64_t count = bags.count();
  const double work = (static_cast<double>(in.count) + static_cast<double>(count)) *
                      static_cast<double>(in.width + 1);
  const double tasks = std::max(1.0, work / static_cast<double>(kTask));
  parallel_for(
      count, std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(count) / tasks)), body);
}

}  // namespace

void bag_sums(const Tensor& y, const Tensor& x, const Tensor& factors, const Bags& bags,
              bool means) {
  visit_float(x.dtype(), "bag_sums", [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const Entries<T> in(x, bags);
    each_bag(bags, in, [&](int64_t first, int64_t last) {
      if (factors.defined()) {
        sum_bags<true>(y.data<C>(), in, static_cast<const C*>(factors.data<C>()), means, first,
                       last);
      } else {
        sum_bags<false, T, C>(y.data<C>(), in, nullptr, means, first, last);
      }
    });
  });
}

void bag_dots(const Tensor& y, const Tensor& x, const Tensor& z, const Bags& bags) {
  visit_float(x.dtype(), "bag_dots", [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const Entries<T> in(x, bags);
    C* const to = y.data<C>();
    if (in.count < bags.factors) std::fill_n(to, bags.factors, C(0));
    each_bag(bags, in, [&](int64_t first, int64_t last) {
      dots_of_bags(to, in, static_cast<const C*>(z.data<C>()), first, last);
    });
  });
}

void bag_maxima(const Tensor& y, const Tensor& at, const Tensor& x, const Bags& bags) {
  visit_float(x.dtype(), "bag_maxima", [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Entries<T> in(x, bags);
    int64_t* const rows = at.defined() ? at.data<int64_t>() : nullptr;
    each_bag(bags, in, [&](int64_t first, int64_t last) {
      largest_of_bags(y.data<T>(), rows, in, first, last);
    });
  });
}

// A counting sort. begins[r] is first the number of the entries of row r, then the end of their
// places; from the last entry to the first, each takes the place before it.
Bags transposed(const Bags& bags) {
  const int64_t* const begins = bags.begins.data<int64_t>();
  const int64_t* const row = bags.row.data<int64_t>();
  const int64_t* const number = bags.number.defined() ? bags.number.data<int64_t>() : nullptr;
  const int64_t count = begins[bags.count()];
  const Bags result{empty({bags.rows + 1}, {.dtype = kI64}), empty({count}, {.dtype = kI64}),
                    empty({count}, {.dtype = kI64}), bags.count(), bags.factors};
  int64_t* const ends = result.begins.data<int64_t>();
  int64_t* const to = result.row.data<int64_t>();
  int64_t* const numbers = result.number.data<int64_t>();
  std::fill_n(ends, bags.rows + 1, 0);
  for (int64_t j = 0; j < count; ++j) ++ends[row[j]];
  for (int64_t r = 1; r <= bags.rows; ++r) ends[r] += ends[r - 1];
  for (int64_t bag = bags.count() - 1; bag >= 0; --bag) {
    for (int64_t j = begins[bag + 1] - 1; j >= begins[bag]; --j) {
      const int64_t place = --ends[row[j]];
      to[place] = bag;
      numbers[place] = number != nullptr ? number[j] : j;
    }
  }
  return result;
}

}  // namespace lathe::cpu
