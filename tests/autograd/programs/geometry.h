// Where the elements of a view lie: naive, from positions alone.
#pragma once

#include <optional>
#include <vector>

#include "program.h"

namespace lathe::programs {

inline int64_t count(const Shape& shape) {
  int64_t n = 1;
  for (const int64_t size : shape) n *= size;
  return n;
}

/// Calls f(position) in row-major order.
template <class F>
void each_position(const Shape& shape, F f) {
  Dims at = shape;
  for (int d = 0; d < shape.size(); ++d) at[d] = 0;
  for (int64_t n = count(shape); n > 0; --n) {
    f(at);
    for (int d = shape.size() - 1; d >= 0 && ++at[d] == shape[d]; --d) at[d] = 0;
  }
}

/// The row-major number of a position.
inline int64_t index_of(const Dims& at, const Shape& shape) {
  int64_t n = 0;
  for (int d = 0; d < shape.size(); ++d) n = n * shape[d] + at[d];
  return n;
}

/// The element of `from` that stands at each position of `to` when it is broadcast.
inline std::vector<int> broadcast_index(const Shape& from, const Shape& to) {
  std::vector<int> index;
  each_position(to, [&](const Dims& at) {
    Dims source = from;
    for (int d = 0; d < from.size(); ++d) {
      source[d] = from[d] == 1 ? 0 : at[d + to.size() - from.size()];
    }
    index.push_back(static_cast<int>(index_of(source, from)));
  });
  return index;
}

/// The shape that two shapes broadcast to, if they do.
inline std::optional<Shape> broadcast(const Shape& a, const Shape& b) {
  Shape out = a.size() >= b.size() ? a : b;
  for (int d = 1; d <= out.size(); ++d) {
    const int64_t p = d <= a.size() ? a[a.size() - d] : 1, q = d <= b.size() ? b[b.size() - d] : 1;
    if (p != q && p != 1 && q != 1) return std::nullopt;
    out[out.size() - d] = p == 1 ? q : p;
  }
  return out;
}

struct Look {
  Shape shape;
  std::vector<int> from;  // of each element: its number in what is looked at
};

/// The view that `s` makes of a tensor of this shape (kAsStrided and kDetach excepted).
Look look_of(const Statement& s, const Shape& shape);

}  // namespace lathe::programs
