// See geometry.h.
#include "geometry.h"

#include <algorithm>
#include <numeric>

namespace lathe::programs {

namespace {

/// A look whose position `at` shows source(at).
template <class Source>
Look look(const Shape& to, const Shape& from, Source source) {
  Look result{to, {}};
  each_position(to, [&](const Dims& at) {
    result.from.push_back(static_cast<int>(index_of(source(at), from)));
  });
  return result;
}

Look stepped(const Shape& from, int dim, int64_t start, int64_t size, int64_t step) {
  Shape to = from;
  to[dim] = size;
  return look(to, from, [=](Dims at) {
    at[dim] = start + at[dim] * step;
    return at;
  });
}

Look same_order(const Shape& to) {
  Look result{to, std::vector<int>(static_cast<size_t>(count(to)))};
  std::iota(result.from.begin(), result.from.end(), 0);
  return result;
}

}  // namespace

Look look_of(const Statement& s, const Shape& from) {
  const int dim = static_cast<int>(s.i);
  Shape to = from;
  switch (s.op) {
    case Op::kNarrow: return stepped(from, dim, s.j, s.k, 1);
    case Op::kSlice: return stepped(from, dim, s.j, (s.k - s.j + s.l - 1) / s.l, s.l);
    case Op::kSelect:
      to.erase(dim);
      return look(to, from, [&](Dims at) {
        at.insert(dim, s.j);
        return at;
      });
    case Op::kTranspose:
      std::swap(to[dim], to[static_cast<int>(s.j)]);
      return look(to, from, [&](Dims at) {
        std::swap(at[dim], at[static_cast<int>(s.j)]);
        return at;
      });
    case Op::kPermute:
      for (int d = 0; d < from.size(); ++d) to[d] = from[static_cast<int>(s.dims[d])];
      return look(to, from, [&](const Dims& at) {
        Dims source = at;
        for (int d = 0; d < from.size(); ++d) source[static_cast<int>(s.dims[d])] = at[d];
        return source;
      });
    case Op::kExpand: return {s.dims, broadcast_index(from, s.dims)};
    case Op::kUnsqueeze: to.insert(dim, 1); return same_order(to);
    default: return same_order(s.dims);  // kView, kReshape
  }
}

}  // namespace lathe::programs
